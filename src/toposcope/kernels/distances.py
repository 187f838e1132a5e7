"""Pairwise distances of a point cloud, right under cancellation."""

from __future__ import annotations

import numpy as np
from numba import njit

CANCELLATION = 1e-2
"""Squared distances below this share of |x|^2 + |y|^2 are recomputed from differences."""


def squared_distances(X: np.ndarray) -> np.ndarray:
    """Return the (n, n) float64 matrix of squared Euclidean distances of the rows of `X`."""
    points = X.astype(np.float64)
    points -= points.mean(axis=0)
    norms = np.einsum("ij,ij->i", points, points)
    out = points @ points.T
    _finish(out, points, norms, 1e-6)
    return out


def euclidean_distances(X: np.ndarray) -> np.ndarray:
    """Return the (n, n) float64 matrix of Euclidean distances of the rows of `X`."""
    out = squared_distances(X)
    return np.sqrt(out, out=out)


@njit(cache=True, nogil=True)
def _finish(products: np.ndarray, points: np.ndarray, norms: np.ndarray, cancellation: float) -> None:
    n, d = points.shape
    for i in range(n):
        products[i, i] = 0.0
        for j in range(i):
            size = norms[i] + norms[j]
            square = size - 2.0 * products[i, j]
            if square < cancellation * size:
                square = 0.0
                for k in range(d):
                    gap = points[i, k] - points[j, k]
                    square += gap * gap
            products[i, j] = square
            products[j, i] = square
