"""The directions around one checkpoint, and the quadratic model of its loss along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.models.curvature import HessianProduct
from toposcope.subjects.landscape.direction_kinds import Centre
from toposcope.subjects.landscape.geometry.directions import Directions, random_directions
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.snapshot import Snapshot

if TYPE_CHECKING:
    import torch

    from toposcope.models import Objective


@dataclass(frozen=True)
class DirectionDraw:
    """One surface's directions; `random` has random ones of equal length, or None if they are random."""

    number: int
    directions: Directions
    random: Directions | None = None


def draws_of(
    objective: Objective, batch: int, snapshot: Snapshot, source: ObjectiveSource, options: LandscapeOptions
) -> list[DirectionDraw]:
    """Return the directions of every surface of one batch.

    Raises
    ------
    InputError
        When eigenvectors do not converge, or the checkpoints so far span too few directions.
    """
    kind, run = options.kind, snapshot.checkpoint.run
    draws = []
    for seed in range(options.draws_per_batch):
        centre = Centre(
            objective=objective, n=options.n, run=run, step=snapshot.checkpoint.step, batch=batch, seed=seed,
            products=options.products,
            history=lambda: [source.parameters(earlier, objective) for earlier in snapshot.prefix],
        )  # fmt: skip
        directions = kind.at(centre)
        random = None if kind.random else _alike(objective, directions, batch=batch, run=run)
        draws.append(DirectionDraw(batch * options.draws_per_batch + seed, directions, random))
    return draws


def _alike(objective: Objective, directions: Directions, **axes: int | str) -> Directions:
    """Return random directions with the lengths of `directions`."""
    random = random_directions(objective, len(directions), null="equal length", **axes)
    lengths = directions.vectors.norm(dim=1) / random.vectors.norm(dim=1).to(directions.vectors.dtype)
    return Directions("random", random.vectors * lengths[:, None].to(random.vectors), directions.unit)


@dataclass(frozen=True)
class AtCentre:
    """The loss and the gradient at an objective's own parameters: the same for all surfaces around them."""

    loss: float
    gradient: torch.Tensor

    @classmethod
    def of(cls, objective: Objective) -> AtCentre:
        """Compute both."""
        return cls(objective.loss(), objective.gradient())


@dataclass(frozen=True)
class Quadratic:
    r"""The quadratic model along directions: loss, slopes (n,) and curvatures (n, n).

    .. math:: q(a) = L + \sum_i a_i \, g \cdot d_i + \tfrac12 \sum_{ij} a_i a_j \, d_i \cdot H d_j
    """

    loss: float
    slopes: np.ndarray
    curvatures: np.ndarray

    @classmethod
    def of(cls, objective: Objective, directions: Directions, centre: AtCentre) -> Quadratic:
        """Return the model at an objective's parameters, by n Hessian-vector products."""
        vectors = directions.vectors.to(objective.parameters)
        hessian = HessianProduct(objective)
        images = [hessian(vector) for vector in vectors]
        curvatures = np.array([[float(v.double() @ image.double()) for image in images] for v in vectors])
        slopes = np.array([float(v.double() @ centre.gradient.double()) for v in vectors])
        return cls(centre.loss, slopes, 0.5 * (curvatures + curvatures.T))

    def on(self, axes: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the model's values on a lattice, float64 of shape (r_1, ..., r_n)."""
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        bent = 0.5 * np.einsum("...i,ij,...j->...", grid, self.curvatures, grid)
        return self.loss + grid @ self.slopes + bent
