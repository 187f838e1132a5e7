"""The kinds of directions of a loss surface, a class each, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.plugins import Extensible
from toposcope.subjects.landscape.geometry.directions import (
    Directions,
    hessian_directions,
    random_directions,
    trajectory_directions,
)
from toposcope.subjects.landscape.geometry.lanczos import random_start, top_eigenpairs

if TYPE_CHECKING:
    import torch

    from toposcope.models import Objective

GROUP = "toposcope.directions"
"""The entry-point group with which an installed package offers kinds: NAME = "module:Class"."""
_TOLERANCE = 1e-2
"""Relative residual of the eigenvectors; the axes of a surface need no more precision."""


class DirectionSettings(Protocol):
    """The settings of a surface that a kind may check: `LandscapeOptions` has them."""

    @property
    def n(self) -> int:
        """The number of directions."""

    @property
    def eigenvalues(self) -> int:
        """The number of eigenvalues of the curvature."""

    @property
    def products(self) -> int:
        """The largest number of Hessian-vector products of a batch."""


@dataclass(frozen=True)
class Centre:
    """The point from which `n` directions start: a checkpoint's objective on one batch.

    `seed` numbers the draws of one batch. `history` returns the flat parameters of the run's checkpoints so
    far, in the order of the steps; the last are those of this checkpoint. It reads files.
    """

    objective: Objective
    n: int
    run: str
    step: int
    batch: int
    seed: int
    products: int
    history: Callable[[], Sequence[torch.Tensor]]


class DirectionKind:
    """How the directions of a surface are chosen; derived classes are listed in `KINDS`."""

    name: ClassVar[str]
    """The value of the option `directions`, which the store keeps."""
    description: ClassVar[str]
    """What they are, in a few words, for the help."""
    random: ClassVar[bool] = False
    """Whether they are random: then a batch has several draws, and they need no null of random directions."""
    origin: ClassVar[str] = ""
    """What they belong to, for a sentence: "of the trajectory"."""

    def earlier(self, n: int) -> int:
        """Return how many checkpoints of the run must precede one whose surface has `n` such directions."""
        return 0

    def products(self, settings: DirectionSettings) -> int:
        """Return how many Hessian-vector products a batch needs at most."""
        return 0

    def check(self, settings: DirectionSettings) -> None:
        """Refuse settings with which these directions cannot be computed, with an `InputError`."""
        return

    def at(self, centre: Centre) -> Directions:
        """Return the directions from one point."""
        raise NotImplementedError

    def phrase(self, n: int) -> str:
        """Return `n` such directions and their verb, as in "2 directions of the trajectory need"."""
        noun = f"direction{'s' * (n != 1)} {self.origin}".rstrip()
        return f"{n:,} {noun} need{'s' * (n == 1)}"


class RandomDirections(DirectionKind):
    """Gaussian directions with filter normalisation, the same at every step of a run."""

    name = "random"
    description = "filter-normalised"
    random = True

    def at(self, centre: Centre) -> Directions:
        """Return the directions of this run and seed."""
        return random_directions(centre.objective, centre.n, run=centre.run, seed=centre.seed)


class HessianDirections(DirectionKind):
    """The eigenvectors of the Hessian with the eigenvalues of largest magnitude."""

    name = "hessian"
    description = "top eigenvectors"

    def products(self, settings: DirectionSettings) -> int:
        """Return the limit of the eigenvalues' products."""
        return settings.products

    def check(self, settings: DirectionSettings) -> None:
        """Refuse fewer eigenvalues than directions."""
        if settings.eigenvalues < settings.n:
            raise InputError(
                f"{settings.n} directions need at least {settings.n}",
                argument="eigenvalues",
                value=settings.eigenvalues,
            )

    def at(self, centre: Centre) -> Directions:
        """Return the eigenvectors.

        Raises
        ------
        InputError
            If one does not converge.
        """
        from toposcope.models.curvature import HessianProduct

        here, axes = centre.objective.parameters, {"run": centre.run}
        start = random_start(len(here), here.dtype, **axes, step=centre.step, batch=centre.batch)
        pairs = top_eigenpairs(
            HessianProduct(centre.objective), start.to(here.device), k=centre.n, tolerance=_TOLERANCE,
            most=centre.products, axes=axes,
        )  # fmt: skip
        return hessian_directions(pairs, centre.n)


class TrajectoryDirections(DirectionKind):
    """The principal directions of the checkpoints so far, each as long as their extent along it."""

    name = "trajectory"
    description = "principal components of the checkpoints"
    origin = "of the trajectory"

    def earlier(self, n: int) -> int:
        """Return n: so many directions are spanned by n + 1 points."""
        return n

    def at(self, centre: Centre) -> Directions:
        """Return the principal directions.

        Raises
        ------
        InputError
            If the checkpoints span too few directions.
        """
        import torch

        trajectory = trajectory_directions(centre.history(), centre.n)
        extent = np.abs(trajectory.coordinates - trajectory.coordinates[-1]).max(axis=0)
        if not (extent > 0).all():
            raise InputError(
                "the trajectory does not leave this checkpoint along one of the directions; use fewer "
                "directions"
            )
        vectors = trajectory.directions.vectors * torch.from_numpy(extent)[:, None]
        return replace(trajectory.directions, vectors=vectors, unit="the farthest checkpoint along it")


KINDS: tuple[type[DirectionKind], ...] = (RandomDirections, HessianDirections, TrajectoryDirections)
"""The kinds in the order of the help."""

EXTENSIBLE = Extensible(
    GROUP, DirectionKind, KINDS, lambda kind: kind.name,
    "directions {} exist already; give yours another name",
)  # fmt: skip
"""Every kind by its name, with those that were added."""


def add_directions(kind: type[DirectionKind]) -> type[DirectionKind]:
    """Register a kind for this process; returns it, so it works as a class decorator.

    An installed package offers its kinds to every process by the entry points `toposcope.directions`.

    Raises
    ------
    InputError
        When another kind has its name.
    """
    return EXTENSIBLE.add(kind)


def direction_kinds() -> dict[str, DirectionKind]:
    """Return every kind by its name: the package's, those of installed packages, and those that were added.

    >>> list(direction_kinds())
    ['random', 'hessian', 'trajectory']
    """
    return {name: kind() for name, kind in EXTENSIBLE.by_name().items()}


def described_kinds() -> str:
    """Return every kind with its description, for the help.

    >>> described_kinds().split(", ")[0]
    'random (filter-normalised)'
    """
    *others, last = (f"{kind.name} ({kind.description})" for kind in direction_kinds().values())
    return f"{', '.join(others)} or {last}"
