"""How far each diagram moved since the previous checkpoint."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.types import Diagram, Feature, Status
from toposcope.subjects.base import Cost, Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.shapes import FILTRATION, CloudShape
from toposcope.subjects.snapshot import Snapshot, unless_unreadable
from toposcope.subjects.weights.features import DISTANCES, OF_DISTANCES
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.rips import POOLED, pooled_shapes
from toposcope.topology import bottleneck, maximum_spanning_tree_weights, wasserstein

_MOST_BARS = 500
"""The largest number of matched bars; of more, this many quantiles of their deaths are matched."""
_GROUND = "ground L2 (Wasserstein), L-infinity (bottleneck)"


@dataclass(frozen=True)
class Distances(Probe):
    """Wasserstein (order 1 and 2) and bottleneck distance to the previous checkpoint's diagram.

    ``wasserstein1_h0, ...`` compare the pooled clouds' Rips diagrams, draw by draw; ``..._np`` compare
    each matrix's weight diagram, its weights divided by its largest so that births are 1, and `layers` is
    their mean. A weight diagram of more than 500 bars is replaced by 500 of its quantiles (status
    `subsampled`), because exact matching is cubic. The first checkpoint of a run has no rows; one whose
    predecessor cannot be read has `degenerate` rows.
    """

    options: WeightOptions
    name: str = DISTANCES
    features: tuple[Feature, ...] = field(default=OF_DISTANCES, repr=False)
    cost = Cost.COSTLY
    reads = Reads.PREVIOUS

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: three matchings for each matrix, six for each pooled draw."""
        bars = [min(rows + columns, _MOST_BARS) for rows, columns in shapes]
        pooled = (
            self.options.draws * 1e-6 * self.options.points**2 if "pooled" in self.options.clouds else 0.0
        )
        return pooled + sum(1e-3 + 4e-7 * n**2 for n in bars)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the distances between one checkpoint and the one before."""
        measured = Measured()
        if snapshot.previous is not None:
            if "pooled" in self.options.clouds:
                self._add_pooled(measured, snapshot, snapshot.previous)
            self._add_matrices(measured, snapshot, snapshot.previous)
        return measured

    def _add_pooled(self, measured: Measured, snapshot: Snapshot, previous: Snapshot) -> None:
        present = pooled_shapes([snapshot], self.options)[0]
        past = unless_unreadable(lambda: pooled_shapes([previous], self.options)[0])
        measured.alone |= past is None
        earlier: Sequence[CloudShape | None] = [None] * len(present) if past is None else past
        for now, then in zip(present, earlier, strict=False):
            why = _GROUND if then is not None else snapshot.without_previous
            for dim in (0, 1):
                other = None if then is None else then.diagrams[dim]
                values = diagram_distances(now.diagrams[dim], other, f"h{dim}")
                measured.rows += POOLED.rows(
                    snapshot.checkpoint, self.name, values, filtration=FILTRATION,
                    draw=now.draw, status=now.status, note=f"{now.note}; {why}".lstrip("; "),
                )  # fmt: skip

    def _add_matrices(self, measured: Measured, snapshot: Snapshot, previous: Snapshot) -> None:
        now = weight_diagrams(snapshot, self.options)
        then = unless_unreadable(lambda: weight_diagrams(previous, self.options))
        measured.alone |= then is None
        why = _GROUND if then is not None else snapshot.without_previous
        columns: dict[str, list[float]] = {}
        for label in [label for label in now if then is None or label in then]:
            values = diagram_distances(now[label], None if then is None else then[label], "np")
            thinned = now[label].n_vertices > _MOST_BARS
            measured.rows += label.rows(
                snapshot.checkpoint, self.name, values, filtration="weights",
                status=Status.SUBSAMPLED if thinned else Status.OK, note=why,
            )  # fmt: skip
            for feature, value in values.items():
                columns.setdefault(feature, []).append(value)
        means = {feature: statistics.fmean(column) for feature, column in columns.items()}
        measured.rows += Label("layers").rows(
            snapshot.checkpoint, self.name, means, filtration="weights", note=why
        )


def weight_diagrams(snapshot: Snapshot, options: WeightOptions) -> dict[Label, Diagram]:
    """Return each matrix's weight diagram with births at 1, at most 500 bars and no essential one."""

    def compute() -> dict[Label, Diagram]:
        matrices = (matrix for matrix in snapshot.matrices() if options.keeps(matrix.name))
        return {
            Label.of(matrix): _unit_diagram(maximum_spanning_tree_weights(matrix.values, name=matrix.name))
            for matrix in matrices
        }

    return snapshot.remember(("weight diagrams", options.without), compute)


def _unit_diagram(edges: np.ndarray) -> Diagram:
    deaths = edges / edges[0] if edges[0] > 0 else np.ones_like(edges)
    if len(deaths) > _MOST_BARS:
        deaths = np.quantile(deaths, (np.arange(_MOST_BARS) + 0.5) / _MOST_BARS)
    return Diagram(0, np.ones_like(deaths), deaths, "weights", len(edges) + 1)


def diagram_distances(now: Diagram, then: Diagram | None, suffix: str) -> dict[str, float]:
    """Return the three distances; NaN if the numbers of essential classes differ or one is missing."""
    if then is None:
        names = ("wasserstein1", "wasserstein2", "bottleneck")
        return {f"{name}_{suffix}": math.nan for name in names}
    values = {
        f"wasserstein1_{suffix}": wasserstein(now, then, order=1),
        f"wasserstein2_{suffix}": wasserstein(now, then, order=2),
        f"bottleneck_{suffix}": bottleneck(now, then),
    }
    return {key: value if math.isfinite(value) else math.nan for key, value in values.items()}
