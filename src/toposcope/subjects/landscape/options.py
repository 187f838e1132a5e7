"""The settings of the loss surface: one frozen dataclass, which is also the store's recipe."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from toposcope.core.errors import InputError
from toposcope.subjects.landscape.direction_kinds import (
    GROUP,
    DirectionKind,
    RandomDirections,
    described_kinds,
    direction_kinds,
)
from toposcope.subjects.request import check_choices, check_counts, option

GRAPHS = ("lattice", "kuhn", "knn")
RISE = 0.1
"""The surface reaches at least this far above its centre, in nats per token."""
RULE = (
    "each axis goes on until the mean loss of its two ends is as high as at the run's first measured "
    f"checkpoint, and at least {RISE} nats above the centre; a second surface has a quarter of this range"
)
_KIND = "landscape"

_LEAST = {
    "n": 1, "resolution": 5, "batches": 1, "sequences": 4, "length": 2, "draws": 1, "eigenvalues": 1,
    "products": 2, "vectors": 2, "steps": 1, "nulls": 0, "updates": 5,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LandscapeOptions:
    """The settings of the measurements around a checkpoint.

    The draws are `batches` disjoint sets of `sequences` texts of at most `length` tokens, and `draws` sets of
    random directions. `resolution` is the number of grid points along each of `n` axes: 4 k + 1, so that
    every second point, the centre included, forms the coarser grid. `range` is None for the default rule, or
    a number in the directions' unit. The `eigenvalues` eigenvalues of largest magnitude come from at most
    `products` Hessian-vector products; trace and density come from `vectors` random vectors, the density with
    `steps` Lanczos steps. `nulls` random directions of the update's length are the null of the critical
    sharpness. `layers` adds each layer's own top eigenvalue. `updates` is the number of updates after each
    jump of jump-and-retrain.
    """

    directions: str = option(
        RandomDirections.name,
        lambda: f"Axes of the surface: {described_kinds()}.",
        choices=lambda: tuple(direction_kinds()),
    )
    n: int = option(2, "Number of axes of the surface: 1, 2 or 3.")
    resolution: int = option(21, "Number of grid points per axis: 5, 9, 13, 17, 21, ... (4 k + 1).")
    range: float | None = option(
        None,
        "How far each axis goes, in the unit of the directions.",
        shown="until the loss is as high as at the first checkpoint",
    )
    graph: str = option(
        "lattice",
        "Which grid points are neighbours: the 2 n along the axes (lattice), those of Kuhn's triangulation "
        "(kuhn), or the mutual 4 n nearest (knn).",
        choices=GRAPHS,
    )
    batches: int = option(2, "Number of batches; no two share a text.")
    sequences: int = option(8, "Number of texts per batch.")
    length: int = option(64, "Number of tokens to read from each text.")
    draws: int = option(2, "Number of random draws of the directions.")
    eigenvalues: int = 5
    products: int = option(
        100,
        "Maximum number of Hessian-vector products for a batch's eigenvalues; more products let more "
        "eigenvalues converge.",
    )
    vectors: int = 8
    steps: int = 30
    nulls: int = 2
    layers: bool = True
    updates: int = 40

    def __post_init__(self) -> None:
        """Refuse settings that cannot be measured."""
        check_choices(self, {"directions": direction_kinds(), "graph": GRAPHS})
        check_counts(self, _LEAST)
        if self.n > 3:
            raise InputError("a surface has 1, 2 or 3 directions", argument="n", value=self.n)
        if self.resolution % 4 != 1:
            raise InputError(
                "every second grid point must form a coarser grid with the same centre",
                argument="resolution",
                value=self.resolution,
                remedy="give 4 k + 1 (9, 13, 17, 21, ... 41)",
            )
        if self.range is not None and not (math.isfinite(self.range) and self.range > 0):
            raise InputError(
                "not a positive finite number",
                argument="range",
                value=self.range,
                remedy="give one, or leave it out for the default rule",
            )
        self.kind.check(self)

    @property
    def kind(self) -> DirectionKind:
        """The kind of directions that `directions` names.

        Raises
        ------
        InputError
            In a process that does not know it: `add_directions` was called in another one.
        """
        kinds = direction_kinds()
        if self.directions not in kinds:  # settings that come from another process were not checked here
            raise InputError(
                "these directions are registered only in the calling process",
                argument="directions",
                value=self.directions,
                remedy=f"offer them by the entry point {GROUP}, or use 1 process",
            )
        return kinds[self.directions]

    @property
    def texts(self) -> int:
        """The number of texts of all batches together."""
        return self.batches * self.sequences

    @property
    def first(self) -> int:
        """The index, from 0, of the first checkpoint of a run that has a surface."""
        return self.kind.earlier(self.n)

    @property
    def draws_per_batch(self) -> int:
        """The number of draws of the directions on one batch: one, if they are not random."""
        return self.draws if self.kind.random else 1

    @property
    def surfaces(self) -> int:
        """The number of surfaces of each range per checkpoint."""
        return self.batches * self.draws_per_batch

    @property
    def tokens(self) -> int:
        """The largest number of tokens in one batch."""
        return self.sequences * self.length

    def recipe(self, texts_digest: str) -> dict[str, object]:
        """Return the settings and the texts as the store's recipe: plain JSON values."""
        from toposcope.store.manifest import STORED  # loads Arrow, which the command's help does not need

        stored = STORED[_KIND]
        settings = {stored.get(name, name): value for name, value in asdict(self).items()}
        return {"probe": _KIND, "texts": texts_digest, **settings}
