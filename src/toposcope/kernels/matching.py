"""Optimal matchings of planar points, for distances between persistence diagrams."""

from __future__ import annotations

import math

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel


@kernel
def monotone_cost(
    first: np.ndarray,
    second: np.ndarray,
    order: int,
    use_max: bool,
    alone_first: np.ndarray,
    alone_second: np.ndarray,
    best: np.ndarray,
) -> float:
    """Return the smallest cost of matching two diagrams (n, 2) with one birth each, sorted by their deaths.

    The cost of a match is convex in the difference of the deaths, so some best matching keeps the order, and
    a table `best` over prefixes of the second finds it (empty, one entry longer). `alone_first` and
    `alone_second` are the cost of each point alone.
    """
    best[0] = 0.0
    for j in range(len(second)):
        best[j + 1] = best[j] + alone_second[j]
    for i in range(len(first)):
        before = best[0]  # best[j] for one point less of the first diagram
        best[0] += alone_first[i]
        for j in range(len(second)):
            matched = before + _cost(first, i, second, j, order, use_max)
            before = best[j + 1]
            best[j + 1] = min(matched, min(before + alone_first[i], best[j] + alone_second[j]))
    return best[len(second)]


@kernel
def savings(
    first: np.ndarray,
    second: np.ndarray,
    order: int,
    use_max: bool,
    alone_first: np.ndarray,
    alone_second: np.ndarray,
) -> np.ndarray:
    """Return for all pairs the cost of matching them minus their costs alone; 0 if that is positive."""
    saved = np.empty((len(first), len(second)))
    for i in range(len(first)):
        for j in range(len(second)):
            cost = _cost(first, i, second, j, order, use_max)
            saved[i, j] = min(cost - alone_first[i] - alone_second[j], 0.0)
    return saved


@kernel
def matched_cost(
    first: np.ndarray,
    second: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    order: int,
    use_max: bool,
    alone_first: np.ndarray,
    alone_second: np.ndarray,
) -> float:
    """Return the cost of a matching of the points `rows` with `columns`; all others lie on the diagonal.

    `alone_first` and `alone_second` are the cost of each point alone; those of matched points become 0.
    """
    total = 0.0
    for k in range(len(rows)):
        i, j = rows[k], columns[k]
        unmatched = alone_first[i] + alone_second[j]
        alone_first[i] = alone_second[j] = 0.0
        total += min(unmatched, _cost(first, i, second, j, order, use_max))
    for i in range(len(first)):
        total += alone_first[i]
    for j in range(len(second)):
        total += alone_second[j]
    return total


@inner_kernel
def _cost(first: np.ndarray, i: int, second: np.ndarray, j: int, order: int, use_max: bool) -> float:
    """Return the ground distance of point i of the first and j of the second to the power `order`, 1 or 2."""
    across, up = abs(first[i, 0] - second[j, 0]), abs(first[i, 1] - second[j, 1])
    longer = max(across, up)
    square = longer * longer if use_max else across * across + up * up
    return math.sqrt(square) if order == 1 else square


@kernel
def can_cover(needy: np.ndarray, points: np.ndarray, radius: float) -> bool:
    """Return whether all of `needy` (k, 2) can be matched to different `points` within L-infinity `radius`.

    `points` (n, 2) are sorted by their second column. Kuhn's augmenting paths, breadth first.
    """
    n = len(points)
    owner, seen, came_from = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    match, queue = np.empty(len(needy), np.int64), np.empty(len(needy) + 1, np.int64)
    for at in range(n):
        owner[at] = seen[at] = -1
    for start in range(len(needy)):
        match[start] = -1
        head, tail, free = 0, 1, -1
        queue[0] = start
        while head < tail and free < 0:
            a = queue[head]
            head += 1
            at = _first_from(points, needy[a, 1] - radius)
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
        while free >= 0:  # flip the path
            a = came_from[free]
            owner[free] = a
            free, match[a] = match[a], free
    return True


@inner_kernel
def _first_from(points: np.ndarray, least: float) -> int:
    """Return the first of the sorted points whose second coordinate is at least `least`."""
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        if points[middle, 1] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def distances_between(first: np.ndarray, second: np.ndarray, above: float, up_to: float) -> np.ndarray:
    """Return the L-infinity distances between the points of two sets that lie in (above, up_to]."""
    count = 0
    for a in range(len(first)):
        for b in range(len(second)):
            distance = max(abs(first[a, 0] - second[b, 0]), abs(first[a, 1] - second[b, 1]))
            count += above < distance <= up_to
    distances = np.empty(count)
    at = 0
    for a in range(len(first)):
        for b in range(len(second)):
            distance = max(abs(first[a, 0] - second[b, 0]), abs(first[a, 1] - second[b, 1]))
            if above < distance <= up_to:
                distances[at] = distance
                at += 1
    return distances
