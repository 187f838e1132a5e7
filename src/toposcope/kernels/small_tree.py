"""Maximum spanning trees of small weight matrices and dense graphs, many in one call, by Prim's algorithm."""

from __future__ import annotations

import numpy as np
from numba import prange

from toposcope.core.compiling import inner_kernel, kernel

SMALL = 1 << 15
"""Up to this many entries, Prim's algorithm on all of them is faster."""


def small_tree(bits: np.ndarray, mask: np.unsignedinteger) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return keys, rows and columns of the maximum spanning tree, heaviest first.

    `bits` has 16 or 32 bits an entry and fewer than 2^32 entries.
    """
    n_out, n_in = bits.shape
    packed = np.empty(n_out + n_in - 1, np.uint64)
    prim_each(bits.reshape(-1), mask, np.array([bits.shape]), packed)
    packed[::-1].sort()
    return unpack(packed, n_in, bits.dtype)


def unpack(packed: np.ndarray, n_in: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return keys, rows and columns of packed edges (key above, complement of the position below)."""
    position = ~packed.astype(np.uint32)
    rows = position // np.uint32(n_in)
    columns = position - rows * np.uint32(n_in)
    return (packed >> np.uint64(32)).astype(dtype), rows.astype(np.int32), columns.astype(np.int32)


@kernel
def prim_each(flat: np.ndarray, mask: np.unsignedinteger, shapes: np.ndarray, tree: np.ndarray) -> None:
    """Write the packed edges of each matrix in turn to `tree`; `flat` holds the flattened matrices."""
    at, end = np.uint64(0), np.int64(0)  # not literals, for which `_prim` would be compiled once more
    for k in range(len(shapes)):
        n_out, n_in = shapes[k, 0], shapes[k, 1]
        _prim(flat, at, mask, n_out, n_in, tree, end)
        at += np.uint64(n_out * n_in)
        end += n_out + n_in - 1


@inner_kernel
def _prim(flat, start, mask, n_out, n_in, tree, begin):
    """Write the packed edges of the matrix at `start` to `tree` from `begin` on, in no order.

    An edge is one 64-bit number, key above and complement of the position below, so larger is heavier
    with ties broken by (row, column), and the number alone says which edge it is.
    """
    low = np.uint64(0xFFFFFFFF)
    edges = np.empty((n_out, n_in), np.uint64)
    turned = np.empty((n_in, n_out), np.uint64)
    for i in range(n_out):
        for j in range(n_in):
            at = np.uint64(i * n_in + j)
            edge = (np.uint64(flat[start + at] & mask) << np.uint64(32)) | (low - at)
            edges[i, j] = edge
            turned[j, i] = edge
    rows = _filled(n_out, np.uint64(0))  # heaviest edge from the tree to each outside row, 0 inside
    columns = _filled(n_in, np.uint64(0))
    row_out = _filled(n_out, ~np.uint64(0))  # all bits set while outside
    column_out = _filled(n_in, ~np.uint64(0))
    row_out[0] = 0
    heaviest = _update(columns, edges[0], column_out)
    others = np.uint64(0)
    for step in range(n_out + n_in - 1):
        edge = max(heaviest, others)
        tree[begin + step] = edge
        position = np.int64(low - (edge & low))
        row, column = position // n_in, position % n_in
        if row_out[row]:
            row_out[row] = 0
            rows[row] = 0
            heaviest = _update(columns, edges[row], column_out)
            others = _largest(rows)
        else:
            column_out[column] = 0
            columns[column] = 0
            heaviest = _update(rows, turned[column], row_out)
            others = _largest(columns)


@inner_kernel
def _filled(size: int, value: np.uint64) -> np.ndarray:
    filled = np.empty(size, np.uint64)
    for k in range(size):
        filled[k] = value
    return filled


@inner_kernel
def _update(best: np.ndarray, edges: np.ndarray, outside: np.ndarray) -> np.uint64:
    """Raise `best` to `edges` where outside; return the largest."""
    largest = np.uint64(0)
    for k in range(best.size):
        edge = max(best[k], edges[k] & outside[k])
        best[k] = edge
        largest = max(largest, edge)
    return largest


@inner_kernel
def _largest(best: np.ndarray) -> np.uint64:
    largest = np.uint64(0)
    for k in range(best.size):
        largest = max(largest, best[k])
    return largest


@inner_kernel
def _tree_weight(weights: np.ndarray, n: int) -> float:
    """Sum of the maximum spanning tree's edge weights, by Prim, of the symmetrised first n x n block."""
    best = np.full(n, -np.inf)
    inside = np.zeros(n, dtype=np.bool_)
    current, total = 0, 0.0
    inside[0] = True
    for _ in range(n - 1):
        following, top = -1, -np.inf
        for j in range(n):
            if not inside[j]:
                weight = max(weights[current, j], weights[j, current])
                best[j] = max(best[j], weight)
                if best[j] > top:
                    following, top = j, best[j]
        inside[following] = True
        total += top
        current = following
    return total


@kernel(parallel=True)
def maximum_tree_weights(stack: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the maximum spanning tree's weight of each max(A, A^T) in a stack (m, t, t).

    Only the leading `sizes[i]` rows and columns of matrix i belong to its graph.
    """
    totals = np.zeros(len(stack))
    for i in prange(len(stack)):
        totals[i] = _tree_weight(stack[i], sizes[i])
    return totals
