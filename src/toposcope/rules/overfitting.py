"""A held-out loss that rises while the training loss falls.

The rates are in docs/forecasting-evidence.md, "How often the health of a loss curve is right". No constant
was set on the runs and draws of that table (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.rules.rises import levels, noise, scaled
from toposcope.rules.rule import LOOK, JudgedRun, Remark, Rule

OVERFITTING = "overfitting"

RISEN = 0.03
"""Each of the last three held-out losses must exceed the lowest level of three by this log loss."""
SPREADS = 4.0
"""They must also exceed it by this many standard errors of such a level."""
FEWEST = 8
"""The fewest losses of each kind for a judgement."""
_WINDOW = 3
"""The number of held-out losses whose median is a level; the last ones must all exceed the lowest level."""


class Overfitting(Rule):
    """The held-out loss rises while the training loss falls."""

    name = OVERFITTING
    reads = ("loss", "heldout_loss")
    rate = "docs/forecasting-evidence.md, How often the health of a loss curve is right"
    says = "the held-out loss rose from A at step N to B at step M, while the training loss fell from C to D"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare the last three held-out losses with the lowest level of three."""
        train, held = run.losses_of("loss"), run.losses_of("heldout_loss")
        if len(held) < FEWEST or len(train) < FEWEST:
            return []
        step, scale = held["step"].to_numpy(float), scaled(held["loss"].to_numpy(float))
        of = levels(scale.value, _WINDOW)
        low = int(np.argmin(of))
        level, now = float(of[low]), float(scale.value[-_WINDOW:].min())
        error = 1.2533 * noise(scale.value) / math.sqrt(_WINDOW)
        if now - level <= max(RISEN, SPREADS * error) or scale.share(level, now) < scale.trifle:
            return []
        at = step[low + _WINDOW // 2]
        was, last = _level_at(train, at), _level_at(train, float(step[-1]))
        if last >= was:
            return []
        held_now = scale.loss(float(of[-1]))
        sentence = (
            f"the held-out loss rose from {scale.loss(level):.3g} at step {int(at):,} to {held_now:.3g} at "
            f"step {int(step[-1]):,}, while the training loss fell from {was:.3g} to {last:.3g}"
        )
        remedy = f"take a checkpoint near step {int(at):,}, or use more data or regularization"
        return [Remark(LOOK, OVERFITTING, int(at), sentence, remedy)]


def _level_at(train: pd.DataFrame, step: float) -> float:
    """Return the median of the last 5% of the training losses up to a step, at least three."""
    seen = train.loc[train["step"] <= step, "loss"].to_numpy(float)
    if not len(seen):
        return math.inf
    return float(np.median(seen[-max(_WINDOW, len(train) // 20) :]))
