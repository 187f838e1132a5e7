"""Point clouds before their persistence: distances, pooled rows, and reproducible subsamples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.kernels.blas import SMALL_PRODUCT, one_blas_thread
from toposcope.kernels.distances import euclidean_distances
from toposcope.topology.validation import check_distance_matrix, check_points

METRICS = ("euclidean", "cosine", "precomputed")


def distance_matrix(X: Any, metric: str = "euclidean", *, name: str = "X") -> np.ndarray:
    """Return the float64 distances (n, n) of a cloud of n points.

    Parameters
    ----------
    X : array of shape (n, d), or (n, n) when `metric` is "precomputed"
        Points of any float type; or distances, which are checked and returned.
    metric : {"euclidean", "cosine", "precomputed"}
        The cosine distance is 1 - cos of the angle.
    name : str
        Name of the cloud in errors.

    Raises
    ------
    InputError
        No points, NaN or infinity, an unknown metric, a zero row under cosine, or a matrix that is not a
        distance matrix.

    Examples
    --------
    >>> distance_matrix([[0.0, 0.0], [3.0, 4.0]])
    array([[0., 5.],
           [5., 0.]])
    """
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}; use one of {', '.join(METRICS)}")
    if metric == "precomputed":
        return check_distance_matrix(X, name=name)
    points = check_points(X, name=name)
    empty = ~points.any(axis=1) if metric == "cosine" else np.zeros(0, bool)
    if empty.any():
        raise InputError(
            f"{name}[{int(empty.argmax())}] is a zero row, which has no direction for the cosine distance; "
            "drop it"
        )
    with one_blas_thread(2.0 * len(points) * points.size < SMALL_PRODUCT):
        distances = euclidean_distances(points, unit=metric == "cosine")
    # |x - y|^2 / 2 = 1 - cos for unit vectors, and does not cancel for nearly parallel ones.
    return distances if metric == "euclidean" else distances**2 / 2.0


def pooled_rows(matrices: Sequence[np.ndarray], width: int | None = None) -> np.ndarray:
    """Stack the rows of several matrices into one cloud, each padded with zeros to a common width.

    `width` defaults to that of the widest matrix. The result has shape (sum of rows, width), float64 if a
    matrix is, else float32.

    Raises InputError for no matrices, or a `width` smaller than a matrix has.

    >>> pooled_rows([np.ones((1, 2)), np.ones((1, 3))])
    array([[1., 1., 0.],
           [1., 1., 1.]])
    """
    if not matrices:
        raise InputError("matrices is empty; give at least one matrix to pool")
    widest = max(matrix.shape[1] for matrix in matrices)
    width = widest if width is None else width
    if width < widest:
        raise InputError(f"width is {width} but a matrix has {widest:,} columns; give width >= {widest}")
    double = any(matrix.dtype == np.float64 for matrix in matrices)
    pooled = np.zeros((sum(map(len, matrices)), width), np.float64 if double else np.float32)
    start = 0
    for matrix in matrices:
        pooled[start : start + len(matrix), : matrix.shape[1]] = matrix
        start += len(matrix)
    return pooled


def subsample(n: int, size: int, *, draw: int, **axes: str | int | None) -> np.ndarray:
    """Return `size` of the indices 0..n-1, ascending, drawn without replacement; all of them if n <= size.

    The seed is the hash of `draw` and the further named axes, such as run, step and name.

    >>> subsample(3, 5, draw=0)
    array([0, 1, 2])
    >>> len(subsample(100, 5, draw=0, run="a", step=10, name="W"))
    5
    """
    if size < 1:
        raise InputError(f"size is {size}; draw at least one point")
    if n <= size:
        return np.arange(n)
    return np.sort(rng(draw=draw, **axes).choice(n, size, replace=False))


def gaussian_twin(n: int, mean: np.ndarray, axes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    r"""Return a random Gaussian cloud (n, d) with exactly the mean and covariance of a given cloud.

    With the singular value decomposition :math:`X - \bar x = U S V^\top` of the given cloud of n points,
    whose `mean` and `axes` come from `principal`, it is :math:`\bar x + Q S V^\top`, where Q has the shape of
    U and is uniform among the matrices with orthonormal columns that sum to zero: a Gaussian sample given its
    sample mean and covariance.

    >>> cloud = np.random.default_rng(0).exponential(size=(40, 3))
    >>> twin = gaussian_twin(40, *principal(cloud), np.random.default_rng(1))
    >>> np.allclose(np.cov(twin.T), np.cov(cloud.T)), np.allclose(twin.mean(0), cloud.mean(0))
    (True, True)
    """
    return mean + _frame(n, len(axes), generator) @ axes


def principal(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (d,) of a cloud, and its principal axes (rank, d), each as long as its singular value.

    >>> mean, axes = principal(np.array([[0.0, 0.0], [2.0, 0.0]]))
    >>> mean.tolist(), abs(axes).round(3).tolist()
    ([1.0, 0.0], [[1.414, 0.0]])
    """
    mean = points.mean(axis=0)
    _, scale, axes = np.linalg.svd(points - mean, full_matrices=False)
    rank = int((scale > max(points.shape) * np.finfo(np.float64).eps * scale[0]).sum())
    return mean, scale[:rank, None] * axes[:rank]


def _frame(n: int, rank: int, generator: np.random.Generator) -> np.ndarray:
    """Return a uniform matrix (n, rank) with orthonormal columns that sum to zero."""
    if rank == 0:
        return np.zeros((n, 0))
    # Row by row, so that a cloud of another rank draws the same leading columns.
    normal = generator.standard_normal((rank, n)).T
    basis, triangle = np.linalg.qr(normal - normal.mean(axis=0))
    return basis * np.sign(np.diag(triangle))  # the sign that makes it uniform
