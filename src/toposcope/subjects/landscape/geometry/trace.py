"""The trace and the density of a spectrum, from random vectors, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.distributions import student_quantile
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.subjects.landscape.geometry.lanczos import Basis, Matvec

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TraceEstimate:
    """A trace with the interval over random vectors; `samples` has each vector's own estimate."""

    value: float
    low: float
    high: float
    level: float
    samples: np.ndarray


def hutchinson(
    matvec: Matvec, like: torch.Tensor, *, vectors: int = 30, level: float = 0.95, **axes: int | str
) -> TraceEstimate:
    r"""Return the trace of a symmetric matrix: the mean of :math:`z^\top A z` over vectors z of random signs.

    The interval is Student's over the vectors.

    Parameters
    ----------
    matvec : callable
        Multiplies a flat tensor by the matrix.
    like : tensor of shape (n,)
        Gives the number of rows, the type and the device.
    vectors : int
        How many random vectors; at least 2.
    level : float
        Of the interval.
    axes
        Names of the randomness, such as `run` and `step`.

    Raises
    ------
    InputError
        When there are fewer than two vectors.

    Notes
    -----
    Hutchinson 1990. The variance is :math:`2 \sum_{i \ne j} A_{ij}^2 / m` for m vectors.

    Examples
    --------
    >>> import torch
    >>> found = hutchinson(lambda v: 3.0 * v, torch.zeros(5, dtype=torch.float64), vectors=4)
    >>> found.value, found.low, found.high
    (15.0, 15.0, 15.0)
    """
    if vectors < 2:
        raise InputError(f"vectors is {vectors}; an interval needs at least 2")
    samples = np.array(
        [float(z.double() @ matvec(z).double()) for z in _signs(like, vectors, "hutchinson", axes)]
    )
    half = float(student_quantile(0.5 + level / 2, vectors - 1) * samples.std(ddof=1) / np.sqrt(vectors))
    mean = float(samples.mean())
    return TraceEstimate(mean, mean - half, mean + half, level, samples)


@dataclass(frozen=True, slots=True)
class Density:
    """A spectral density as weighted eigenvalue estimates: `nodes` and `weights`, both (vectors, steps).

    The weights of each vector sum to 1: the share of all eigenvalues near a node.
    """

    nodes: np.ndarray
    weights: np.ndarray

    def on(self, grid: np.ndarray, width: float) -> np.ndarray:
        """Return each vector's density (vectors, grid) on a grid, smoothed by Gaussians of that `width`.

        Mean and spread over the first axis are the estimate and its noise; each row integrates to 1.
        """
        distances = (grid[None, :, None] - self.nodes[:, None, :]) / width
        bumps = np.exp(-0.5 * distances**2) / (width * np.sqrt(2.0 * np.pi))
        return (bumps * self.weights[:, None, :]).sum(axis=2)

    def moment(self, power: int) -> np.ndarray:
        """Return each vector's mean of the eigenvalues to a power, (vectors,)."""
        return (self.weights * self.nodes**power).sum(axis=1)


def spectral_density(
    matvec: Matvec, like: torch.Tensor, *, vectors: int = 10, steps: int = 60, **axes: int | str
) -> Density:
    """Return the density of a symmetric matrix's eigenvalues by stochastic Lanczos quadrature.

    From each of `vectors` vectors of random signs, `steps` Lanczos steps with full reorthogonalisation give
    as many nodes; a node's weight is the squared first coordinate of its Ritz vector (Ghorbani, Krishnan and
    Xiao 2019). Moments up to 2 `steps` - 1 are exact for each vector.

    Raises
    ------
    InputError
        When a basis would need more than 4 GiB.
    """
    n = len(like)
    steps = min(steps, n)
    nodes, weights = np.empty((vectors, steps)), np.empty((vectors, steps))
    for i, start in enumerate(_signs(like, vectors, "density", axes)):
        basis = Basis(matvec, start, steps, rng(name="density restart", vector=i, **axes))
        for _ in range(steps):
            basis.extend()
        nodes[i], _, coordinates = basis.ritz()
        weights[i] = coordinates[0] ** 2
    return Density(nodes, weights)


def _signs(like: torch.Tensor, vectors: int, name: str, axes: dict[str, int | str]) -> Iterator[torch.Tensor]:
    import torch

    for i in range(vectors):
        signs = rng(name=name, vector=i, **axes).integers(0, 2, len(like)) * 2 - 1
        yield torch.from_numpy(signs).to(like.device, like.dtype)
