"""Directions in which a loss surface is sampled: random, Hessian eigenvectors, or those of the trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.subjects.landscape.geometry.lanczos import Eigenpairs

if TYPE_CHECKING:
    import torch

    from toposcope.models.objective import Objective


@dataclass(frozen=True)
class Directions:
    """Flat directions (n, parameters) and what a step of 1 along each means."""

    kind: str
    vectors: torch.Tensor
    unit: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.vectors)


def random_directions(objective: Objective, count: int, **axes: int | str) -> Directions:
    r"""Return Gaussian directions with filter normalisation (Li et al. 2018).

    A filter is all weights that lead into one output unit: a row of a linear layer, a column of a Conv1D of
    GPT-2 (see `Objective.filters`). Each gets the length of the same filter of the parameters,
    :math:`d \leftarrow d \, \|w\| / \|d\|`; parameters of one dimension (norms, biases) do not move. The
    numbers are drawn filter by filter, so that they do not depend on how a layer is stored.

    Parameters
    ----------
    objective : Objective
        Gives the parameters.
    count : int
        How many.
    axes
        Names of the randomness, such as `seed`.
    """
    import torch

    here, filters = objective.named(objective.parameters), objective.filters
    vectors = []
    for number in range(count):
        parts = {}
        for name, weight in here.items():
            weights = filters.rows(name, weight)
            if weights is None:
                parts[name] = torch.zeros_like(weight)
                continue
            drawn = rng(name="direction", number=number, parameter=name, **axes).standard_normal(
                weights.shape
            )
            rows = torch.from_numpy(drawn).to(weight.device, weight.dtype)
            lengths = weights.norm(dim=1) / rows.norm(dim=1)
            parts[name] = filters.stored(name, rows * lengths[:, None], weight)
        vectors.append(objective.flat(parts))
    return Directions("random", torch.stack(vectors), "the length of the weights, filter by filter")


def hessian_directions(pairs: Eigenpairs, count: int, *, rise: float | None = None) -> Directions:
    r"""Return the Hessian's first eigenvectors, scaled by their curvature, not filter by filter.

    A step of 1 along eigenvalue :math:`\lambda` has length :math:`1 / \sqrt{|\lambda|}`, so that the
    quadratic model changes by :math:`\pm 1/2`; with `rise`, :math:`\sqrt{2 \cdot rise / |\lambda|}`, so that
    it changes by `rise`.

    Raises
    ------
    InputError
        When there are fewer pairs, one has not converged, or an eigenvalue is 0.
    """
    import torch

    if count > len(pairs.values):
        raise InputError(
            f"{count:,} directions are needed, but there are {len(pairs.values):,} eigenvectors; use fewer "
            "directions"
        )
    if not pairs.converged[:count].all():
        raise InputError(
            f"eigenvector {int(np.argmin(pairs.converged[:count]))} has not converged after "
            f"{pairs.products:,} products: allow more products"
        )
    values = np.abs(pairs.values[:count])
    if not (values > 0).all():
        raise InputError(
            "an eigenvalue is 0: the loss does not change along its eigenvector; use fewer directions"
        )
    lengths = np.sqrt((1.0 if rise is None else 2.0 * rise) / values)
    scale = torch.from_numpy(lengths).to(pairs.vectors.device, pairs.vectors.dtype)
    unit = "1/sqrt|eigenvalue|" if rise is None else f"a quadratic rise of {rise:g}"
    return Directions("hessian", pairs.vectors[:count] * scale[:, None], unit)


@dataclass(frozen=True)
class PrincipalTrajectory:
    """The principal directions of checkpoints, and the checkpoints' coordinates (checkpoints, n) along them.

    `explained` is each direction's share of the variance; `walk` is the share for a random walk in many
    dimensions, 6 / (pi k)^2. The coordinates of a random walk are the same smooth Lissajous curves (Antognini
    and Sohl-Dickstein 2018), so only what exceeds this share comes from training.
    """

    directions: Directions
    coordinates: np.ndarray
    centre: torch.Tensor
    explained: np.ndarray
    walk: np.ndarray


def trajectory_directions(points: Sequence[torch.Tensor], count: int) -> PrincipalTrajectory:
    """Return the first principal directions, unit vectors, of flat parameters at checkpoints.

    Parameters
    ----------
    points : sequence of tensors of shape (parameters,)
        In the order of the steps; at least one more than `count`.
    count : int
        How many directions.

    Raises
    ------
    InputError
        If there are too few checkpoints, or they span fewer than `count` directions.
    """
    import torch

    if len(points) < count + 1:
        raise InputError(
            f"{len(points):,} checkpoints span fewer than {count:,} directions: give {count + 1} or more"
        )
    stacked = torch.stack([point.double() for point in points])
    centre = stacked.mean(0)
    deviations = stacked - centre
    values, vectors = np.linalg.eigh((deviations @ deviations.T).cpu().numpy())
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if values[count - 1] <= 1e-12 * values[0] or values[0] == 0:
        raise InputError(
            f"the {len(points):,} checkpoints do not span {count:,} directions; use fewer directions"
        )
    coordinates = vectors[:, :count] * np.sqrt(values[:count])
    lifted = (
        torch.from_numpy((vectors[:, :count] / np.sqrt(values[:count])).T.copy()).to(deviations.device)
        @ deviations
    )
    note = "a random walk draws the same curves in its own principal directions"
    return PrincipalTrajectory(
        Directions("trajectory", lifted, "a distance of 1 between parameters", (note,)),
        coordinates,
        centre,
        values[:count] / values.sum(),
        6.0 / (np.pi * np.arange(1, count + 1)) ** 2,
    )
