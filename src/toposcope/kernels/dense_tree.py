"""Spanning trees of small dense graphs given as stacks of adjacency matrices."""

from __future__ import annotations

import numpy as np
from numba import njit, prange


@njit(cache=True)
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


@njit(cache=True, parallel=True)
def maximum_tree_weights(stack: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the maximum spanning tree's weight of each max(A, A^T) in a stack (m, t, t).

    Only the leading `sizes[i]` rows and columns of matrix i belong to its graph.
    """
    totals = np.zeros(len(stack))
    for i in prange(len(stack)):
        totals[i] = _tree_weight(stack[i], sizes[i])
    return totals
