"""One-step-ahead residuals of a growing series, in units that make a p-value: for spikes and jumps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

LEVEL_WINDOW = 8
"""The newest value is predicted by the median of this many before it."""

FEWEST = 16
"""No alarm before this many residuals: their scale would not be known."""

HISTORY = 512
"""Residuals that scale and tail are read off; older ones are forgotten, so that memory stays flat."""

_DEGREES = np.concatenate([np.arange(1.0, 5.0, 0.1), np.arange(5.0, 31.0, 1.0)])
_RATIOS = stdtrit(_DEGREES, 0.975) / stdtrit(_DEGREES, 0.75)
_FAR_RATIOS = stdtrit(_DEGREES, 0.995) / stdtrit(_DEGREES, 0.75)
_ENOUGH_FAR = 200


@dataclass(frozen=True, slots=True)
class Residual:
    """The newest value against its prediction.

    `size` is the residual over the scale of past ones (robust, as a standard deviation of normal values
    would be), `p` the chance of one as large upwards under a Student t law with the past ones' own tail,
    `degrees` its degrees of freedom, `n` how many past residuals there were.
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
    last 512 steps: their median, and the degrees of freedom at which a Student t law has the same ratio of
    a far quantile (97.5%, from 200 residuals on 99.5%) to the 75% quantile, two standard errors heavier. A
    value that raised an alarm is kept out of the history by the caller's `forget`.
    """

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=LEVEL_WINDOW)
        self._residuals: deque[float] = deque(maxlen=HISTORY)

    def update(self, value: float) -> Residual | None:
        """Take one value; return its residual, None while there are too few before it."""
        found = None
        if len(self._values) == LEVEL_WINDOW:
            predicted = float(np.median(self._values))
            if len(self._residuals) >= FEWEST:
                found = self._judge(value, predicted)
            self._residuals.append(value - predicted)
        self._values.append(value)
        return found

    def forget(self) -> None:
        """Take the latest value out of the history, which it would spoil."""
        self._values.pop()
        self._residuals.pop()

    def _judge(self, value: float, predicted: float) -> Residual:
        past = np.abs(np.array(self._residuals))
        middle = float(np.median(past))
        n = len(past)
        if middle <= 0:
            return Residual(value, predicted, float("nan"), 1.0, 1.0, n)
        degrees = tail_degrees(past, middle)
        p = upper_tail(value - predicted, middle, degrees)
        return Residual(value, predicted, (value - predicted) * 0.67449 / middle, p, degrees, n)


def upper_tail(size: float, middle: float, degrees: float) -> float:
    """Return the chance of more than `size` under a Student t law whose median absolute value is `middle`.

    >>> round(upper_tail(1.0, 1.0, 5.0), 12)
    0.25
    """
    return float(stdtr(degrees, -size * stdtrit(degrees, 0.75) / middle))


def tail_degrees(absolute: np.ndarray, middle: float) -> float:
    """Return the degrees of freedom of a Student t law with the tail of these absolute values.

    The ratio of the far quantile to the median is taken two standard errors up: of the two errors, the one
    that costs power is the better one.
    """
    n = len(absolute)
    far, ratios = (0.99, _FAR_RATIOS) if n >= _ENOUGH_FAR else (0.95, _RATIOS)
    above = min(1.0, far + 2.0 * np.sqrt(far * (1.0 - far) / n))
    ratio = float(np.quantile(absolute, above)) / middle
    return float(np.interp(-ratio, -ratios, _DEGREES))
