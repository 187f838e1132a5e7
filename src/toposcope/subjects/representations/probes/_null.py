"""The null of a cloud of states: Gaussian clouds with the same size, mean and covariance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.core.seeding import rng
from toposcope.topology.clouds import gaussian_twin, principal


def gaussian_twins(points: np.ndarray, *, run: str, layer: int, draws: Sequence[int]) -> list[np.ndarray]:
    """Return random Gaussian clouds with exactly the mean and covariance of `points`, one for each draw.

    Each is a `toposcope.topology.clouds.gaussian_twin`. All spectral numbers of the two clouds are equal, so
    a difference between their diagrams is not spectral. A draw has the same Q at every checkpoint of a run,
    so the null's series moves only with the spectrum.

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
    mean, axes = principal(points)
    return [
        gaussian_twin(len(points), mean, axes, rng(purpose="gaussian twin", run=run, layer=layer, draw=draw))
        for draw in draws
    ]
