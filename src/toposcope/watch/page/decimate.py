"""Thins a trace to the smallest and largest value of each pixel, so that its drawing looks the same."""

from __future__ import annotations

import numpy as np

MOST = 1500
"""The largest number of points of a trace that are sent to a browser."""

_GAPS = 50
"""Only the first gaps of a trace are kept, at most this many; they take at most a quarter of its points."""


def decimate(step: np.ndarray, value: np.ndarray, *, most: int = MOST, log: bool = False) -> np.ndarray:
    """Return the ascending indices of at most `most` points that draw the same line.

    Steps are divided into buckets of equal width (on log step with `log`). Each bucket keeps its smallest and
    largest value, so that no spike is lost; the first and the last point stay. Values that are not finite are
    gaps; the first 50 are kept.

    Parameters
    ----------
    step
        (n,) ascending.
    value
        (n,).

    Examples
    --------
    >>> value = np.zeros(10_000)
    >>> value[1234] = 9
    >>> kept = decimate(np.arange(10_000), value, most=100)
    >>> len(kept) <= 100, 1234 in kept
    (True, True)
    """
    if len(step) <= most:
        return np.arange(len(step))
    finite = np.flatnonzero(np.isfinite(value))
    gaps = np.flatnonzero(~np.isfinite(value))[: min(_GAPS, most // 4)]
    room = max((most - len(gaps) - 2) // 2, 1)
    selected = [gaps]
    if len(finite):
        place = np.log1p(step[finite] - step[0]) if log else (step[finite] - step[0]).astype(float)
        bucket = np.minimum((place / max(place[-1], 1e-300) * room).astype(int), room - 1)
        order = np.lexsort((value[finite], bucket))
        ends = np.flatnonzero(np.diff(bucket[order], prepend=-1, append=-1))
        selected += [finite[[0, -1]], finite[order[ends[:-1]]], finite[order[ends[1:] - 1]]]
    return np.unique(np.concatenate(selected))
