"""Vietoris-Rips persistence of point clouds and distance matrices."""

from __future__ import annotations

import numpy as np

from toposcope.errors import InputError
from toposcope.topology.gate import check_distance_matrix, check_points
from toposcope.types import Diagram

METRICS = ("euclidean", "cosine", "precomputed")


def rips(
    X: np.ndarray,
    maxdim: int = 1,
    metric: str = "euclidean",
    thresh: float | None = None,
    backend: str = "auto",
    *,
    field: int = 2,
) -> list[Diagram]:
    """Return the persistence diagrams of the Vietoris-Rips filtration, one for each dimension 0..maxdim.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> h0, h1 = rips(square)
    >>> [(round(float(b), 6), round(float(d), 6)) for b, d in zip(h1.birth, h1.death)]
    [(1.0, 1.414214)]
    """
    distances = distance_matrix(X, metric)
    n = len(distances)
    radius = float(distances.max(axis=1).min())
    limit = radius if thresh is None else min(float(thresh), radius)
    if backend == "auto":
        backend = "gudhi"
    pairs = _BACKENDS[backend](distances, maxdim, limit, field)
    truncated = None if thresh is None or thresh >= radius else float(thresh)
    return [
        Diagram(dim, bars[:, 0].copy(), bars[:, 1].copy(), metric, n, truncated)
        for dim, bars in enumerate(pairs)
    ]


def pooled_rows(matrices: list[np.ndarray], width: int | None = None) -> np.ndarray:
    """Stack the rows of several matrices into one cloud, each padded with zeros to a common width.

    `width` defaults to the widest matrix. Shape (sum of rows, width), float32 or float64 as the inputs.

    >>> pooled_rows([np.ones((1, 2)), np.ones((1, 3))])
    array([[1., 1., 0.],
           [1., 1., 1.]])
    """
    if not matrices:
        raise InputError("matrices is empty; give at least one matrix to pool")
    widest = max(matrix.shape[1] for matrix in matrices)
    width = widest if width is None else width
    if width < widest:
        raise InputError(f"width is {width} but a matrix has {widest} columns; give width >= {widest}")
    dtype = np.result_type(np.float32, *(matrix.dtype for matrix in matrices))
    pooled = np.zeros((sum(len(matrix) for matrix in matrices), width), dtype)
    start = 0
    for matrix in matrices:
        pooled[start : start + len(matrix), : matrix.shape[1]] = matrix
        start += len(matrix)
    return pooled


def distance_matrix(X: np.ndarray, metric: str) -> np.ndarray:
    """Return the (n, n) float64 distances of a cloud; `precomputed` checks and returns the matrix itself."""
    if metric == "precomputed":
        return check_distance_matrix(X).astype(np.float64)
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}; use one of {', '.join(METRICS)}")
    from scipy.spatial.distance import pdist, squareform

    points = check_points(X).astype(np.float64)
    return squareform(pdist(points, metric)) if len(points) > 1 else np.zeros((1, 1))


def _gudhi(distances: np.ndarray, maxdim: int, limit: float, field: int) -> list[np.ndarray]:
    from gudhi.sklearn import RipsPersistence

    solver = RipsPersistence(
        homology_dimensions=list(range(maxdim + 1)),
        threshold=limit,
        input_type="full distance matrix",
        num_collapses="auto",
        homology_coeff_field=field,
    )
    return [np.asarray(bars, np.float64).reshape(-1, 2) for bars in solver.fit_transform([distances])[0]]


def _ripser(distances: np.ndarray, maxdim: int, limit: float, field: int) -> list[np.ndarray]:
    from ripser import ripser

    found = ripser(distances, maxdim=maxdim, thresh=limit, coeff=field, distance_matrix=True)["dgms"]
    return [np.asarray(bars, np.float64).reshape(-1, 2) for bars in found]


_BACKENDS = {"gudhi": _gudhi, "ripser": _ripser}
