"""Isolated glitches in a loss log: single values that do not fit the curve.

None of 37 real runs has a glitch by these limits (docs/logs.md, "Glitches"); `benchmarks.forecast_families`
plants glitches in simulated runs. Half and double of each limit are judged in
docs/evidence/benchmarks-limits.csv (`python -m benchmarks.limits glitches`): as they are, 4 of 300 healthy
logs have a glitch, and 251 of 300 planted ones are found. Half of `SPREADS` gives 20 and 298, half of `LEAST`
11 and 251, double of either at most 191 of the planted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
_SAMPLED = 64
"""Of a long series, each value at such a distance says about where its median is."""
_MIDDLE = (0.45, 0.55)
"""The quantiles of these values between which the median is looked for; 4,096 of them miss it by 0.01."""
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
    spikes = np.zeros(n, dtype=bool)
    if n < FEWEST:
        return spikes
    size, begin = _off(loss), np.log(loss[:FEWEST])
    np.abs(size, out=size)
    middle, limit = median_of(size), np.empty(0)
    for part, local in medians_in_parts(size, _LOCAL, 1):
        np.maximum(middle, local, out=local)
        local *= SPREADS * 1.4826
        np.maximum(local, LEAST, out=local)
        spikes[part] = size[part] > local
        limit = limit if len(limit) else local
    spikes[:_EARLY] = _early(begin, limit)[:_EARLY]
    spikes[0] = begin[0] - begin[1] > _FIRST
    edges = np.flatnonzero(np.diff(np.r_[False, spikes, False]))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if stop - start > MOST_IN_A_ROW:
            spikes[start:stop] = False
    return spikes


def _off(loss: np.ndarray) -> np.ndarray:
    """Return how far each log loss is from the running median, float64 of shape (n,)."""
    n, off = len(loss), np.empty(len(loss))
    for part, medians in medians_in_parts(loss, 2 * HALF_WINDOW + 1, HALF_WINDOW + 1, np.log):
        np.subtract(np.log(loss[part]), medians, out=off[part])
    begin, end = np.log(loss[: 2 * HALF_WINDOW]), np.log(loss[-FEWEST:])
    for i in range(HALF_WINDOW):  # symmetric windows, so that the start of a falling curve does not deviate
        off[i] = begin[i] - np.median(begin[: 2 * i + 1])
        off[n - 1 - i] = end[-1 - i] - np.median(end[-1 - 2 * i :])
    last = -MOST_IN_A_ROW
    off[last:] = end[last:] - np.median(end[last - _BEFORE : last])
    return off


def medians_around(values: np.ndarray, width: int, fewest: int) -> np.ndarray:
    """Return the median of the `width` values around each, an odd number; NaN for fewer than `fewest`.

    Towards both ends, there are fewer. pandas needs four times the memory of its values, so a long series is
    taken in parts that overlap.

    >>> medians_around(np.array([1.0, 5.0, 2.0, 9.0]), 3, 2).tolist()
    [3.0, 2.0, 5.0, 5.5]
    """
    medians = np.empty(len(values))
    for part, around in medians_in_parts(values, width, fewest):
        medians[part] = around
    return medians


def medians_in_parts(
    values: np.ndarray, width: int, fewest: int, scale: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the places of each part of a series, and what `medians_around` says of its values on a scale."""
    half = width // 2
    for first in range(0, len(values), _TOGETHER):
        start, stop = max(first - half, 0), min(first + _TOGETHER, len(values))
        part = pd.Series(scale(values[start : stop + half]), copy=False)
        around = part.rolling(width, center=True, min_periods=fewest).median().to_numpy()
        yield slice(first, stop), around[first - start : stop - start].copy()


def median_of(values: np.ndarray) -> float:
    """Return the median of some values, to the last bit that of numpy, which needs a copy of all of them.

    >>> median_of(np.array([4.0, 1.0, 3.0, 2.0]))
    2.5
    """
    if len(values) < _TOGETHER:
        return float(np.median(values))
    low, high = np.quantile(values[::_SAMPLED], _MIDDLE)
    below = int(np.count_nonzero(values < low))
    near = values[(values >= low) & (values <= high)]
    ranks = [(len(values) - 1) // 2 - below, len(values) // 2 - below]
    if ranks[0] < 0 or ranks[1] >= len(near) or not np.isfinite(values.sum()):
        return float(np.median(values))
    near.partition(ranks)
    return float(near[ranks].mean())


def _early(log: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return which of the first values stand out from their neighbours on both sides, bool of shape (n,).

    A loss that falls is below what came before and above what comes after: a spike is above the loss before
    it, and a dip below the loss after it.
    """
    spikes = np.zeros(len(log), dtype=bool)
    place = 2  # the first loss may be a glitch by itself, so the second is compared with nothing
    while place <= min(_EARLY + MOST_IN_A_ROW, len(log) - 1):  # a dip is seen where it ends
        if not log[place] - log[place - 1] > limit[place]:
            place += 1
            continue
        stop = _spike_end(log, place, limit[place])
        if stop > place:
            spikes[place:stop] = True
        else:
            start = place
            while start > 1 and log[place] - log[start - 1] > limit[place]:
                start -= 1
            spikes[start:place] = place - start <= MOST_IN_A_ROW and start > 1
        place = max(stop, place) + 1
    return spikes


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
