"""Merge trees of sampled functions: one sweep of the vertices in ascending order with a union-find."""

from __future__ import annotations

import numpy as np
from numba import njit

from toposcope.kernels.union_find import find

MINIMUM, SADDLE, PARENT, SIZE = range(4)
"""Rows of the table of branches, whose columns are the minima in their order of appearance."""

_Tables = tuple[np.ndarray, np.ndarray]
_Sweep = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@njit(cache=True, nogil=True)
def merge_lattice(order: np.ndarray, offsets: np.ndarray, n: int) -> _Sweep:
    """Return the branches, merges, arcs and basins of a function on a padded lattice.

    `order` (m,) lists the vertices that count, as flat places in an array of `n` places whose border is never
    listed, ascending in value; the neighbours of v are v + `offsets`. Branches are a (4, b) table
    (`MINIMUM`, `SADDLE`, `PARENT`, `SIZE`), with -1 for what a branch that never ends lacks. Merges are rows
    (saddle, surviving branch, ending branch, surviving arc, ending arc) in the order of the sweep. Arcs (n,)
    number the edge of the tree that each vertex lies on: 2 k below the minimum of branch k's first merge,
    2 j + 1 above merge j. Basins (n,) number the branch that steepest descent leads to. Both are -1 where
    the vertex does not count.
    """
    place, arc, basin, parent, size, owner, edge = _state(order, n)
    near = np.empty(offsets.size, np.int64)
    branches, merges = _tables(64)
    counts = np.zeros(2, np.int64)
    for v in order:
        m = 0
        for offset in offsets:
            if parent[v + offset] >= 0:
                near[m] = v + offset
                m += 1
        branches, merges = _room(branches, merges, counts, m)
        _add(v, near[:m], place, arc, basin, parent, size, owner, edge, branches, merges, counts)
    return _finish(parent, size, branches, merges, counts, arc, basin)


@njit(cache=True, nogil=True)
def merge_graph(order: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Sweep:
    """Return what `merge_lattice` does for a graph: v has the neighbours ends[starts[v] : starts[v + 1]]."""
    place, arc, basin, parent, size, owner, edge = _state(order, starts.size - 1)
    near = np.empty(max(1, np.max(np.diff(starts))), np.int64)
    branches, merges = _tables(64)
    counts = np.zeros(2, np.int64)
    for v in order:
        m = 0
        for k in range(starts[v], starts[v + 1]):
            if parent[ends[k]] >= 0:
                near[m] = ends[k]
                m += 1
        branches, merges = _room(branches, merges, counts, m)
        _add(v, near[:m], place, arc, basin, parent, size, owner, edge, branches, merges, counts)
    return _finish(parent, size, branches, merges, counts, arc, basin)


@njit(cache=True, nogil=True)
def _state(
    order: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each vertex's place in the order, arc and basin, and the forest's parent, size, branch, arc."""
    place = np.empty(n, np.int32)
    for k in range(order.size):
        place[order[k]] = k
    absent = np.full(n, -1, np.int32)
    empty = np.empty(n, np.int32)
    return place, absent, absent.copy(), absent.copy(), empty, empty.copy(), empty.copy()


@njit(cache=True, nogil=True)
def _tables(rows: int) -> _Tables:
    return np.full((4, rows), -1, np.int64), np.empty((rows, 5), np.int64)


@njit(cache=True, nogil=True)
def _room(branches: np.ndarray, merges: np.ndarray, counts: np.ndarray, more: int) -> _Tables:
    """Return the tables, doubled where one more branch or `more` merges would not fit."""
    if counts[0] + 1 < branches.shape[1] and counts[1] + more < merges.shape[0]:
        return branches, merges
    wide, long = _tables(2 * max(branches.shape[1], merges.shape[0], more))
    wide[:, : counts[0]] = branches[:, : counts[0]]
    long[: counts[1]] = merges[: counts[1]]
    return wide, long


@njit(cache=True, nogil=True)
def _add(
    v: int,
    near: np.ndarray,
    place: np.ndarray,
    arc: np.ndarray,
    basin: np.ndarray,
    parent: np.ndarray,
    size: np.ndarray,
    owner: np.ndarray,
    edge: np.ndarray,
    branches: np.ndarray,
    merges: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add vertex `v`, whose neighbours `near` are in already: a minimum, or it joins or merges components."""
    size[v] = 1
    if near.size == 0:
        parent[v] = v
        owner[v] = basin[v] = counts[0]
        edge[v] = arc[v] = 2 * counts[0]
        branches[MINIMUM, counts[0]] = v
        counts[0] += 1
        return
    lowest = near[0]
    root = find(parent, lowest)
    for u in near[1:]:
        if place[u] < place[lowest]:
            lowest = u
        other = find(parent, u)
        if other != root:
            root = _merge(v, root, other, parent, size, owner, edge, branches, merges, counts)
    basin[v] = basin[lowest]
    arc[v] = edge[root]
    parent[v] = root
    size[root] += 1


@njit(cache=True, nogil=True)
def _merge(
    v: int,
    a: int,
    b: int,
    parent: np.ndarray,
    size: np.ndarray,
    owner: np.ndarray,
    edge: np.ndarray,
    branches: np.ndarray,
    merges: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Join the components of roots `a` and `b` at `v`: the branch of the higher minimum ends there."""
    if owner[a] > owner[b]:
        a, b = b, a
    survivor, ending = owner[a], owner[b]
    branches[SADDLE, ending], branches[PARENT, ending], branches[SIZE, ending] = v, survivor, size[b]
    row = merges[counts[1]]
    row[0], row[1], row[2], row[3], row[4] = v, survivor, ending, edge[a], edge[b]
    if size[a] < size[b]:
        a, b = b, a
    parent[b] = a
    size[a] += size[b]
    owner[a] = survivor
    edge[a] = 2 * counts[1] + 1
    counts[1] += 1
    return a


@njit(cache=True, nogil=True)
def _finish(
    parent: np.ndarray,
    size: np.ndarray,
    branches: np.ndarray,
    merges: np.ndarray,
    counts: np.ndarray,
    arc: np.ndarray,
    basin: np.ndarray,
) -> _Sweep:
    """Cut the tables to their length and give the branches that never end the sizes of their components."""
    found = branches[:, : counts[0]].copy()
    for k in range(counts[0]):
        if found[SADDLE, k] < 0:
            found[SIZE, k] = size[find(parent, found[MINIMUM, k])]
    return found, merges[: counts[1]].copy(), arc, basin
