"""The edges of a Vietoris-Rips complex in the order of the filtration, and the triangles they close at once.

Every edge gets a rank, its position in the order (length, position). From then on only ranks are compared:
they are distinct, so a triangle is identified by its longest edge and the opposite vertex, and ties are
broken consistently. An absent edge (longer than the limit, or from a vertex to itself) has the rank `ABSENT`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.union_find import unite

ABSENT = np.int32(2**31 - 1)
NO_VERTEX = np.uint16(2**16 - 1)
MAX_POINTS = 2**16 - 1
"""Both ends of an edge share 32 bits, so a vertex has 16."""

# The higher and the lower half of a 64-bit number in memory.
_HIGH, _LOW = (1, 0) if sys.byteorder == "little" else (0, 1)
# Points of a tile, so that both sides of a symmetric table stay in the cache. Changes speed only.
_BLOCK = 32
# Points below which handing work to threads costs more than it saves. Changes speed only.
_SERIAL_BELOW = 400


class RipsEdges:
    """The sorted edges of n points: `packed` (length bits, position), `ranks` (n, n), `closing` vertex."""

    def __init__(self, distances: np.ndarray, limit: float, *, serial: bool = False) -> None:
        n = len(distances)
        serial = serial or n < _SERIAL_BELOW
        blocks = row_blocks(n, serial=serial)
        offsets = np.zeros(n + 1, np.int64)
        run_blocks(lambda rows: _count(distances, limit, offsets, *rows), blocks, serial=serial)
        np.cumsum(offsets, out=offsets)
        self.packed = np.empty(offsets[-1], np.uint64)
        halves = self.packed.view(np.float32), self.packed.view(np.uint32)
        run_blocks(lambda rows: _pack(distances, limit, offsets, *halves, *rows), blocks, serial=serial)
        self.packed.sort()
        self.ranks = np.empty((n, n), np.int32)
        run_blocks(lambda rows: self.ranks[rows[0] : rows[1]].fill(ABSENT), blocks, serial=serial)
        pieces = row_blocks(len(self.packed), serial=serial)
        run_blocks(lambda piece: _rank(self.packed, self.ranks, *piece), pieces, serial=serial)
        self.closing = np.empty(len(self.packed), np.uint16)
        run_blocks(lambda rows: _close(self.ranks, self.closing, *rows), blocks, serial=serial)
        self.tree = _forest(self.packed, n)

    @property
    def lengths(self) -> np.ndarray:
        """Lengths of the edges by rank, float32."""
        return (self.packed >> np.uint64(32)).astype(np.uint32).view(np.float32)

    def open_edges(self) -> np.ndarray:
        """Ranks, descending, of the edges that join no components and close no triangle: births of H1."""
        is_open = self.closing == NO_VERTEX
        is_open[self.tree] = False
        return np.flatnonzero(is_open)[::-1].copy()  # one layout, so that one kernel is compiled


@inner_kernel
def ends(packed: np.ndarray, rank: int, n: int) -> tuple[Any, Any]:
    """Return the two vertices of the edge of a rank, the larger one first."""
    position = np.int64(packed[rank] & np.uint64(0xFFFFFFFF))
    u = position // n
    return u, position - u * n


def ends_of(packed: np.ndarray, ranks: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices of the edges of many ranks, larger ones first."""
    position = (packed[ranks] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return position // n, position % n


@inner_kernel
def next_common(row_u: np.ndarray, row_v: np.ndarray, rank: int, start: int) -> int:
    """Return the first vertex from `start` on whose edges to u and to v both precede `rank`; n if none."""
    n = len(row_u)
    k = start
    while k < n:
        stop = min(k + _BLOCK, n)
        least = ABSENT
        for q in range(k, stop):  # without a branch, so that it compiles to vector instructions
            least = min(least, max(row_u[q], row_v[q]))
        if least < rank:
            for q in range(k, stop):
                if max(row_u[q], row_v[q]) < rank:
                    return q
        k = stop
    return n


@kernel
def _count(distances: np.ndarray, limit: float, offsets: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        count = 0
        for j in range(i):
            count += distances[i, j] <= limit
        offsets[i + 1] = count


@kernel
def _pack(
    distances: np.ndarray,
    limit: float,
    offsets: np.ndarray,
    lengths: np.ndarray,
    positions: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Write the packed edges of some rows; `lengths` and `positions` are views of all their halves."""
    n = distances.shape[0]
    for i in range(start, stop):
        at = 2 * offsets[i]
        for j in range(i):
            if distances[i, j] <= limit:
                # The bits of floats >= 0 are ordered as the floats are; + 0 turns -0 into 0.
                lengths[at + _HIGH] = np.float32(distances[i, j]) + np.float32(0.0)
                positions[at + _LOW] = i * n + j
                at += 2


@kernel
def _rank(packed: np.ndarray, ranks: np.ndarray, start: int, stop: int) -> None:
    n = ranks.shape[0]
    for rank in range(start, stop):
        u, v = ends(packed, rank, n)
        ranks[u, v] = rank
        ranks[v, u] = rank


@kernel
def _close(ranks: np.ndarray, closing: np.ndarray, start: int, stop: int) -> None:
    """Find for each edge the first vertex with which it is the longest edge of a triangle."""
    n = ranks.shape[0]
    for i in range(start, stop):
        for j in range(i):
            rank = ranks[i, j]
            if rank != ABSENT:
                k = next_common(ranks[i], ranks[j], rank, np.int64(0))
                closing[rank] = k if k < n else NO_VERTEX


def _forest(packed: np.ndarray, n: int) -> np.ndarray:
    """Return the ranks of the edges that join two components, ascending."""
    joining = np.empty(max(n - 1, 0), np.int64)
    return joining[: _join(packed, np.arange(n), np.ones(n, np.int64), joining)]


@kernel
def _join(packed: np.ndarray, parent: np.ndarray, size: np.ndarray, joining: np.ndarray) -> int:
    """Write the ranks of the edges that join two components, ascending; return their number."""
    n = len(parent)
    count = 0
    for rank in range(len(packed)):
        if count == n - 1:
            break
        u, v = ends(packed, rank, n)
        if unite(parent, size, u, v):
            joining[count] = rank
            count += 1
    return count
