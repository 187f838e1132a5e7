"""Merge trees of sampled functions: basins by steepest descent, then a union-find over basins only.

Only a vertex with lower neighbours in two basins can join components, so only such vertices are sorted. The
joined sets are basins, which fit into a near cache, while the vertices would not.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.kernels.union_find import find

MINIMUM, SADDLE, PARENT, SIZE = range(4)
"""Rows of the table of branches, whose columns are the minima in ascending order."""

_Sweep = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_NONE = np.zeros(0, np.int64)


def merge_lattice(values: np.ndarray, offsets: np.ndarray) -> _Sweep:
    """Return the branches, merges, arcs and basins of a function on a padded lattice.

    `values` (n,) float64 is NaN at positions that do not count, including the border; the neighbours of v are
    v + `offsets`. Equal values are ordered by position. Branches are a (4, b) table (`MINIMUM`, `SADDLE`,
    `PARENT`, `SIZE`), with -1 for what a branch that never ends lacks. Merges are rows (saddle, surviving
    branch, ending branch, surviving arc, ending arc) in ascending order. Arcs (n,) number the edge of the
    tree on which each vertex lies: k below the first merge of branch k, b + j above merge j. Basins (n,)
    number the branch to which steepest descent leads. Both are -1 if the vertex does not count.
    """
    return _merged(values, offsets, _NONE, _NONE, offsets.size)


def merge_graph(values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Sweep:
    """Return what `merge_lattice` does for a graph: v has the neighbours ends[starts[v] : starts[v + 1]]."""
    most = int(np.diff(starts).max()) if starts.size > 1 else 0
    return _merged(values, _NONE, starts, ends, most)


def _merged(
    values: np.ndarray, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray, most: int
) -> _Sweep:
    lower, minima = _descend(values, offsets, starts, ends)
    minima = minima[ascending(values[minima])]
    basin = _basins(lower, minima)
    joins, sets = _joins(values, basin, offsets, starts, ends, most)
    joins, sets = _in_order(joins, sets, ascending(values[joins]))
    branches, merges, roots, up, when, reached = _sweep(joins, sets, minima)
    order, first = _by_root(roots, len(minima))
    saddles = merges[order, 0]
    arc, held = _arcs(
        values, basin, minima, joins, reached, order, saddles, values[saddles], first, up, when, values[when]
    )
    _sizes(branches, merges, held)
    return branches, merges, arc, basin


def ascending(held: np.ndarray) -> np.ndarray:
    """Return the stable order of finite float64 values.

    It sorts integers that have the upper bits of a value and, instead of the lower ones, its index; the few
    values that differ in the omitted bits are corrected afterwards.
    """
    bits = max(int(len(held) - 1).bit_length(), 1)
    keys = np.sort(_keys(held, bits))
    order, settled = _settled(held, keys, bits)
    return order if settled else np.argsort(held, kind="stable")


@kernel
def _keys(held, bits):
    whole = (held + 0.0).view(np.uint64)  # one zero, not two
    sign, low = np.uint64(1) << np.uint64(63), (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    keys = np.empty(held.size, np.uint64)
    for i in range(held.size):
        raised = ~whole[i] if whole[i] & sign else whole[i] | sign
        keys[i] = (raised & ~low) | np.uint64(i)
    return keys


@kernel
def _settled(held, keys, bits):
    """Return the order encoded in sorted keys, and whether it took few enough exchanges to be correct."""
    low = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    order = np.empty(keys.size, np.int32)
    left = 8 * keys.size
    for i in range(keys.size):
        vertex, at = np.int32(keys[i] & low), i
        while at > 0 and keys[at - 1] & ~low == keys[i] & ~low and held[order[at - 1]] > held[vertex]:
            order[at] = order[at - 1]
            at -= 1
            left -= 1
            if left < 0:
                return order, False
        order[at] = vertex
    return order, True


@inner_kernel
def _count(v, offsets, starts):
    return offsets.size if starts.size == 0 else starts[v + 1] - starts[v]


@inner_kernel
def _near(v, k, offsets, starts, ends):
    return v + offsets[k] if starts.size == 0 else ends[starts[v] + k]


@inner_kernel
def _below(values, u, v):
    """Return whether u comes before v in the sweep; false if u does not count."""
    return values[u] < values[v] or (values[u] == values[v] and u < v)


@kernel
def _descend(values, offsets, starts, ends):
    """Return each vertex's lowest neighbour (itself at a minimum, -1 if it does not count) and the minima."""
    lower, minima, count = np.full(values.size, -1, np.int32), np.empty(values.size, np.int32), 0
    for v in range(values.size):
        if values[v] != values[v]:
            continue
        best = v
        for k in range(_count(v, offsets, starts)):
            u = _near(v, k, offsets, starts, ends)
            if _below(values, u, best):
                best = u
        lower[v] = best
        if best == v:
            minima[count] = v
            count += 1
    return lower, minima[:count].copy()


@kernel
def _basins(lower, minima):
    """Return the number of the minimum to which each vertex descends."""
    basin = np.full(lower.size, -1, np.int32)
    for k in range(minima.size):
        basin[minima[k]] = k
    for start in range(lower.size):
        if lower[start] < 0 or basin[start] >= 0:
            continue
        v = start
        while basin[v] < 0:
            v = lower[v]
        lowest, v = basin[v], start
        while basin[v] < 0:
            basin[v] = lowest
            v = lower[v]
    return basin


@kernel
def _joins(values, basin, offsets, starts, ends, most):
    """Return the vertices with lower neighbours in several basins, and these basins (-1: none).

    `most` is the largest number of neighbours.
    """
    joins, sets = np.empty(values.size, np.int32), np.empty((values.size, most), np.int32)
    count = 0
    for v in range(values.size):
        own_basin = basin[v]  # the basin of the lowest neighbour
        if own_basin < 0:
            continue
        held, several = 0, False
        for k in range(_count(v, offsets, starts)):
            u = _near(v, k, offsets, starts, ends)
            if basin[u] >= 0 and _below(values, u, v):
                sets[count, held] = basin[u]
                held += 1
                several |= basin[u] != own_basin
        if several:
            for k in range(held, most):
                sets[count, k] = -1
            joins[count] = v
            count += 1
    return joins[:count].copy(), sets[:count].copy()


@kernel
def _in_order(joins, sets, order):
    """Return the joins and their sets as `order` sorts them."""
    sorted_joins, beside = np.empty_like(joins), np.empty_like(sets)
    for at in range(order.size):
        sorted_joins[at] = joins[order[at]]
        for k in range(sets.shape[1]):
            beside[at, k] = sets[order[at], k]
    return sorted_joins, beside


@kernel
def _by_root(roots, b):
    """Return the merges sorted by root, and where those of each root begin (b + 1,)."""
    first = np.zeros(b + 1, np.int64)
    for root in roots:
        first[root + 1] += 1
    for root in range(b):
        first[root + 1] += first[root]
    order, free = np.empty(roots.size, np.int64), first.copy()
    for j in range(roots.size):
        order[free[roots[j]]] = j
        free[roots[j]] += 1
    return order, first


@kernel
def _sweep(joins, sets, minima):
    """Return branches, merges, the root that each merge leaves, the forest with its times, the joins' arcs.

    `up` and `when` (b,) are the root under which a basin's set was hung, and at which vertex. This is the
    forest by size; its paths are never shortened, so it can be queried at any time (`_arcs`).
    """
    b = minima.size
    parent, size = np.arange(b, dtype=np.int32), np.ones(b, np.int32)
    owner, edge = np.arange(b, dtype=np.int32), np.arange(b, dtype=np.int32)
    up, when = np.full(b, -1, np.int32), np.full(b, -1, np.int32)
    reached = np.empty(joins.size, np.int32)
    branches = np.full((4, b), -1, np.int64)
    for k in range(b):
        branches[MINIMUM, k] = minima[k]
    merges, roots = np.empty((b, 5), np.int64), np.empty(b, np.int32)
    count = 0
    for at in range(joins.size):
        v, root = joins[at], find(parent, sets[at, 0])
        for k in range(1, sets.shape[1]):
            basin = sets[at, k]
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
            edge[a] = b + count
            roots[count] = root = a
            count += 1
        reached[at] = edge[root]
    return branches, merges[:count].copy(), roots[:count].copy(), up, when, reached


@kernel
def _arcs(values, basin, minima, joins, reached, order, saddles, heights, first, up, when, rises):
    """Return the arc of each vertex (that of its set when the sweep reaches it), and each arc's vertices.

    Minima and joins are known. For the others, the merges order[first[r] : first[r + 1]] left r as their
    root, at `saddles` of values `heights`; r was hung under `up` at `when`, of value `rises`.
    """
    b = minima.size
    arc, held = np.full(values.size, -1, np.int64), np.zeros(b + order.size, np.int64)
    for k in range(b):
        arc[minima[k]] = k
    for at in range(joins.size):
        arc[joins[at]] = reached[at]
    for v in range(values.size):
        r, value = basin[v], values[v]
        if r < 0:
            continue
        if arc[v] >= 0:
            held[arc[v]] += 1
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
        arc[v] = b + order[low - 1] if low > first[r] else r
        held[arc[v]] += 1
    return arc, held


@kernel
def _sizes(branches, merges, held):
    """Fill the sizes of branches; `held` is the number of vertices on each arc and becomes its subtree's.

    A branch that never ends has the size of the last arc that it lies on.
    """
    b = branches.shape[1]
    for j in range(len(merges)):
        below = held[merges[j, 4]]
        branches[SIZE, merges[j, 2]] = below
        held[b + j] += below + held[merges[j, 3]]
    last = np.arange(b)
    for j in range(len(merges)):
        last[merges[j, 1]] = b + j
    for k in range(b):
        if branches[SADDLE, k] < 0:
            branches[SIZE, k] = held[last[k]]
