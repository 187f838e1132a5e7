"""One-step-ahead residuals of a growing series, with p-values: for spikes and jumps."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

LEVEL_WINDOW = 8
"""The newest value is predicted by the median of this many before it."""

FEWEST = 16
"""The fewest residuals before an alarm; with fewer, their scale is unknown."""

FIRST = LEVEL_WINDOW + FEWEST + 1
"""The first value that can be called a spike."""

HISTORY = 128
"""Scale and tail come from this many residuals; older ones belong to another part of the run."""

LEAST_DEGREES = 3.0
"""The heaviest tail assumed: an apparently heavier one is more often a trend in the scale."""

# Degrees of freedom for the table of the ratio of far quantile to median: from 1 (Cauchy) to 30 (normal).
_DEGREES = np.concatenate([np.arange(1.0, 5.0, 0.1), np.arange(5.0, 31.0, 1.0)])
_FAR, _QUARTILE = 0.95, 0.67449
"""The quantile of |residuals| that determines the tail, and the quartile of a normal value."""
_RATIOS = stdtrit(_DEGREES, 0.975) / stdtrit(_DEGREES, 0.75)


@dataclass(frozen=True, slots=True)
class Residual:
    """The newest value against its prediction.

    `size` is the residual over the robust scale of past ones (equal to the standard deviation for normal
    values), `p` the probability of an upward residual at least as large under a Student t law with the tail
    of past ones, `degrees` its degrees of freedom, `n` the number of past residuals.
    """

    value: float
    predicted: float
    size: float
    p: float
    degrees: float
    n: int


class OneStepAhead:
    """Predicts each value of a series from those before it, and judges the difference.

    The prediction is the median of the last 8 values. Scale and tail come from the absolute residuals of the
    last 128 steps: their median, and the degrees of freedom (at least `least_degrees`) at which a Student t
    law has the same ratio of the 97.5% to the 75% quantile, made two standard errors heavier. The caller
    removes a value that raised an alarm from the history with `forget`. `floor` is added to the scale in
    quadrature, so that a small move of a very steady series raises no alarm.
    """

    def __init__(self, *, floor: float = 0.0, least_degrees: float = LEAST_DEGREES) -> None:
        self._floor, self._least = floor * _QUARTILE, least_degrees
        self._values: deque[float] = deque(maxlen=LEVEL_WINDOW)
        self._residuals: deque[float] = deque()
        self._sizes: list[float] = []
        """The absolute residuals, ascending: an insertion costs a tenth of sorting all of them again."""

    def update(self, value: float) -> Residual | None:
        """Take one finite value; return its residual, or None while there are too few earlier values."""
        found = None
        if len(self._values) == LEVEL_WINDOW:
            predicted = _median(sorted(self._values))
            if len(self._residuals) >= FEWEST:
                found = self._judge(value, predicted)
            self._remember(value - predicted)
        self._values.append(value)
        return found

    def forget(self) -> None:
        """Remove the latest value from the history, because it would distort it."""
        self._values.pop()
        self._drop(self._residuals.pop())

    def _remember(self, residual: float) -> None:
        if len(self._residuals) == HISTORY:
            self._drop(self._residuals.popleft())
        self._residuals.append(residual)
        insort(self._sizes, abs(residual))

    def _drop(self, residual: float) -> None:
        del self._sizes[bisect_left(self._sizes, abs(residual))]

    def _judge(self, value: float, predicted: float) -> Residual:
        middle, n = _median(self._sizes), len(self._sizes)
        if middle <= 0:
            return Residual(value, predicted, float("nan"), 1.0, 1.0, n)
        degrees = max(self._least, tail_degrees(self._sizes, middle))
        middle = float(np.hypot(middle, self._floor))
        p = upper_tail(value - predicted, middle, degrees)
        return Residual(value, predicted, (value - predicted) * _QUARTILE / middle, p, degrees, n)


def _median(ascending: Sequence[float]) -> float:
    """Return the median of sorted numbers; for few of them, numpy's takes 30 times as long."""
    half = len(ascending) // 2
    return ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2.0


def upper_tail(size: float, middle: float, degrees: float) -> float:
    """Return the probability of more than `size` under a Student t law with median absolute value `middle`.

    >>> round(upper_tail(1.0, 1.0, 5.0), 12)
    0.25
    """
    return float(stdtr(degrees, -size * stdtrit(degrees, 0.75) / middle))


def tail_degrees(absolute: Sequence[float], middle: float) -> float:
    """Return the degrees of freedom of a Student t law with the tail of these ascending absolute values.

    The ratio of the far quantile to the median is raised by two standard errors: losing power is better than
    raising false alarms.
    """
    n = len(absolute)
    above = min(1.0, _FAR + 2.0 * math.sqrt(_FAR * (1.0 - _FAR) / n))
    ratio = _quantile(absolute, above) / middle
    return float(np.interp(-ratio, -_RATIOS, _DEGREES))


def _quantile(ascending: Sequence[float], share: float) -> float:
    """Return the quantile of sorted numbers, interpolated linearly: numpy's, to the last bit."""
    at = (len(ascending) - 1) * share
    place = min(int(at), len(ascending) - 2)
    low, high, part = ascending[place], ascending[place + 1], at - place
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)
