"""Persistent cohomology of a Vietoris-Rips complex in dimension 2, over Z/2.

As in dimension 1, on triangles. A triangle is `longest edge * n + opposite vertex`, a tetrahedron
`(longest edge * n + p) * n + q` with its other vertices p > q. A triangle (e, k) and the first vertex l < k
that forms a tetrahedron with it without a longer edge are a pair of length zero. One scan along three rows of
ranks shows whether a tetrahedron is in such a pair, so none of them is stored. Triangles that end an H1
class, of length zero or not, need no column.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.columns import append, next_odd, owner_of, push, slot_of, table_for
from toposcope.kernels.rips_edges import ABSENT, NO_VERTEX, RipsEdges, ends

# Points of a tile, as in `rips_edges`. Changes speed only.
_BLOCK = 32
_FIRST_WINDOW = 0.25
"""Expected tetrahedra in the first window of a triangle; affects speed only."""
# The factor by which each further window of a triangle grows. Affects speed only.
_GROWTH = 1.15
_SERIAL_BELOW = 300
"""With fewer points, handing work to threads costs what it saves."""


def h2_pairs(
    edges: RipsEdges, h1_pivots: np.ndarray, *, serial: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks of the edges at which each H2 class is born and dies (-1: never)."""
    n = len(edges.ranks)
    serial = serial or n < _SERIAL_BELOW
    parts = run_blocks(
        lambda rows: _open_triangles(edges.ranks, edges.closing, *rows),
        row_blocks(n, per_thread=16, serial=serial),
        serial=serial,
    )
    triangles = np.sort(np.concatenate(parts))[::-1]
    triangles = triangles[~np.isin(triangles, h1_pivots)]
    pivots = _reduce_all(edges.packed, edges.ranks, triangles, *table_for(len(triangles)))
    return triangles // n, np.where(pivots < 0, -1, pivots // (n * n))


@kernel
def _open_triangles(ranks: np.ndarray, closing: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the triangles in no pair of length zero, with the larger end in rows start to stop.

    Of the vertices that form triangles with an edge, the first one closes the edge itself, and most others
    are near it, hence in a pair: for many edges, one scan along three rows ends the search.
    """
    n = ranks.shape[0]
    triangles, count = np.empty(1024, np.int64), 0
    common = np.empty(n, np.int64)
    for i in range(start, stop):
        row_u = ranks[i]
        for j in range(i):
            edge = row_u[j]
            if edge == ABSENT or closing[edge] == NO_VERTEX:
                continue
            row_v, row_first = ranks[j], ranks[closing[edge]]
            after = np.int64(closing[edge]) + 1
            if not _any_far(row_u[after:], row_v[after:], row_first[after:], edge):
                continue
            size = 0
            for k in range(after, n):
                common[size] = k  # always written, kept if it is a common neighbour: no branch
                size += max(row_u[k], row_v[k]) < edge
            for at in range(size):
                if row_first[common[at]] < edge:
                    continue
                row = ranks[common[at]]
                before = 0
                while before < at and row[common[before]] > edge:
                    before += 1
                if before == at:
                    triangles, count = append(triangles, count, np.int64(edge) * n + common[at])
    return triangles[:count]


@kernel
def _any_far(row_u, row_v, row_first, edge):
    """Return whether a common neighbour of u and v has a later edge to their first one."""
    late = np.int32(0)
    for k in range(len(row_u)):  # without a branch and in 32 bits, so that it compiles to vector instructions
        late |= np.int32(max(row_u[k], row_v[k]) < edge) & np.int32(row_first[k] > edge)
    return late != 0


@kernel
def _is_closed(row_u, row_v, row_w, edge, stop):
    """Return whether a vertex before `stop` has edges before `edge` to u, v and w."""
    for low in range(0, stop, _BLOCK):
        high = min(low + _BLOCK, stop)
        if _any_before(row_u[low:high], row_v[low:high], row_w[low:high], np.int32(edge)):
            return True
    return False


@kernel
def _any_before(row_u, row_v, row_w, rank):
    """Return whether a vertex has edges before `rank` to u, v and w."""
    early = np.int32(0)
    for k in range(len(row_u)):
        early |= np.int32(max(row_u[k], max(row_v[k], row_w[k])) < rank)
    return early != 0


@kernel
def _reduce_all(
    packed: np.ndarray, ranks: np.ndarray, columns: np.ndarray, keys: np.ndarray, owners: np.ndarray
) -> np.ndarray:
    """Return the pivot tetrahedron of each column, -1 for one that vanishes; `columns` descend.

    The pivots are entered into the open table of `keys` and `owners`.
    """
    n, m = ranks.shape[0], len(packed)
    pivots = np.empty(len(columns), np.int64)
    heap = np.empty(4 * n + 64, np.int64)
    starts = np.zeros(len(columns) + 1, np.int64)
    members = np.empty(4 * len(columns) + 64, np.int64)
    for c in range(len(columns)):
        members, end, heap, pivot = _reduce(
            packed, ranks, columns[c], keys, owners, starts, members, starts[c], heap, m
        )
        starts[c + 1] = end
        pivots[c] = pivot
        if pivot >= 0:
            slot = slot_of(keys, pivot)
            keys[slot], owners[slot] = pivot, c
    return pivots


@kernel
def _reduce(packed, ranks, column, keys, owners, starts, members, begin, heap, m):
    """Reduce one column; `members[begin:end]` lists the triangles whose coboundaries it sums."""
    n = ranks.shape[0]
    members, end = append(members, begin, column)
    share = (column // n) / m
    ceiling = min(m, np.int64(m * (share**3 + _FIRST_WINDOW / n) ** (1 / 3)) + 2)
    heap, size = _list(packed, ranks, column, column * n, ceiling, heap, 0)
    while True:
        key, size = next_odd(heap, size)
        if key < 0:
            if ceiling == m:
                return members, end, heap, key
            floor, ceiling = ceiling * n * n, min(m, np.int64(ceiling * _GROWTH) + 1)
            for i in range(begin, end):
                heap, size = _list(packed, ranks, members[i], floor, ceiling, heap, size)
            continue
        partner = _partner(packed, ranks, key)
        if partner >= 0:
            members, end = append(members, end, partner)
            heap, size = _list(packed, ranks, partner, key + 1, ceiling, heap, size)
            continue
        owner = owner_of(keys, owners, key)
        if owner < 0:
            return members, end, heap, key
        heap, size = push(heap, size, key), size + 1
        for i in range(starts[owner], starts[owner + 1]):
            members, end = append(members, end, members[i])
            heap, size = _list(packed, ranks, members[i], key, ceiling, heap, size)


@kernel
def _partner(packed: np.ndarray, ranks: np.ndarray, key: int) -> int:
    """Return the triangle that a tetrahedron closes with length zero, or -1."""
    n = ranks.shape[0]
    triangle = key // n
    q = key - triangle * n
    edge = triangle // n
    p = triangle - edge * n
    u, v = ends(packed, edge, n)
    return -1 if _is_closed(ranks[u], ranks[v], ranks[p], edge, q) else triangle


@kernel
def _list(packed, ranks, triangle, floor, ceiling, heap, size):
    """Put on the heap the tetrahedra of a triangle from key `floor` up to longest edge `ceiling`."""
    n = ranks.shape[0]
    edge = triangle // n
    w = triangle - edge * n
    u, v = ends(packed, edge, n)
    row_u, row_v, row_w = ranks[u], ranks[v], ranks[w]
    if edge >= ceiling:
        return heap, size
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        if not _any_before(row_u[start:stop], row_v[start:stop], row_w[start:stop], np.int32(ceiling)):
            continue
        for k in range(start, stop):
            a, b, c = np.int64(row_u[k]), np.int64(row_v[k]), np.int64(row_w[k])
            longest = max(a, max(b, c))
            if longest >= ceiling:
                continue
            if longest < edge:
                key = (edge * n + max(w, k)) * n + min(w, k)
            elif longest == a:
                key = (a * n + max(v, w)) * n + min(v, w)
            elif longest == b:
                key = (b * n + max(u, w)) * n + min(u, w)
            else:
                key = (c * n + max(u, v)) * n + min(u, v)
            if key >= floor:
                heap = push(heap, size, key)
                size += 1
    return heap, size
