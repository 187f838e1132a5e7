"""Sampled surfaces at every checkpoint: two ranges, two resolutions, several batches and directions."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.types import Feature, Row, Scope
from toposcope.subjects.base import Cost, Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.landscape._around import AtCentre, DirectionDraw, Quadratic, draws_of
from toposcope.subjects.landscape.cost import cost_of_shapes, seconds_with_products
from toposcope.subjects.landscape.features import DECLARED, MINIMA, SURFACE, WITH_NULL
from toposcope.subjects.landscape.geometry.cost import FORWARDS, ComputeCost, refuse_above
from toposcope.subjects.landscape.geometry.directions import Directions
from toposcope.subjects.landscape.geometry.surface import (
    Evaluation,
    Surface,
    sample_surface,
    surface_digest,
    symmetric_axis,
)
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.reach import Reach, reach_by_rule
from toposcope.subjects.landscape.saved_files import place
from toposcope.subjects.landscape.saved_surfaces import read_surface, save_surface
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.landscape.summaries import summaries_of, summarise, topology_of
from toposcope.subjects.snapshot import Snapshot
from toposcope.topology.sampled_surface import SurfaceTopology

if TYPE_CHECKING:
    from toposcope.models import Objective

RANGES = {"full": 1.0, "quarter": 0.25}
_REACH_PASSES = 34
"""Evaluations that find the range of an axis, at both ends; used only to predict a duration."""
_MODEL = Label("model")
_NULLS = tuple(feature.name for feature in WITH_NULL)


@dataclass(frozen=True)
class Surfaces(Probe):
    """The topology of the loss around a checkpoint; one draw for each batch and direction seed.

    Rows of the whole model are of the full range at full resolution; the quarter range and the coarser
    lattice (every second grid point) have rows under other names. The null is the quadratic model at the same
    point on the same lattice; for directions that are not random, also random ones of equal length. With
    `folder`, the surfaces are kept there with their graph, merge tree, tested branches and homology, and are
    read instead of being sampled again. Since version 2, filters are normalised by output unit.
    """

    options: LandscapeOptions
    source: ObjectiveSource
    folder: Path | None = None
    product_seconds: float | None = None
    name: str = SURFACE
    features: tuple[Feature, ...] = field(default=DECLARED[SURFACE], repr=False)
    version = 2
    reads = Reads.PREFIX
    cost = Cost.COSTLY

    def work(self, shapes: Sequence[tuple[int, int]]) -> ComputeCost:
        """Return the forward passes of one checkpoint, and their FLOP."""
        chosen = self.options
        kinds = 1 if chosen.kind.random else 2
        each = len(RANGES) * kinds * chosen.resolution**chosen.n + chosen.n * (_REACH_PASSES + 9) + 3
        eigen = FORWARDS["hessian"] * self._products
        return cost_of_shapes(shapes, chosen, chosen.surfaces * each + eigen)

    @property
    def _products(self) -> int:
        return self.options.kind.products(self.options) * self.options.batches

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint on two cores."""
        cost = self.work(shapes)
        return seconds_with_products(
            shapes, self.options, cost, self._products, self.product_seconds, self.source.slowness
        )

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        rows: list[Row] = []
        first = self.source.first_loss(snapshot, self.options) if self.options.range is None else []
        with self.source.objectives(snapshot, self.options) as objectives:
            refuse_above(self.work([(1, objectives[0].n_parameters)]))
            if snapshot.index < self.options.first:
                return Measured(self._none(snapshot))
            for batch, objective in enumerate(objectives):
                centre = AtCentre.of(objective)
                for draw in draws_of(objective, batch, snapshot, self.source, self.options):
                    rows += self._of_draw(snapshot, objective, draw, centre, first[batch] if first else None)
        return Measured(rows)

    def _none(self, snapshot: Snapshot) -> list[Row]:
        """Return the row that states why one of a run's first checkpoints has no surface."""
        chosen = self.options
        note = (
            f"no surface: {chosen.kind.phrase(chosen.n)} {chosen.first + 1:,} checkpoints of the run, and "
            f"this is number {snapshot.index + 1}"
        )
        return _MODEL.rows(snapshot.checkpoint, self.name, {MINIMA.name: np.nan}, note=note)

    def _of_draw(
        self, snapshot: Snapshot, objective: Objective, draw: DirectionDraw, centre: AtCentre,
        first: float | None,
    ) -> list[Row]:  # fmt: skip
        quadratic = Quadratic.of(objective, draw.directions, centre)
        reaches = self._reaches(objective, draw.directions, centre.loss, first)
        note = "; ".join([*(reach.note for reach in reaches), *draw.directions.notes])
        rows = _MODEL.rows(
            snapshot.checkpoint, self.name, {"reach": float(np.mean([r.value for r in reaches]))},
            draw=draw.number, note=note,
        )  # fmt: skip
        for name, share in RANGES.items():
            axes = [symmetric_axis(share * reach.value, self.options.resolution) for reach in reaches]
            rows += self._of_range(snapshot, objective, draw, name, axes, quadratic)
        return rows

    def _reaches(
        self, objective: Objective, directions: Directions, centre: float, first: float | None
    ) -> list[Reach]:
        fixed = self.options.range
        if first is None:
            assert fixed is not None
            return [Reach(fixed)] * len(directions)
        here = objective.parameters
        movable, counts = objective.movable(), objective.batch.counts

        def along(number: int) -> Reach:
            vector = directions.vectors[number].to(here)

            def loss_at(step: float) -> float:
                losses = movable.per_sequence_losses(here + step * vector)
                return float(losses @ counts / counts.sum())

            return reach_by_rule(loss_at, centre, first)

        return [along(number) for number in range(len(directions))]

    def _of_range(
        self, snapshot: Snapshot, objective: Objective, draw: DirectionDraw, name: str,
        axes: list[np.ndarray], quadratic: Quadratic,
    ) -> list[Row]:  # fmt: skip
        surface, topology = self._sampled(snapshot, objective, draw.directions, name, draw.number, axes)
        graph, every = self.options.graph, (slice(None, None, 2),) * len(axes)
        summaries = summaries_of(topology)
        model = summarise(np.where(surface.finite, quadratic.on(surface.axes), np.nan), graph)
        summaries |= {f"{name}_null": model[name] for name in _NULLS if name in model}
        if draw.random is not None:
            _, other = self._sampled(snapshot, objective, draw.random, f"{name}_random", draw.number, axes)
            beside = summaries_of(other)
            summaries |= {f"{name}_random": beside[name] for name in _NULLS if name in beside}
        label = _MODEL if name == "full" else Label(name, scope=Scope.SETTING)
        masked = int((~surface.finite).sum())
        note = f"{masked} of {surface.finite.size} grid points have no finite loss (masked)" * bool(masked)
        coarse = summaries_of(topology_of(surface, graph, every))
        beside_it = Label(f"{name}, every second place", scope=Scope.SETTING)
        return [
            *label.rows(snapshot.checkpoint, self.name, summaries, draw=draw.number, note=note),
            *beside_it.rows(snapshot.checkpoint, self.name, coarse, draw=draw.number, note=note),
        ]

    def _sampled(
        self, snapshot: Snapshot, objective: Objective, directions: Directions, name: str, draw: int,
        axes: list[np.ndarray],
    ) -> tuple[Surface, SurfaceTopology]:  # fmt: skip
        """Return a surface and its topology.

        It is sampled unless one of the same parameters, batch, directions and lattice is kept. The topology
        is kept with it.
        """
        graph = self.options.graph
        if self.folder is None:
            sampled = sample_surface(objective, directions, axes)
            return sampled, topology_of(sampled, graph)
        path = place(self.folder, snapshot.checkpoint, name, draw)
        digest = surface_digest(objective, directions, axes)
        surface, topology = read_surface(path, digest=digest) or (None, None)
        if surface is not None and topology is not None and topology.graph == graph:
            return surface, topology
        tiles = path.parent / "tiles"
        if surface is None:
            evaluation = Evaluation(folder=tiles)
            surface = sample_surface(objective, directions, axes, evaluation=evaluation, digest=digest)
        topology = topology_of(surface, graph)
        save_surface(path, surface, topology)
        shutil.rmtree(tiles / digest, ignore_errors=True)
        if tiles.is_dir() and not any(tiles.iterdir()):
            tiles.rmdir()
        return surface, topology
