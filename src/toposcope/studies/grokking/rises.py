"""A rise from one level to another: how high it is, how it ranks among draws without one, and where it lies.

The height counts a gentle rise as it counts a jump. A wave and a smooth trend also rise, so the height alone
is no test. It is compared with the heights of a control, whose draws have the same waves and the same drift.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from toposcope.statistics.phases.noise import MODELS, factors, whitened
from toposcope.study.segments import BOUNDARY_DROP

LEAST_DRAWS = 19
"""With fewer draws of a control, p cannot reach .05."""
_FEWEST = 6
"""Values that are needed to place two levels, a start and an end."""
_MOST = 0.5
"""A move with a smaller share of a series' sum of squares is only a part of the series."""
_NINE = np.log(9.0)
"""The logistic function is 0.1 at minus this and 0.9 at plus this."""


@dataclass(frozen=True, slots=True)
class LevelMove:
    """A logistic move between two levels: when a tenth and a half of it are done, each with its 95% set."""

    start: float
    start_low: float
    start_high: float
    middle: float
    middle_low: float
    middle_high: float


def height(values: np.ndarray) -> float:
    """Return the height of the highest step up in a series: the mean after it minus the mean before it.

    The difference of means is multiplied by sqrt(k (n - k) / n), where k of n values are before the step, so
    that in white noise it has the same standard deviation at every place.

    >>> round(height(np.r_[np.zeros(8), np.ones(8)]), 6), round(height(np.linspace(0.0, 1.0, 16)), 2)
    (2.0, 1.07)
    """
    values = values[np.isfinite(values)]
    before = np.arange(1, len(values))
    low = -np.cumsum(values - values.mean())[:-1]
    return float(np.max(low / np.sqrt(before * (len(values) - before) / len(values))))


def rank(own: float, draws: Iterable[float]) -> float:
    """Return the p-value of a statistic among draws; exact if all of them are exchangeable with it.

    >>> rank(3.0, [1.0, 2.0, 3.0])
    0.5
    """
    among = np.fromiter(draws, float)
    return (1.0 + float(np.sum(among >= own))) / (1.0 + len(among))


def place(steps: np.ndarray, values: np.ndarray, sign: int) -> LevelMove | None:
    """Return where a series rises (`sign` 1) or falls (-1) from one level to another; None if it does not.

    The model: two levels, a logistic move between them whose 10% and 90% points are two of the checkpoints,
    and noise from the models of `phases.noise`, all with equal prior weight. The levels and the noise's scale
    are the maximum-likelihood values at each place. The 95% set has the places with a likelihood near the
    best. A move must explain at least half of the series' sum of squares: a jump at the start of a long rise
    does not.
    """
    finite = np.isfinite(values)
    if finite.sum() < _FEWEST:
        return None
    steps, change = np.asarray(steps, float)[finite], np.diff(values[finite])
    starts, ends = np.triu_indices(len(steps), 1)
    part = 2.0 * (steps - steps[starts, None]) / (steps[ends] - steps[starts])[:, None] - 1.0
    levels = 1.0 / (1.0 + np.exp(-_NINE * np.clip(part, -300.0, 300.0)))
    most = np.corrcoef(np.vstack([values[finite], levels]))[0, 1:] ** 2 >= _MOST
    if not most.any():
        return None
    starts, ends = starts[most], ends[most]
    profile = _likelihood(change, np.diff(levels[most], axis=1), sign)
    if not np.isfinite(profile.max()):
        return None
    inside = profile >= profile.max() - BOUNDARY_DROP
    best = int(np.argmax(profile))
    start, middle = steps[starts], (steps[starts] + steps[ends]) / 2.0
    return LevelMove(*(
        float(of) for when in (start, middle) for of in (when[best], when[inside].min(), when[inside].max())
    ))  # fmt: skip


def _likelihood(change: np.ndarray, moves: np.ndarray, sign: int) -> np.ndarray:
    """Return the log likelihood of each of the moves (d, n); -inf if it goes against the sign."""
    n = len(change)
    factor, log_det = factors(n, MODELS)
    rows = np.ascontiguousarray(np.vstack([change, moves]))
    by_model = np.empty((len(MODELS), len(moves)))
    for model, factors_of_model in enumerate(factor):
        white = whitened(rows, factors_of_model)
        towards, room = white[1:] @ white[0], np.sum(white[1:] ** 2, axis=1)
        whole = float(white[0] @ white[0])
        left = np.maximum(whole - towards**2 / room, 1e-14 * whole)
        likelihood = -0.5 * (log_det[model] + n * np.log(np.maximum(left, 1e-300)))
        by_model[model] = np.where(sign * towards > 0, likelihood, -np.inf)
    top = by_model.max()
    if not np.isfinite(top):
        return by_model[0]
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(by_model - top).sum(axis=0)))
