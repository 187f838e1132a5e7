"""Minimum spanning tree of a Euclidean point cloud, exact."""

from __future__ import annotations

import numpy as np
from numba import njit

from toposcope.kernels.distances import squared_distances


def euclidean_tree(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ends u, v and squared lengths (float64) of the tree's n - 1 edges."""
    return dense_tree(squared_distances(X))


@njit(cache=True, nogil=True)
def dense_tree(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the minimum spanning tree of a symmetric matrix of edge lengths, by Prim's algorithm."""
    n = lengths.shape[0]
    best = np.full(n, np.inf, lengths.dtype)
    link = np.zeros(n, np.int64)
    outside = np.ones(n, np.bool_)
    u, v, length = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1, lengths.dtype)
    last = 0
    outside[0] = False
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
    return u, v, length
