"""Isolated glitches in a loss log: single values that do not fit the curve.

What the limits were set on is not recorded. None of 37 real runs has a glitch by them
(docs/forecasting-input.md, "Glitches"); `benchmarks.forecast_families` plants glitches in simulated runs.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

HALF_WINDOW = 5
"""Losses on either side in the running median of eleven: `MOST_IN_A_ROW` of them hardly move it."""
_LOCAL = 51
"""The number of deviations for the local spread: the noise is larger where the loss is higher."""
SPREADS = 10.0
"""A glitch differs from the running median by at least this many robust standard deviations."""
LEAST = 0.25
"""It also differs by at least this log loss: losses within 28% of their neighbours are noise."""
MOST_IN_A_ROW = 3
"""More deviating values in a row are a spike, which training itself can cause, so they stay."""
_BEFORE = 2 * MOST_IN_A_ROW + 1
"""Values before it with whose median a value is compared: a glitch is never half of them."""
FEWEST = 30
"""The fewest losses for a search: with fewer, the spread is not known well enough."""
_EARLY = HALF_WINDOW + MOST_IN_A_ROW
"""Among so many first values, three wrong ones may be half of a window: they are held against neighbours."""
_TOGETHER = 1 << 18
"""Medians that are made together: 2 MB."""
_FIRST = np.log(20.0)
"""The first value is a glitch if it lies this log loss above the second: initial losses are high, not 20x."""


def glitches(loss: np.ndarray) -> np.ndarray:
    """Return which losses are isolated glitches, bool of shape (n,).

    A glitch has |log loss - running median of 11| > max(10 x 1.4826 MAD, 0.25), where MAD is the larger of
    the MADs of these differences over all losses and over the nearest 51; at most three in a row. The window
    shrinks towards both ends. The last three losses are compared with the seven before them, the first loss
    with 20 times the second. Of the first eight, up to three in a row are glitches that lie as far above the
    loss before them, while the one after them does not, or as far below the loss after them, while the one
    before does not.

    Parameters
    ----------
    loss : float64, shape (n,), positive, by step.

    Examples
    --------
    >>> loss = 3.0 + 2.0 / np.sqrt(np.arange(1.0, 41.0))
    >>> loss[20] *= 1e4
    >>> np.flatnonzero(glitches(loss)).tolist()
    [20]
    """
    n = len(loss)
    found = np.zeros(n, dtype=bool)
    if n < FEWEST:
        return found
    size, begin = _off(loss), np.log(loss[:FEWEST])
    np.abs(size, out=size)
    middle = np.median(size)
    limit = medians_around(size, _LOCAL, 1)
    np.maximum(middle, limit, out=limit)
    limit *= SPREADS * 1.4826
    np.maximum(limit, LEAST, out=limit)
    found = size > limit
    found[:_EARLY] = _early(begin, limit)[:_EARLY]
    found[0] = begin[0] - begin[1] > _FIRST
    edges = np.flatnonzero(np.diff(np.r_[False, found, False]))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if stop - start > MOST_IN_A_ROW:
            found[start:stop] = False
    return found


def _off(loss: np.ndarray) -> np.ndarray:
    """Return how far each log loss is from the running median, float64 of shape (n,)."""
    n, log = len(loss), np.log(loss)
    off = medians_around(log, 2 * HALF_WINDOW + 1, HALF_WINDOW + 1)
    np.subtract(log, off, out=off)
    for i in range(HALF_WINDOW):  # symmetric windows, so that the start of a falling curve does not deviate
        off[i] = log[i] - np.median(log[: 2 * i + 1])
        off[n - 1 - i] = log[n - 1 - i] - np.median(log[n - 1 - 2 * i :])
    last = n - MOST_IN_A_ROW
    off[last:] = log[last:] - np.median(log[last - _BEFORE : last])
    return off


def medians_around(values: np.ndarray, width: int, fewest: int) -> np.ndarray:
    """Return the median of the `width` values around each, an odd number; NaN for fewer than `fewest`.

    Towards both ends, there are fewer. pandas needs four times the memory of its values, so a long series is
    taken in parts that overlap.

    >>> medians_around(np.array([1.0, 5.0, 2.0, 9.0]), 3, 2).tolist()
    [3.0, 2.0, 5.0, 5.5]
    """
    medians, half = np.empty(len(values)), width // 2
    for first in range(0, len(values), _TOGETHER):
        start, stop = max(first - half, 0), first + _TOGETHER
        part = pd.Series(values[start : stop + half], copy=False)
        around = part.rolling(width, center=True, min_periods=fewest).median().to_numpy()
        medians[first:stop] = around[first - start : stop - start]
    return medians


def _early(log: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return which of the first values stand out from their neighbours on both sides, bool of shape (n,).

    A loss that falls is below what came before and above what comes after: a spike is above the loss before
    it, and a dip below the loss after it.
    """
    found = np.zeros(len(log), dtype=bool)
    place = 2  # the first loss may be a glitch by itself, so the second is compared with nothing
    while place <= min(_EARLY + MOST_IN_A_ROW, len(log) - 1):  # a dip is seen where it ends
        if not log[place] - log[place - 1] > limit[place]:
            place += 1
            continue
        stop = _spike_end(log, place, limit[place])
        if stop > place:
            found[place:stop] = True
        else:
            start = place
            while start > 1 and log[place] - log[start - 1] > limit[place]:
                start -= 1
            found[start:place] = place - start <= MOST_IN_A_ROW and start > 1
        place = max(stop, place) + 1
    return found


def _spike_end(log: np.ndarray, place: int, limit: float) -> int:
    """Return where a spike that begins at a place has ended; the place itself if it is none.

    Its losses, up to three, lie above the line from the loss before it to the loss after it, which is back.
    """
    for stop in range(min(place + MOST_IN_A_ROW, len(log) - 1), place, -1):
        line = np.linspace(log[place - 1], log[stop], stop - place + 2)[1:-1]
        back = log[stop] - log[place - 1] <= limit
        if back and bool((log[place:stop] - line > limit).all()):
            return stop
    return place
