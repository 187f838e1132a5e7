"""The null of a cloud of states: Gaussian clouds with the same size, mean and covariance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.core.seeding import rng


def gaussian_twins(points: np.ndarray, *, run: str, layer: int, draws: Sequence[int]) -> list[np.ndarray]:
    r"""Return random Gaussian clouds with exactly the mean and covariance of `points`, one for each draw.

    With the singular value decomposition :math:`X - \bar x = U S V^\top` one is
    :math:`\bar x + Q S V^\top`, where Q has the shape of U and is uniform among the matrices with
    orthonormal columns that sum to zero: a Gaussian sample given its sample mean and covariance. All
    spectral numbers of the two clouds are equal, so a difference between their diagrams is not spectral.
    A draw has the same Q at every checkpoint of a run: the null's series moves with the spectrum alone.

    Parameters
    ----------
    points : array of shape (n, d)
    run, layer, draws
        The axes that seed Q.

    Examples
    --------
    >>> cloud = np.random.default_rng(0).exponential(size=(40, 3))
    >>> (twin,) = gaussian_twins(cloud, run="a", layer=1, draws=[0])
    >>> np.allclose(np.cov(twin.T), np.cov(cloud.T)), np.allclose(twin.mean(0), cloud.mean(0))
    (True, True)
    """
    mean = points.mean(axis=0)
    _, scale, axes = np.linalg.svd(points - mean, full_matrices=False)
    rank = int((scale > max(points.shape) * np.finfo(np.float64).eps * scale[0]).sum())
    shape = scale[:rank, None] * axes[:rank]
    return [mean + _frame(len(points), rank, run, layer, draw) @ shape for draw in draws]


def _frame(n: int, rank: int, run: str, layer: int, draw: int) -> np.ndarray:
    """Return a uniform matrix (n, rank) with orthonormal columns that sum to zero."""
    if rank == 0:
        return np.zeros((n, 0))
    # Row by row, so that a cloud of another rank draws the same leading columns.
    normal = rng(purpose="gaussian twin", run=run, layer=layer, draw=draw).standard_normal((rank, n)).T
    basis, triangle = np.linalg.qr(normal - normal.mean(axis=0))
    return basis * np.sign(np.diag(triangle))  # the sign that makes it uniform
