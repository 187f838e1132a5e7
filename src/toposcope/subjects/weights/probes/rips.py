"""Vietoris-Rips H0 and H1 of weight clouds: rows as points, per matrix and pooled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from toposcope.core.types import Diagram, Feature, Scope, Status
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.labels import Label, groups
from toposcope.subjects.shapes import FILTRATION, CloudShape, diagram_features, measure_shapes
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights._clouds import CloudDraw, pooled_draws, row_draws
from toposcope.subjects.weights.features import OF_RIPS, RIPS
from toposcope.subjects.weights.options import WeightOptions
from toposcope.topology import rips_batch
from toposcope.topology.clouds import distance_matrix

POOLED = Label("pooled", scope=Scope.POOLED)
_BATCH_BYTES = 64 * 2**20
"""Distance matrices that are reduced together; this changes only memory and speed."""


K = TypeVar("K")


@dataclass(frozen=True)
class Rips(Probe):
    """H0 and H1 of the rows of every matrix, and of the rows of all matrices pooled.

    Features ``h0_count, h0_total, ...`` and ``h1_...`` are the summaries of `toposcope.topology`, and
    ``h0_total_scaled`` is the total in units of the cloud's median distance. Clouds above
    `options.points` rows are subsampled `options.draws` times. The aggregates `layers` and `role` have the
    summaries of the matrices' joined diagrams, so their total is the sum over matrices.
    """

    options: WeightOptions
    name: str = RIPS
    features: tuple[Feature, ...] = field(default=OF_RIPS, repr=False)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: one H1 computation for each cloud and draw."""
        clouds = [rows for rows, _ in shapes] if "matrix" in self.options.clouds else []
        clouds += [sum(rows for rows, _ in shapes)] if "pooled" in self.options.clouds else []
        draws = [1 if rows <= self.options.points else self.options.draws for rows in clouds]
        sizes = [min(rows, self.options.points) for rows in clouds]
        return sum(draw * (1e-3 + 4e-7 * n**2) for draw, n in zip(draws, sizes, strict=True))

    def warm_up(self) -> None:
        """Load the compiled kernels, so that no measurement's time includes what is done once per process."""
        corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [3, 3]], np.float32)
        rips_batch([distance_matrix(corners, FILTRATION)], maxdim=1, metric="precomputed")

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the Rips summaries of one checkpoint."""
        return self.measure_together([snapshot])[0]

    def measure_together(self, snapshots: Sequence[Snapshot]) -> list[Measured]:
        """Return the results of `measure` for several checkpoints; their clouds are spread over the cores."""
        measured = [Measured() for _ in snapshots]
        if "matrix" in self.options.clouds:
            for result, snapshot, shapes in zip(
                measured, snapshots, matrix_shapes(snapshots, self.options), strict=True
            ):
                for label, members in shapes.items():
                    self._add(result, snapshot, label, members)
                for group, has in groups(shapes, "layers").items():
                    self._add_group(
                        result, snapshot, group, [shapes[label] for label in shapes if has(label)]
                    )
        if "pooled" in self.options.clouds:
            for result, snapshot, pooled in zip(
                measured, snapshots, pooled_shapes(snapshots, self.options), strict=True
            ):
                self._add(result, snapshot, POOLED, pooled)
        return measured

    def _add(self, measured: Measured, snapshot: Snapshot, label: Label, shapes: list[CloudShape]) -> None:
        for shape in shapes:
            values = shape.features()
            measured.rows += label.rows(
                snapshot.checkpoint, self.name, values, filtration=FILTRATION,
                draw=shape.draw, status=shape.status, note=shape.note,
            )  # fmt: skip
            measured.diagrams += [label.keep(diagram, shape.draw) for diagram in shape.diagrams]

    def _add_group(
        self, measured: Measured, snapshot: Snapshot, group: Label, members: list[list[CloudShape]]
    ) -> None:
        """Add the summaries of several matrices' joined bars, draw by draw."""
        draws = max((len(shapes) for shapes in members), default=0)
        for draw in range(draws):
            shapes = [shapes[draw] if len(shapes) > 1 else shapes[0] for shapes in members]
            together = [_union([shape.diagrams[dim] for shape in shapes]) for dim in (0, 1)]
            scaled = {key: sum(shape.scaled[key] for shape in shapes) for key in shapes[0].scaled}
            status = max((shape.status for shape in shapes), key=list(Status).index)
            measured.rows += group.rows(
                snapshot.checkpoint, self.name, diagram_features(together) | scaled, filtration=FILTRATION,
                draw=None if draws == 1 and status != Status.SUBSAMPLED else draw, status=status,
            )  # fmt: skip


def matrix_shapes(
    snapshots: Sequence[Snapshot], options: WeightOptions
) -> list[dict[Label, list[CloudShape]]]:
    """Return, for each checkpoint, the diagrams of every matrix's rows, one for each draw."""
    draws = (
        ((place, Label.of(matrix)), draw)
        for place, snapshot in enumerate(snapshots)
        for matrix in snapshot.matrices()
        if options.keeps(matrix.name)
        for draw in row_draws(matrix, options)
    )
    shapes_by_place: list[dict[Label, list[CloudShape]]] = [{} for _ in snapshots]
    for (place, label), shape in _shapes(draws, options):
        shapes_by_place[place].setdefault(label, []).append(shape)
    return shapes_by_place


def pooled_shapes(snapshots: Sequence[Snapshot], options: WeightOptions) -> list[list[CloudShape]]:
    """Return, for each checkpoint, the diagrams of its pooled cloud, one for each draw.

    They are cached, so that all probes share them.
    """
    missing = [snapshot for snapshot in snapshots if not snapshot.remembers(("pooled", options))]
    shapes_by_index: dict[int, list[CloudShape]] = {snapshot.index: [] for snapshot in missing}
    draws = ((snapshot.index, draw) for snapshot in missing for draw in _pooled_draws(snapshot, options))
    for index, shape in _shapes(draws, options):
        shapes_by_index[index].append(shape)
    return [
        snapshot.remember(("pooled", options), lambda snapshot=snapshot: shapes_by_index[snapshot.index])  # type: ignore[misc]
        for snapshot in snapshots
    ]


def _pooled_draws(snapshot: Snapshot, options: WeightOptions) -> list[CloudDraw]:
    matrices = (matrix for matrix in snapshot.matrices() if options.keeps(matrix.name))
    return pooled_draws(matrices, snapshot.checkpoint, options)


def _shapes(draws: Iterable[tuple[K, CloudDraw]], options: WeightOptions) -> Iterator[tuple[K, CloudShape]]:
    """Yield the shape of each cloud; those that fit into memory together share the cores."""
    waiting: list[tuple[K, CloudDraw, np.ndarray]] = []
    for key, draw in draws:
        distances = distance_matrix(draw.points, FILTRATION)
        waiting.append((key, draw, distances))
        if len(waiting) * distances.nbytes > _BATCH_BYTES:
            yield from _measure(waiting, options)
            waiting = []
    yield from _measure(waiting, options)


def _measure(
    clouds: Sequence[tuple[K, CloudDraw, np.ndarray]], options: WeightOptions
) -> list[tuple[K, CloudShape]]:
    shapes = measure_shapes(
        [cloud[2] for cloud in clouds],
        [draw.number for _, draw, _ in clouds],
        thresh=options.thresh,
        notes=[draw.note for _, draw, _ in clouds],
    )
    return [(key, shape) for (key, _, _), shape in zip(clouds, shapes, strict=True)]


def _union(diagrams: list[Diagram]) -> Diagram:
    """Join the bars of several diagrams."""
    birth = np.concatenate([diagram.birth for diagram in diagrams])
    death = np.concatenate([diagram.death for diagram in diagrams])
    return Diagram(diagrams[0].dim, birth, death, FILTRATION, sum(diagram.n_vertices for diagram in diagrams))
