"""The assignment problem in which a row may stay alone: shortest augmenting paths on a dense matrix.

Every row has, besides the columns, a place of its own at cost 0. First each row bids for the column where it
saves most, by as much as it saves more than elsewhere (the row reduction of Jonker and Volgenant 1987); the
rows that are left over are placed by Dijkstra's algorithm on the reduced costs. A free column has price 0 and
no column ever becomes free again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BIDS = 12
"""Bids for each row before the rest is left to shortest paths."""


@njit(cache=True, nogil=True)
def least_matching(cost: np.ndarray) -> np.ndarray:
    """Return for each column of `cost` (n, m) the row it is matched with, or -1, for the least sum."""
    n, m = cost.shape
    price = np.zeros(m)
    owner = np.full(m, -1, np.int64)
    place = np.full(n, -1, np.int64)  # m: alone
    waiting = _bid(cost, price, owner, place)
    reach = np.empty(m)
    before = np.empty(m, np.int64)
    scanned = np.empty(m, np.bool_)
    for row in waiting:
        _augment(cost, price, owner, place, row, reach, before, scanned)
    return owner


@njit(cache=True, nogil=True)
def _bid(cost: np.ndarray, price: np.ndarray, owner: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Let rows bid in turn; return those without a place."""
    n, m = cost.shape
    queue = np.arange(n)  # a ring: those who lose their column wait at its end
    head, left, bids = 0, n, _BIDS * n
    while left > 0 and bids > 0:
        row = queue[head]
        head = (head + 1) % n
        left -= 1
        bids -= 1
        least, second, at = 0.0, 0.0, m
        for j in range(m):
            here = cost[row, j] - price[j]
            if here < second:
                if here < least:
                    least, second, at = here, least, j
                else:
                    second = here
        place[row] = at
        if at == m:
            continue
        price[at] -= second - least
        loser = owner[at]
        owner[at] = row
        if loser >= 0:
            place[loser] = -1
            queue[(head + left) % n] = loser
            left += 1
    waiting = np.empty(left, np.int64)
    for i in range(left):
        waiting[i] = queue[(head + i) % n]
    return waiting


@njit(cache=True, nogil=True)
def _augment(cost, price, owner, place, start, reach, before, scanned):
    """Place one more row along the cheapest alternating path, and keep all reduced costs >= 0."""
    m = len(price)
    scanned[:] = False
    reach[:] = np.inf
    row, base = start, 0.0
    alone, last = np.inf, start
    while True:
        if base < alone:  # the path may end here, with the row alone
            alone, last = base, row
        at, least = m, alone
        for j in range(m):
            if not scanned[j]:
                here = base + cost[row, j] - price[j]
                if here < reach[j]:
                    reach[j] = here
                    before[j] = row
                if reach[j] < least:
                    least, at = reach[j], j
        if at == m or owner[at] < 0:
            break
        scanned[at] = True
        row = owner[at]
        base = reach[at] - (cost[row, at] - price[at])
    for j in range(m):
        if scanned[j]:
            price[j] += reach[j] - least
    free = at
    if at == m:
        free = place[last]
        place[last] = m
        if last == start:
            return
    while True:  # each row on the path takes the next column
        row = before[free]
        owner[free] = row
        following = place[row]
        place[row] = free
        if row == start:
            return
        free = following
