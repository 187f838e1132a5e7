"""Minimum spanning tree of a Euclidean point cloud, exact, without its n x n distances.

Points enter in blocks. One product gives the distances of a block to all earlier points. An edge longer than
the longest edge of the path that already joins its ends is never in the tree; the single linkage so far gives
that longest edge. The remaining edges, a few per point, join the old tree in Kruskal's algorithm. Only half
of the distance matrix is ever computed, and one block of it kept in memory.

Products are in float32. If they cancel, squared distances are recomputed in float64 from the points
themselves before any decision; the edges of the tree are measured in float64 at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.distances import (
    CANCELLATION,
    PreparedCloud,
    direct_squares,
    prepared,
    squared_norms,
    squares_of_row,
)
from toposcope.kernels.linkage import light_edges, link

# Points whose products with all others are in memory at a time.
_BLOCK = 512
# Products below which starting threads costs more than it saves. Changes speed only.
_SERIAL_BELOW = 200_000
_DIRECT = 10_000_000
"""Up to this many multiplications, float64 differences are as fast as starting a matrix product."""
_ROOM = 16
"""The expected number of edges per new point; more are stored in a second attempt."""


@dataclass(frozen=True, slots=True)
class _GrownTree:
    """A spanning tree of the points so far and its single linkage."""

    u: np.ndarray
    v: np.ndarray
    squares: np.ndarray
    leaves: np.ndarray
    seams: np.ndarray


def euclidean_tree(X: np.ndarray, *, unit: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ends u, v and lengths (float64, ascending) of the minimum spanning tree's n - 1 edges.

    `X` has shape (n, d), any floating type, finite. With `unit` every row is divided by its norm, which
    must not be 0. Equal points are joined by edges of length 0.
    """
    rows = np.ascontiguousarray(X if X.dtype.itemsize > 2 else X.astype(np.float32))
    copies = duplicates(rows)
    distinct = np.flatnonzero(copies == np.arange(len(X)))
    cloud = prepared(rows if distinct.size == len(rows) else rows[distinct], unit=unit)
    tree = _grown(cloud)
    squares = cloud.exact_squares(tree.u, tree.v)
    order = np.argsort(squares, kind="stable")
    lengths = np.sqrt(squares[order]) / cloud.scale
    again = np.flatnonzero(copies != np.arange(len(X)))
    return (
        np.concatenate((copies[again], distinct[tree.u[order]])),
        np.concatenate((again, distinct[tree.v[order]])),
        np.concatenate((np.zeros(again.size), lengths)),
    )


def tree_lengths(X: np.ndarray, *, unit: bool = False) -> np.ndarray:
    """Return the lengths of `euclidean_tree(X, unit=unit)` alone."""
    return euclidean_tree(X, unit=unit)[2]


def duplicates(rows: np.ndarray) -> np.ndarray:
    """Return for every row the first row equal to it, often itself."""
    marks = squared_norms(rows, center=(np.arange(rows.shape[1]) * 0.6180339887498949) % 1.0)
    order = np.argsort(marks, kind="stable")
    tied = np.flatnonzero(marks[order[1:]] == marks[order[:-1]]) + 1
    copies = np.arange(len(rows))
    # Rows with the same mark are compared only with the first of them: a missed copy costs only time.
    leaders = order[np.searchsorted(marks[order], marks[order[tied]])]
    for row, leader in zip(order[tied], leaders, strict=True):
        if np.array_equal(rows[row], rows[leader]):
            copies[row] = leader
    return copies


def _grown(cloud: PreparedCloud) -> _GrownTree:
    n, d = cloud.work.shape
    none = np.empty(0, np.int64)
    tree = _GrownTree(none, none, np.empty(0), none, np.empty(0))
    if n <= _BLOCK and n * n * d < _DIRECT:
        u, v, squares = dense_tree(direct_squares(cloud.rows, cloud.row_scale))
        return _GrownTree(u, v, squares, none, np.empty(0))
    buffer = np.empty(min(_BLOCK, n) * n, np.float32)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        products = buffer[: (stop - start) * stop].reshape(stop - start, stop)
        np.matmul(cloud.work[start:stop], cloud.work[:stop].T, out=products)
        tree = _extended(cloud, tree, products, start)
    return tree


def _extended(cloud: PreparedCloud, tree: _GrownTree, products: np.ndarray, start: int) -> _GrownTree:
    """Return the tree with the points of one more block."""
    size, stop = products.shape
    inner = np.empty((size, size))
    nearest, height = np.zeros(size, np.int64), np.full(size, np.inf)
    place = np.empty(start, np.int64)
    place[tree.leaves] = np.arange(start)
    serial = products.size < _SERIAL_BELOW

    def scan(block: tuple[int, int], room: int = _ROOM) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = block[1] - block[0]
        owner, ends = np.empty(rows * room, np.int64), np.empty(rows * room, np.int64)
        lengths = np.empty(rows * room)
        count = _to_tree(
            products, cloud.norms, cloud.rows, cloud.row_scale, start, *block,
            tree.leaves, tree.seams, place, inner, nearest, height, owner, ends, lengths,
        )  # fmt: skip
        if count > owner.size:
            return scan(block, count // rows + 1)
        return owner[:count] + start, ends[:count], lengths[:count]

    parts = run_blocks(scan, row_blocks(size, serial=serial), serial=serial)
    if start:
        parts.append((np.arange(start, stop), nearest, height))
    parts.append(_within(inner, nearest, height, tree, place, start))
    u = np.concatenate([tree.u, *(part[0] for part in parts)])
    v = np.concatenate([tree.v, *(part[1] for part in parts)])
    squares = np.concatenate([tree.squares, *(part[2] for part in parts)])
    chosen, leaves, seams = link(np.argsort(squares), u, v, squares, stop)
    return _GrownTree(u[chosen], v[chosen], squares[chosen], leaves, seams)


def _within(
    inner: np.ndarray,
    nearest: np.ndarray,
    height: np.ndarray,
    tree: _GrownTree,
    place: np.ndarray,
    start: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges between points of the block that are shorter than any path so far."""
    if start == 0:
        return dense_tree(inner)
    size = len(inner)
    places = place[nearest]
    leaves = np.argsort(places, kind="stable")
    ends = places[leaves]
    seams = np.zeros(size)
    # The largest seam after one place, up to and including the next; none between equal places.
    ahead = np.maximum.reduceat(np.append(tree.seams, 0.0), ends + 1)[:-1]
    seams[1:] = np.where(np.diff(ends) > 0, ahead, 0.0)
    room = _ROOM * size
    while True:
        owner, other, lengths = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        count = _among(inner, leaves, seams, height, owner, other, lengths)
        if count <= room:
            return owner[:count] + start, other[:count] + start, lengths[:count]
        room = count


@kernel
def _to_tree(
    products, norms, rows, row_scale, start, first, last,
    leaves, seams, place, inner, nearest, height, owner, ends, lengths,
):  # fmt: skip
    """Find for block rows `first` to `last` the nearest earlier point and the light edges to the tree.

    Fills `nearest`, `height` (its squared distance) and `inner` (squared distances within the block).
    """
    squares = np.empty(products.shape[1])
    zero = np.zeros(max(start, 1))
    count = 0
    for i in range(first, last):
        squares_of_row(products[i], start + i, norms, rows, row_scale, start + i, CANCELLATION, squares)
        for j in range(i):
            inner[i, j] = squares[start + j]
            inner[j, i] = squares[start + j]
        if start == 0:
            continue
        at = np.argmin(squares[:start])
        nearest[i] = at
        height[i] = squares[at]
        before = count
        count = light_edges(squares, leaves, seams, place[at], squares[at], zero, ends, lengths, count)
        for e in range(before, min(count, ends.size)):
            owner[e] = i
    return count


@kernel
def _among(
    inner: np.ndarray,
    leaves: np.ndarray,
    seams: np.ndarray,
    height: np.ndarray,
    owner: np.ndarray,
    ends: np.ndarray,
    lengths: np.ndarray,
) -> int:
    """Find the light edges within a block, each once."""
    count = 0
    for k in range(leaves.size):
        i = leaves[k]
        before = count
        count = light_edges(inner[i], leaves[: k + 1], seams, k, height[i], height, ends, lengths, count)
        for e in range(before, min(count, ends.size)):
            owner[e] = i
    return count


def dense_tree(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the minimum spanning tree of a symmetric matrix of edge lengths, by Prim's algorithm."""
    n = len(lengths)
    best, link, outside = np.empty(n, lengths.dtype), np.empty(n, np.int64), np.empty(n, np.bool_)
    u, v, length = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1, lengths.dtype)
    _prim(lengths, best, link, outside, u, v, length)
    return u, v, length


@kernel
def _prim(lengths, best, link, outside, u, v, length):
    """Write the edges of the tree; `best` is the shortest edge from it to each point, `link` its end."""
    n = len(lengths)
    for j in range(n):
        best[j], link[j], outside[j] = np.inf, 0, j > 0
    last = 0
    for step in range(n - 1):
        nearest, at = np.inf, -1
        for j in range(n):
            if outside[j]:
                if lengths[last, j] < best[j]:
                    best[j] = lengths[last, j]
                    link[j] = last
                if at < 0 or best[j] < nearest:
                    nearest, at = best[j], j
        u[step], v[step], length[step] = link[at], at, nearest
        outside[at] = False
        last = at
