"""Persistent cohomology of a Vietoris-Rips complex in dimension 1, over Z/2.

Columns are the coboundaries of edges, reduced from the longest edge to the shortest; a pivot is the first
triangle of a column in the order of the filtration, encoded as `longest edge * n + opposite vertex`. Three
kinds of edges need no work: those of the spanning forest (they kill components), those that close a triangle
on arrival (the two form a pair of length zero), and those beyond the limit. The rest is reduced with

- pairs of length zero as implicit columns: nothing is stored, their triangles are listed when needed;
- a window of ranks: only triangles up to a ceiling are listed, and the ceiling rises when none is left;
- one step of look-ahead: when an implicit column is added, its next triangle is usually the new pivot and
  free, and then its other triangles are never listed.

A column that has summed many edges, as for a long-lived loop, is finished by a sweep instead: its cochain is
extended edge by edge in the order of the filtration, in a dense table, until this fails.
"""

from __future__ import annotations

import math

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.kernels.columns import append, next_odd, owner_of, pop, push, slot_of, table_for
from toposcope.kernels.rips_edges import ABSENT, NO_VERTEX, RipsEdges, ends, next_common

# Points of a tile, as in `rips_edges`. Changes speed only.
_BLOCK = 32
_FIRST_WINDOW = 0.25
"""Expected triangles in the first window of an edge: few, as most columns stop early. Affects speed only."""
# The factor by which each further window of an edge grows. Affects speed only.
_GROWTH = 1.4
_SWEEP_SHARE = 512
"""A column with more than one in this many of all edges is finished by a sweep. Affects speed only."""
# Columns with fewer edges are never finished by a sweep. Affects speed only.
_SWEEP_LEAST = 64
# Marks a column that a sweep has to finish; differs from -1, which marks a class that never dies.
_TO_SWEEP = -2


def h1_pairs(edges: RipsEdges) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ranks of the edges at which each H1 class is born and dies (-1: never), and its triangle."""
    births = edges.open_edges()
    pivots = reduce_columns(edges, births)
    return births, np.where(pivots < 0, -1, pivots // len(edges.ranks)), pivots


def reduce_columns(edges: RipsEdges, columns: np.ndarray) -> np.ndarray:
    """Return the pivot triangle of each column, -1 for one that vanishes; `columns` descend."""
    n, count = len(edges.ranks), len(columns)
    pivots, starts = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    heap, members = np.empty(4 * n + 64, np.int64), np.empty(4 * count + 64, np.int32)
    values = np.zeros((n, n), np.int32)  # uses memory only once a sweep writes to it
    _reduce_each(
        edges.packed, edges.ranks, edges.closing, columns, *table_for(count),
        starts, members, heap, values, pivots,
    )  # fmt: skip
    return pivots


@kernel
def _reduce_each(packed, ranks, closing, columns, keys, owners, starts, members, heap, values, pivots):
    """Write the pivots of all columns, and enter them into the open table of `keys` and `owners`."""
    m = len(packed)
    for c in range(len(columns)):
        members, end, heap, pivot = _reduce(
            packed, ranks, closing, columns[c], keys, owners, starts, members, starts[c], heap, m
        )
        if pivot == _TO_SWEEP:
            members, end, pivot = _sweep(
                packed, ranks, closing, columns[c], keys, owners, starts, members, starts[c], end, values
            )
        starts[c + 1] = end
        pivots[c] = pivot
        if pivot >= 0:
            slot = slot_of(keys, pivot)
            keys[slot], owners[slot] = pivot, c


@inner_kernel
def _reduce(packed, ranks, closing, column, keys, owners, starts, members, begin, heap, m):
    """Reduce one column; `members[begin:end]` lists the edges whose coboundaries it sums."""
    n = len(ranks)
    members, end = append(members, begin, column)
    share = column / m
    ceiling = min(m, np.int64(math.ceil(m * math.sqrt(share * share + _FIRST_WINDOW / n))) + 1)
    u, v = ends(packed, column, n)
    heap, size = _list(ranks, u, v, column, np.int64(column) * n, ceiling, heap, np.int64(0))
    while True:
        key, size = next_odd(heap, size)
        if key < 0:
            if ceiling == m:
                return members, end, heap, key
            floor, ceiling = ceiling * n, min(m, np.int64(ceiling * _GROWTH) + 1)
            for i in range(begin, end):
                edge = np.int64(members[i])  # one type at every call, so that it is compiled once
                u, v = ends(packed, edge, n)
                heap, size = _list(ranks, u, v, edge, floor, ceiling, heap, size)
            continue
        if end - begin > _SWEEP_LEAST + m // _SWEEP_SHARE:
            return members, end, heap, _TO_SWEEP
        longest = key // n
        implicit = closing[longest] == key - longest * n
        if implicit:
            members, end = append(members, end, longest)
            u, v = ends(packed, longest, n)
            key, size = _look_ahead(ranks[u], ranks[v], longest, key, heap, size)
        owner = owner_of(keys, owners, key)
        if key >= 0 and owner < 0:
            return members, end, heap, key
        if implicit:
            floor = (longest + 1) * n if key < 0 else key
            heap, size = _list(ranks, u, v, longest, floor, ceiling, heap, size)
        else:
            heap, size = push(heap, size, key), size + 1
        if owner >= 0:
            for i in range(starts[owner], starts[owner + 1]):
                edge = np.int64(members[i])
                members, end = append(members, end, edge)
                u, v = ends(packed, edge, n)
                heap, size = _list(ranks, u, v, edge, key, ceiling, heap, size)


@inner_kernel
def _look_ahead(row_u, row_v, longest, key, heap, size):
    """Return the first triangle after `key` with this longest edge that the heap does not cancel, or -1."""
    n = len(row_u)
    rank = np.int32(longest)
    k = next_common(row_u, row_v, rank, key - longest * n + 1)
    while k < n:
        key = longest * n + k
        odd = False
        while size > 0 and heap[0] == key:
            size = pop(heap, size)
            odd = not odd
        if not odd:
            return key, size
        k = next_common(row_u, row_v, rank, k + 1)
    return -1, size


@inner_kernel
def _list(ranks, u, v, rank, floor, ceiling, heap, size):
    """Put on the heap the triangles of edge `rank` = (u, v) from key `floor` up to longest edge `ceiling`."""
    n = ranks.shape[0]
    row_u, row_v = ranks[u], ranks[v]
    if len(heap) < size + n:
        longer = np.empty(2 * len(heap) + n, np.int64)
        for i in range(size):
            longer[i] = heap[i]
        heap = longer
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        least = ABSENT
        for k in range(start, stop):
            least = min(least, max(row_u[k], row_v[k]))
        if least >= ceiling:
            continue
        for k in range(start, stop):
            a, b = row_u[k], row_v[k]
            longest = max(a, b)
            if longest >= ceiling or rank >= ceiling:
                continue
            if longest < rank:
                key = np.int64(rank) * n + k
            elif a > b:
                key = np.int64(a) * n + v
            else:
                key = np.int64(b) * n + u
            if key >= floor:
                heap = push(heap, size, key)
                size += 1
    return heap, size


@inner_kernel
def _sweep(packed, ranks, closing, column, keys, owners, starts, members, begin, end, values):
    """Finish a column by extending its cochain over all later edges; `values` is 0 before and after.

    An edge that closes triangles gets the value that its first triangle requires; the first triangle that
    requires another value is the pivot.
    """
    n, m = ranks.shape[0], len(packed)
    _toggle(packed, members, begin, end, values)
    rank, pivot = column + 1, np.int64(-1)
    while rank < m and pivot < 0:
        if closing[rank] != NO_VERTEX:
            u, v = ends(packed, rank, n)
            k = np.int64(closing[rank])
            values[u, v] = values[v, u] = values[u, k] ^ values[v, k]
            k = _broken(ranks[u], ranks[v], values[u], values[v], rank, values[u, v], k + 1)
            while k < n:
                owner = owner_of(keys, owners, np.int64(rank) * n + k)
                if owner < 0:
                    pivot = np.int64(rank) * n + k
                    break
                _toggle(packed, members, starts[owner], starts[owner + 1], values)
                k = _broken(ranks[u], ranks[v], values[u], values[v], rank, values[u, v], k + 1)
        rank += 1
    end = begin
    for edge in range(column, rank):
        u, v = ends(packed, edge, n)
        if values[u, v]:
            members, end = append(members, end, edge)
    _toggle(packed, members, begin, end, values)
    return members, end, pivot


@inner_kernel
def _toggle(packed: np.ndarray, members: np.ndarray, begin: int, end: int, values: np.ndarray) -> None:
    """Add the edges `members[begin:end]` to a cochain with the values 0 and -1 (all bits set)."""
    for i in range(begin, end):
        u, v = ends(packed, np.int64(members[i]), len(values))
        values[u, v] = values[v, u] = ~values[u, v]


@inner_kernel
def _broken(row_u, row_v, values_u, values_v, rank, value, start):
    """Return the first vertex from `start` whose triangle with edge `rank` has an odd sum; n if none."""
    n = len(row_u)
    k = start
    while k < n:
        stop = min(k + _BLOCK, n)
        least = ABSENT
        for q in range(k, stop):  # all bits of `odd` are equal: where they are 0, the rank becomes ABSENT
            odd = values_u[q] ^ values_v[q] ^ value
            least = min(least, max(row_u[q], row_v[q]) | (~odd & ABSENT))
        if least < rank:
            for q in range(k, stop):
                if values_u[q] != values_v[q] ^ value and max(row_u[q], row_v[q]) < rank:
                    return q
        k = stop
    return n
