"""The directions around one checkpoint, and the quadratic model of its loss along them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.models.curvature import HessianProduct
from toposcope.subjects.landscape.geometry.directions import (
    Directions,
    hessian_directions,
    random_directions,
    trajectory_directions,
)
from toposcope.subjects.landscape.geometry.lanczos import random_start, top_eigenpairs
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.snapshot import Snapshot

if TYPE_CHECKING:
    from toposcope.models import Objective

_TOLERANCE = 1e-2
"""Relative residual of the eigenvectors; the axes of a surface need no more precision."""


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
    at, n = snapshot.checkpoint, options.n
    axes: dict[str, int | str] = {"run": at.run}  # the same directions at every step of a run
    if options.directions == "random":
        return [
            DirectionDraw(batch * options.draws + seed, random_directions(objective, n, **axes, seed=seed))
            for seed in range(options.draws)
        ]
    if options.directions == "hessian":
        here = objective.parameters
        start = random_start(len(here), here.dtype, **axes, step=at.step, batch=batch).to(here.device)
        pairs = top_eigenpairs(
            HessianProduct(objective), start, k=n, tolerance=_TOLERANCE, most=options.products, axes=axes
        )
        made = hessian_directions(pairs, n)
    else:
        made = _of_trajectory(objective, snapshot, source, n)
    return [DirectionDraw(batch, made, _alike(objective, made, batch, **axes))]


def _of_trajectory(objective: Objective, snapshot: Snapshot, source: ObjectiveSource, n: int) -> Directions:
    """Return the principal directions of the checkpoints so far, each as long as their extent along it."""
    import torch

    points = [source.parameters(earlier, objective) for earlier in snapshot.prefix]
    found = trajectory_directions(points, n)
    extent = np.abs(found.coordinates - found.coordinates[-1]).max(axis=0)
    if not (extent > 0).all():
        raise InputError(
            "the trajectory does not leave this checkpoint along one of the directions; use fewer directions"
        )
    vectors = found.directions.vectors * torch.from_numpy(extent)[:, None]
    return replace(found.directions, vectors=vectors, unit="the farthest checkpoint along it")


def _alike(objective: Objective, made: Directions, batch: int, **axes: int | str) -> Directions:
    """Return random directions with the lengths of `made`."""
    found = random_directions(objective, len(made), null="equal length", batch=batch, **axes)
    lengths = made.vectors.norm(dim=1) / found.vectors.norm(dim=1).to(made.vectors.dtype)
    return Directions("random", found.vectors * lengths[:, None].to(found.vectors), made.unit)


@dataclass(frozen=True)
class Quadratic:
    r"""The quadratic model along directions: loss, slopes (n,) and curvatures (n, n).

    .. math:: q(a) = L + \sum_i a_i \, g \cdot d_i + \tfrac12 \sum_{ij} a_i a_j \, d_i \cdot H d_j
    """

    loss: float
    slopes: np.ndarray
    curvatures: np.ndarray

    @classmethod
    def of(cls, objective: Objective, directions: Directions) -> Quadratic:
        """Return the model at an objective's parameters: one gradient and n Hessian-vector products."""
        vectors = directions.vectors.to(objective.parameters)
        gradient, hessian = objective.gradient(), HessianProduct(objective)
        images = [hessian(vector) for vector in vectors]
        curvatures = np.array([[float(v.double() @ image.double()) for image in images] for v in vectors])
        slopes = np.array([float(v.double() @ gradient.double()) for v in vectors])
        return cls(objective.loss(), slopes, 0.5 * (curvatures + curvatures.T))

    def on(self, axes: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the model's values on a lattice, float64 of shape (r_1, ..., r_n)."""
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        bent = 0.5 * np.einsum("...i,ij,...j->...", grid, self.curvatures, grid)
        return self.loss + grid @ self.slopes + bent
