"""A loss that hardly moves any more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from toposcope.logs.remarks import PLATEAU
from toposcope.rules.accuracy import ACCURACY
from toposcope.rules.diverging import KINDS as RISES
from toposcope.rules.rises import FEWEST, LEAST, WON
from toposcope.rules.rule import HEALTH_RATE, LOOK, NOTICED, JudgedRun, Remark, Rule

FLAT = 0.005
"""A run whose loss surely falls by less than this share per doubling of steps is on a plateau."""
_SURE = 2.33
"""Standard errors of a slope for a one-sided 1% test."""
_MEDIANS = 20
"""The number of medians of consecutive losses through which the slope is fitted."""


class Plateau(Rule):
    """Over the last half of the steps the loss falls by less than .5% per doubling of steps, for sure.

    It is not reported if the rate has yet to fall, nor for a loss of less than 1% of the run's fall. A run
    that has ended can no longer be helped: then it is noticed.
    """

    name = PLATEAU
    unless = (ACCURACY, *RISES)
    rate = HEALTH_RATE
    next = "lower the learning rate, or stop"
    says = "since step N the loss hardly moves: -0.1% +- 0.05% per doubling of steps"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Fit a slope on the logarithm of the steps to medians of the losses of the last half."""
        if run.anneals or len(run.losses) < FEWEST:
            return []
        step, loss = run.losses["step"].to_numpy(), run.losses["loss"].to_numpy(float)
        solved = float(np.median(loss[-LEAST // 2 :])) < WON * run.scale.won
        if np.count_nonzero(loss) < LEAST or solved:
            return []
        if not (above := loss > 0).all():
            step, loss = step[above], loss[above]
        late = step > step[-1] / 2
        if late.sum() < LEAST:
            return []
        slope, error = _slope(np.log2(step[late]), np.log(loss[late]))
        if -slope + _SURE * error >= FLAT or slope - _SURE * error > FLAT:
            return []
        at = int(step[late][0])
        moves = f"{slope:+.2%} +- {_SURE * error:.2%} per doubling of steps"
        sentence = f"since step {at:,} the loss hardly moves: {moves}"
        if run.ended:
            return [Remark(NOTICED, PLATEAU, at, sentence)]
        return [Remark(LOOK, PLATEAU, at, sentence, "lower the learning rate, or stop")]


def _slope(place: np.ndarray, log: np.ndarray) -> tuple[float, float]:
    """Return slope and standard error of the line through medians of consecutive losses."""
    groups = np.array_split(np.arange(len(place)), _MEDIANS)
    u = np.array([place[group].mean() for group in groups])
    v = np.array([np.median(log[group]) for group in groups])
    centred = u - u.mean()
    slope = float(centred @ v / (centred @ centred))
    rest = float(np.sum((v - v.mean() - slope * centred) ** 2))
    return slope, math.sqrt(rest / (_MEDIANS - 2) / float(centred @ centred))
