"""Optimal matchings of planar points, for distances between persistence diagrams."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def monotone_saving(
    first: np.ndarray, second: np.ndarray, apart: float, order: int, use_max: bool, diagonal: tuple
) -> float:
    """Return the least sum of matched costs minus the diagonal costs they replace, points on two lines.

    `first` and `second` are the sorted deaths of two diagrams with one birth each, `apart` from each other,
    and `diagonal` holds their costs of going to the diagonal. The cost of a match is convex in the
    difference of the deaths, so that some best matching keeps the order: a table over prefixes finds it.
    """
    best = np.zeros(len(second) + 1)
    for i in range(len(first)):
        before = 0.0  # best[j] as it was for i - 1 points of the first diagram
        for j in range(len(second)):
            gap = abs(first[i] - second[j])
            length = max(apart, gap) if use_max else np.sqrt(apart * apart + gap * gap)
            cost = length if order == 1 else length * length
            matched = before + cost - diagonal[0][i] - diagonal[1][j]
            before = best[j + 1]
            best[j + 1] = min(matched, min(before, best[j]))
    return best[len(second)]


@njit(cache=True, nogil=True)
def savings(first: np.ndarray, second: np.ndarray, order: int, use_max: bool, diagonal: tuple) -> np.ndarray:
    """Return for all pairs of points what matching them costs less their diagonal costs, 0 if that is more."""
    saved = np.empty((len(first), len(second)))
    for i in range(len(first)):
        for j in range(len(second)):
            across, up = abs(first[i, 0] - second[j, 0]), abs(first[i, 1] - second[j, 1])
            square = max(across, up) ** 2 if use_max else across * across + up * up
            cost = np.sqrt(square) if order == 1 else square
            saved[i, j] = min(cost - diagonal[0][i] - diagonal[1][j], 0.0)
    return saved


@njit(cache=True, nogil=True)
def can_cover(needy: np.ndarray, points: np.ndarray, radius: float) -> bool:
    """Return whether all of `needy` (k, 2) can be matched to different `points` within L-infinity `radius`.

    `points` (n, 2) are sorted by their second column. Kuhn's augmenting paths, breadth first.
    """
    n = len(points)
    owner = np.full(n, -1, np.int64)
    seen = np.full(n, -1, np.int64)
    came_from = np.empty(n, np.int64)
    match = np.full(len(needy), -1, np.int64)
    queue = np.empty(len(needy) + 1, np.int64)
    for start in range(len(needy)):
        head, tail, free = 0, 1, -1
        queue[0] = start
        while head < tail and free < 0:
            a = queue[head]
            head += 1
            at = np.searchsorted(points[:, 1], needy[a, 1] - radius)
            while at < n and points[at, 1] <= needy[a, 1] + radius:
                if seen[at] != start and abs(points[at, 0] - needy[a, 0]) <= radius:
                    seen[at] = start
                    came_from[at] = a
                    if owner[at] < 0:
                        free = at
                        break
                    queue[tail] = owner[at]
                    tail += 1
                at += 1
        if free < 0:
            return False
        while free >= 0:  # turn the path around
            a = came_from[free]
            owner[free] = a
            free, match[a] = match[a], free
    return True


@njit(cache=True, nogil=True)
def distances_between(first: np.ndarray, second: np.ndarray, above: float, up_to: float) -> np.ndarray:
    """Return the L-infinity distances between the points of two sets that lie in (above, up_to]."""
    count = 0
    for a in range(len(first)):
        for b in range(len(second)):
            apart = max(abs(first[a, 0] - second[b, 0]), abs(first[a, 1] - second[b, 1]))
            count += above < apart <= up_to
    found = np.empty(count)
    at = 0
    for a in range(len(first)):
        for b in range(len(second)):
            apart = max(abs(first[a, 0] - second[b, 0]), abs(first[a, 1] - second[b, 1]))
            if above < apart <= up_to:
                found[at] = apart
                at += 1
    return found
