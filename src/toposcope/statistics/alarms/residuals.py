"""One-step-ahead residuals of a growing series, with p-values: for spikes and jumps; and its levels."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

Value = TypeVar("Value", float, np.ndarray)

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
_LIGHTEST = float(_DEGREES[-1])
_BLOCK = (64, 8192)
"""How many values `pass_over` judges together: at first, and at most (8 MB of windows)."""
_TOGETHER = 1 << 18
"""The fewest levels that are made together: 2 MB."""
_MARGIN = 1.0 + 1e-6
"""An array's p-value may differ from a number's in its last digits; `update` decides within this factor."""


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
        self.block = _BLOCK[0]
        """How many values `pass_over` should be given: twice as many as it took before, within limits."""

    def update(self, value: float) -> Residual | None:
        """Take one finite value; return its residual, or None while there are too few earlier values."""
        surprise = None
        if len(self._values) == LEVEL_WINDOW:
            predicted = _median(sorted(self._values))
            if len(self._residuals) >= FEWEST:
                surprise = self._judge(value, predicted)
            self._remember(value - predicted)
        self._values.append(value)
        return surprise

    def pass_over(self, values: np.ndarray, level: float) -> int:
        """Take the values before the first whose p may be at most `level`; return how many.

        The state is then the same as after `update` with each of them. `values` are finite, of shape (n,).
        """
        if len(self._residuals) < HISTORY or not len(values):
            return 0
        series = np.concatenate([self._values, values])
        predicted = _median(list(np.sort(_windows(series[:-1], LEVEL_WINDOW), axis=1).T))
        residuals = np.concatenate([self._residuals, values - predicted])
        taken = self._before_doubt(residuals, level)
        self.block = min(max(2 * taken, _BLOCK[0]), _BLOCK[1])
        if taken:
            self._values.extend(series[taken : taken + LEVEL_WINDOW].tolist())
            self._residuals = deque(residuals[taken : taken + HISTORY].tolist())
            self._sizes = sorted(map(abs, self._residuals))
        return taken

    def _before_doubt(self, residuals: np.ndarray, level: float) -> int:
        """Return how many residuals after the first 128 come before one whose p may be at most `level`."""
        from scipy.special import stdtrit

        newest = residuals[HISTORY:]
        # no tail is lighter than that with most degrees, and no scale smaller than the floor
        least = -self._floor * stdtrit(_LIGHTEST, max(level, 1e-300)) / stdtrit(_LIGHTEST, 0.75)
        high = np.flatnonzero(newest > (least / _MARGIN if level < 0.25 else -np.inf))
        past = _windows(residuals[:-1], HISTORY)[high]
        sizes = np.sort(np.abs(past), axis=1)
        varied = _median(list(sizes.T)) > 0
        ascending, high = list(sizes[varied].T), high[varied]
        middle = _median(ascending)
        degrees = np.maximum(self._least, tail_degrees(ascending, middle))
        p = upper_tail(newest[high], np.hypot(middle, self._floor), degrees)
        doubtful = high[p <= level * _MARGIN]
        return int(doubtful[0]) if len(doubtful) else len(newest)

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
        degrees = max(self._least, float(tail_degrees(self._sizes, middle)))
        middle = float(np.hypot(middle, self._floor))
        p = float(upper_tail(value - predicted, middle, degrees))
        return Residual(value, predicted, (value - predicted) * _QUARTILE / middle, p, degrees, n)


def _windows(values: np.ndarray, width: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(values, width)


def _median(ascending: Sequence[Value]) -> Value:
    """Return the median of sorted numbers; for few of them, numpy's takes 30 times as long."""
    half = len(ascending) // 2
    return ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2.0


def upper_tail(size: Value, middle: Value, degrees: Value) -> Value:
    """Return the probability of more than `size` under a Student t law with median absolute value `middle`.

    >>> round(float(upper_tail(1.0, 1.0, 5.0)), 12)
    0.25
    """
    from scipy.special import stdtr, stdtrit  # here, because loading it takes a fifth of a second

    p: Value = stdtr(degrees, -size * stdtrit(degrees, 0.75) / middle)
    return p


@cache
def _ratios() -> np.ndarray:
    """Return the ratio of the 97.5% to the 75% quantile for each of `_DEGREES`."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(_DEGREES, 0.975) / stdtrit(_DEGREES, 0.75))


def tail_degrees(absolute: Sequence[Value], middle: Value) -> Value:
    """Return the degrees of freedom of a Student t law with the tail of these ascending absolute values.

    The ratio of the far quantile to the median is raised by two standard errors: losing power is better than
    raising false alarms.
    """
    n = len(absolute)
    above = min(1.0, _FAR + 2.0 * math.sqrt(_FAR * (1.0 - _FAR) / n))
    ratio = _quantile(absolute, above) / middle
    degrees: Value = np.interp(-ratio, -_ratios(), _DEGREES)
    return degrees


def _quantile(ascending: Sequence[Value], share: float) -> Value:
    """Return the quantile of sorted numbers, interpolated linearly: numpy's, to the last bit."""
    at = (len(ascending) - 1) * share
    place = min(int(at), len(ascending) - 2)
    low, high, part = ascending[place], ascending[place + 1], at - place
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)


def levels(values: np.ndarray, window: int) -> np.ndarray:
    """Return the median of every `window` consecutive values, shape (n - window + 1,)."""
    import pandas as pd

    # pandas needs four times the memory of its values
    medians, together = np.empty(max(len(values) - window + 1, 0)), max(_TOGETHER, 4 * window)
    for first in range(0, len(medians), together):
        part = pd.Series(values[first : first + together + window - 1], copy=False)
        medians[first : first + together] = part.rolling(window).median().to_numpy()[window - 1 :]
    return medians


def lowest_level(values: np.ndarray, window: int) -> tuple[int, float]:
    """Return place and value of the first lowest of `levels`, without computing all of them.

    A window's lower middle value is at most v if half of its values are. Bisection finds the lowest v for
    which a window has that; only windows whose lower middle value is at most its median can be as low.
    """
    half, ascending = (window + 1) // 2, np.sort(values)
    first, last = 0, len(values) - 1
    while first < last:
        middle = (first + last) // 2
        if len(_windows_to(ascending[middle], values, window, half, most=1)):
            last = middle
        else:
            first = middle + 1
    some = int(_windows_to(ascending[first], values, window, half, most=1)[0])
    median = float(np.median(values[some : some + window]))
    low = _windows_to(median, values, window, half)
    if window % 2:  # the lower middle value is the median: each of them has the lowest
        return int(low[0]), median
    near = levels(values[low[0] : low[-1] + window], window)
    at = int(np.argmin(near))
    return int(low[0]) + at, float(near[at])


def _windows_to(
    limit: float, values: np.ndarray, window: int, fewest: int, *, most: int | None = None
) -> np.ndarray:
    """Return where windows of values begin of which `fewest` are at most `limit`; with `most`, the first."""
    places: list[np.ndarray] = []
    together = max(_TOGETHER, 4 * window)
    for first in range(0, len(values) - window + 1, together):
        count = np.zeros(min(together + window, len(values) + 1 - first), np.int32)
        np.cumsum(values[first : first + together + window - 1] <= limit, dtype=np.int32, out=count[1:])
        places.append(first + np.flatnonzero(count[window:] - count[:-window] >= fewest))
        if most is not None and len(places[-1]):
            break
    return np.concatenate(places)
