"""A held-out loss that rises while the training loss falls.

The rates are in docs/forecasting-evidence.md, "How often the health of a loss curve is right". No constant
was set on the runs and draws of that table (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from toposcope.logs.symptoms import OVERFITTING, Symptom
from toposcope.rules.rises import levels, noise, scaled

RISEN = 0.03
"""Each of the last three held-out losses must exceed the lowest level of three by this log loss."""
SPREADS = 4.0
"""They must also exceed it by this many standard errors of such a level."""
FEWEST = 8
"""The fewest losses of each kind for a judgement."""
_WINDOW = 3
"""The number of held-out losses whose median is a level; the last ones must all exceed the lowest level."""


def overfitting(train: pd.DataFrame, held: pd.DataFrame) -> Symptom | None:
    """Return the symptom if the held-out loss rises while the training loss still falls, else None.

    Both tables have columns step and loss, one row per logged loss, sorted by step.
    """
    if len(held) < FEWEST or len(train) < FEWEST:
        return None
    step, scale = held["step"].to_numpy(float), scaled(held["loss"].to_numpy(float))
    of = levels(scale.value, _WINDOW)
    low = int(np.argmin(of))
    level, now = float(of[low]), float(scale.value[-_WINDOW:].min())
    error = 1.2533 * noise(scale.value) / math.sqrt(_WINDOW)
    if now - level <= max(RISEN, SPREADS * error) or scale.share(level, now) < scale.trifle:
        return None
    at = step[low + _WINDOW // 2]
    was, last = _level_at(train, at), _level_at(train, float(step[-1]))
    if last >= was:
        return None
    held_now = scale.loss(float(of[-1]))
    ground = (
        f"the held-out loss rose from {scale.loss(level):.3g} at step {int(at):,} to {held_now:.3g} at step "
        f"{int(step[-1]):,}, while the training loss fell from {was:.3g} to {last:.3g}"
    )
    remedy = f"take a checkpoint near step {int(at):,}, or use more data or regularization"
    return Symptom(OVERFITTING, int(at), ground, remedy)


def _level_at(train: pd.DataFrame, step: float) -> float:
    """Return the median of the last 5% of the training losses up to a step, at least three."""
    seen = train.loc[train["step"] <= step, "loss"].to_numpy(float)
    if not len(seen):
        return math.inf
    return float(np.median(seen[-max(_WINDOW, len(train) // 20) :]))
