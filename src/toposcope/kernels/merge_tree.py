"""Merge trees of sampled functions: basins by steepest descent, then a union-find over basins alone.

Only a vertex with lower neighbours in two basins can join components, so that only such vertices are sorted,
and the sets that are joined are basins, which fit into a near cache where the vertices would not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from toposcope.kernels.union_find import find

MINIMUM, SADDLE, PARENT, SIZE = range(4)
"""Rows of the table of branches, whose columns are the minima in ascending order."""

_Sweep = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_NONE = np.zeros(0, np.int64)


def merge_lattice(values: np.ndarray, offsets: np.ndarray) -> _Sweep:
    """Return the branches, merges, arcs and basins of a function on a padded lattice.

    `values` (n,) float64 is NaN where a place does not count, the border among them; the neighbours of v are
    v + `offsets`. Equal values are ordered by place. Branches are a (4, b) table (`MINIMUM`, `SADDLE`,
    `PARENT`, `SIZE`), with -1 for what a branch that never ends lacks. Merges are rows (saddle, surviving
    branch, ending branch, surviving arc, ending arc) in ascending order. Arcs (n,) number the edge of the
    tree that each vertex lies on: 2 k below the minimum of branch k's first merge, 2 j + 1 above merge j.
    Basins (n,) number the branch that steepest descent leads to. Both are -1 where the vertex does not count.
    """
    return _merged(values, offsets, _NONE, _NONE)


def merge_graph(values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Sweep:
    """Return what `merge_lattice` does for a graph: v has the neighbours ends[starts[v] : starts[v + 1]]."""
    return _merged(values, _NONE, starts, ends)


def _merged(values: np.ndarray, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Sweep:
    lower = _descend(values, offsets, starts, ends)
    minima = np.flatnonzero(lower == np.arange(len(lower)))
    minima = minima[_ascending(values[minima])]
    basin = _basins(lower, minima)
    joins, sets = _joins(values, basin, offsets, starts, ends)
    order = _ascending(values[joins])
    branches, merges, roots, up, when = _sweep(joins[order], sets[order], minima)
    order = np.argsort(roots, kind="stable")
    first = np.searchsorted(roots[order], np.arange(len(minima) + 1))
    saddles = merges[order, 0]
    arc = _arcs(values, basin, order, saddles, values[saddles], first, up, when, values[when])
    _sizes(branches, merges, np.bincount(arc[arc >= 0], minlength=2 * (len(minima) + len(merges)) + 2))
    return branches, merges, arc, basin


def _ascending(held: np.ndarray) -> np.ndarray:
    """Return the order of values, equal ones as they stand."""
    order = np.argsort(held)  # vectorised, but in no order among equal values
    if len(order) > 1 and (np.diff(held[order]) == 0).any():
        order = np.argsort(held, kind="stable")
    return order


@njit(cache=True, nogil=True)
def _count(v, offsets, starts):
    return offsets.size if starts.size == 0 else starts[v + 1] - starts[v]


@njit(cache=True, nogil=True)
def _near(v, k, offsets, starts, ends):
    return v + offsets[k] if starts.size == 0 else ends[starts[v] + k]


@njit(cache=True, nogil=True)
def _below(values, u, v):
    """Return whether u comes before v in the sweep; never where u does not count."""
    return values[u] < values[v] or (values[u] == values[v] and u < v)


@njit(cache=True, nogil=True)
def _descend(values, offsets, starts, ends):
    """Return each vertex's lowest neighbour, itself at a minimum, -1 where it does not count."""
    lower = np.full(values.size, -1, np.int32)
    for v in range(values.size):
        if values[v] != values[v]:
            continue
        best = v
        for k in range(_count(v, offsets, starts)):
            u = _near(v, k, offsets, starts, ends)
            if _below(values, u, best):
                best = u
        lower[v] = best
    return lower


@njit(cache=True, nogil=True)
def _basins(lower, minima):
    """Return the number of the minimum that each vertex descends to."""
    basin = np.full(lower.size, -1, np.int32)
    for k in range(minima.size):
        basin[minima[k]] = k
    for start in range(lower.size):
        if lower[start] < 0 or basin[start] >= 0:
            continue
        v = start
        while basin[v] < 0:
            v = lower[v]
        found, v = basin[v], start
        while basin[v] < 0:
            basin[v] = found
            v = lower[v]
    return basin


@njit(cache=True, nogil=True)
def _joins(values, basin, offsets, starts, ends):
    """Return the vertices with lower neighbours in several basins, by place, and these basins (-1: none)."""
    most = offsets.size if starts.size == 0 else np.max(np.diff(starts))
    found, sets = np.empty(values.size, np.int32), np.empty((values.size, most), np.int32)
    count = 0
    for v in range(values.size):
        own = basin[v]  # the basin of the lowest neighbour
        if own < 0:
            continue
        held, several = 0, False
        for k in range(_count(v, offsets, starts)):
            u = _near(v, k, offsets, starts, ends)
            if basin[u] >= 0 and _below(values, u, v):
                sets[count, held] = basin[u]
                held += 1
                several |= basin[u] != own
        if several:
            sets[count, held:] = -1
            found[count] = v
            count += 1
    return found[:count].copy(), sets[:count].copy()


@njit(cache=True, nogil=True)
def _sweep(joins, sets, minima):
    """Return branches, merges, the root that each merge leaves, and the forest with its times.

    `up` and `when` (b,) are the root that a basin's set was hung under and the vertex where: the forest by
    size, whose paths are never shortened, so that it can be asked for any time (`_arcs`).
    """
    b = minima.size
    parent, size = np.arange(b, dtype=np.int32), np.ones(b, np.int32)
    owner, edge = np.arange(b, dtype=np.int32), 2 * np.arange(b)
    up, when = np.full(b, -1, np.int32), np.full(b, -1, np.int32)
    branches = np.full((4, b), -1, np.int64)
    branches[MINIMUM] = minima
    merges, roots = np.empty((b, 5), np.int64), np.empty(b, np.int64)
    count = 0
    for at in range(joins.size):
        v, root = joins[at], find(parent, sets[at, 0])
        for basin in sets[at, 1:]:
            if basin < 0:
                break
            other = find(parent, basin)
            if other == root:
                continue
            a, c = (root, other) if owner[root] < owner[other] else (other, root)
            survivor, ending = owner[a], owner[c]
            branches[SADDLE, ending], branches[PARENT, ending] = v, survivor
            row = merges[count]
            row[0], row[1], row[2], row[3], row[4] = v, survivor, ending, edge[a], edge[c]
            if size[a] < size[c]:
                a, c = c, a
            parent[c] = up[c] = a
            when[c] = v
            size[a] += size[c]
            owner[a] = survivor
            edge[a] = 2 * count + 1
            roots[count] = root = a
            count += 1
    return branches, merges[:count].copy(), roots[:count].copy(), up, when


@njit(cache=True, nogil=True)
def _arcs(values, basin, order, saddles, heights, first, up, when, rises):
    """Return the arc of each vertex: that of its set when the sweep has reached it.

    The merges order[first[r] : first[r + 1]] left r as their root, at `saddles` of values `heights`; r was
    hung under `up` at `when`, of value `rises`.
    """
    arc = np.full(values.size, -1, np.int64)
    for v in range(values.size):
        r, value = basin[v], values[v]
        if r < 0:
            continue
        while up[r] >= 0 and (rises[r] < value or (rises[r] == value and when[r] <= v)):
            r = up[r]
        low, high = first[r], first[r + 1]
        while low < high:  # the first merge after v
            middle = (low + high) // 2
            if heights[middle] < value or (heights[middle] == value and saddles[middle] <= v):
                low = middle + 1
            else:
                high = middle
        arc[v] = 2 * order[low - 1] + 1 if low > first[r] else 2 * r
    return arc


@njit(cache=True, nogil=True)
def _sizes(branches, merges, held):
    """Fill the sizes of branches; `held` is the number of vertices on each arc and becomes its subtree's.

    A branch that never ends has the size of the last arc that it lies on.
    """
    for j in range(len(merges)):
        below = held[merges[j, 4]]
        branches[SIZE, merges[j, 2]] = below
        held[2 * j + 1] += below + held[merges[j, 3]]
    last = np.arange(0, 2 * branches.shape[1], 2)
    for j in range(len(merges)):
        last[merges[j, 1]] = 2 * j + 1
    for k in range(branches.shape[1]):
        if branches[SADDLE, k] < 0:
            branches[SIZE, k] = held[last[k]]
