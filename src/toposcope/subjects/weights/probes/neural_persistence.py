"""Neural persistence of every matrix, with its nulls and confounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint, Diagram, Feature, Matrix, Normalization, Status
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.labels import Label, groups
from toposcope.subjects.snapshot import Snapshot, batches
from toposcope.subjects.weights.features import NEURAL_PERSISTENCE, OF_NEURAL_PERSISTENCE
from toposcope.subjects.weights.options import WeightOptions
from toposcope.topology import (
    batched_spanning_tree_weights,
    magnitude_quantile,
    magnitude_variance,
    neural_persistence,
    shuffled_spanning_tree_weights,
)
from toposcope.topology.neural_persistence import diagram_of_tree

_CLIP = 0.999
"""The quantile of magnitudes that replaces the largest weight, which is a single number."""


@dataclass(frozen=True)
class NeuralPersistence(Probe):
    r"""Neural persistence by the whole network's maximum (filtration `rieck`) and each matrix's (`seed004`).

    Features of a matrix, with s the scale of the normalization and w_e the n - 1 tree edges:

    - ``neural_persistence``: (mean (1 - w_e/s)^p)^(1/p), p = 2 for the network, 1 for the matrix;
    - ``neural_persistence_shuffled``: the same after a random permutation of the entries, one row a draw;
    - ``neural_persistence_clipped``: the same with the 99.9% quantile of \|w\| instead of its maximum;
    - ``weight_variance``: Var(\|w\| / s).

    Aggregates over all matrices (`model`) and those of a role (`role`): the mean of each,
    ``neural_persistence_std`` (population) and ``neural_persistence_excess`` = NP minus its mean null.
    A stored tied head counts as a matrix of its own. Each matrix is read once: only its tree is kept until
    the whole network's maximum is known.
    """

    options: WeightOptions
    name: str = NEURAL_PERSISTENCE
    features: tuple[Feature, ...] = field(default=OF_NEURAL_PERSISTENCE, repr=False)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: a few passes over the weights, and one tree for each null."""
        return sum(seconds_of_trees(rows, columns, self.options.nulls) for rows, columns in shapes)

    def warm_up(self) -> None:
        """Load the compiled kernels, so that no measurement's time includes what is done once per process."""
        batched_spanning_tree_weights([np.ones((2, 3), np.float32)])

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return neural persistence and its nulls at one checkpoint."""
        return self.measure_together([snapshot])[0]

    def measure_together(self, snapshots: Sequence[Snapshot]) -> list[Measured]:
        """Return the results of `measure` for several checkpoints."""
        matrices = (
            (place, matrix)
            for place, snapshot in enumerate(snapshots)
            for matrix in snapshot.matrices()
            if self.options.keeps(matrix.name)
        )
        trees: list[list[_MatrixTree]] = [[] for _ in snapshots]
        for batch in batches(matrices):
            for (place, _), tree in zip(batch, _trees([m for _, m in batch], self.options), strict=True):
                trees[place].append(tree)
        results = [self._measured(s.checkpoint, of_one) for s, of_one in zip(snapshots, trees, strict=True)]
        for measured, snapshot in zip(results, snapshots, strict=True):
            self._without_scale(measured, snapshot)
        return results

    def _without_scale(self, measured: Measured, snapshot: Snapshot) -> None:
        """Mark values that are scaled by the network's maximum as failed if a matrix is not finite."""
        note = next(
            (non_finite.note for non_finite in snapshot.non_finite if self.options.keeps(non_finite.name)), ""
        )
        if note:
            measured.rows = [
                replace(row, value=math.nan, status=Status.FAILED, note=note)
                if row.filtration == Normalization.NETWORK
                else row
                for row in measured.rows
            ]

    def _measured(self, at: Checkpoint, trees: list[_MatrixTree]) -> Measured:
        measured = Measured(diagrams=[tree.label.keep(tree.edges) for tree in trees])
        if trees:
            for normalization in self.options.conventions:
                self._add(measured, at, normalization, trees)
        return measured

    def _add(
        self, measured: Measured, at: Checkpoint, normalization: Normalization, trees: list[_MatrixTree]
    ) -> None:
        top = max(tree.top for tree in trees) if normalization == Normalization.NETWORK else None
        quantiles = [tree.confounds[0] for tree in trees if tree.confounds is not None]
        clip = max(quantiles, default=None) if normalization == Normalization.NETWORK else None
        values = {tree.label: tree.values(normalization, top, clip) for tree in trees}
        nulls = {tree.label: tree.null_values(normalization, top) for tree in trees}
        for label, features in values.items():
            measured.rows += label.rows(at, self.name, features, filtration=normalization)
            self._add_nulls(measured, at, normalization, label, nulls[label])
        for group, has in groups(values, "model").items():
            members = [label for label in values if has(label)]
            columns = {
                feature: [values[label][feature] for label in members] for feature in values[members[0]]
            }
            means = {feature: statistics.fmean(column) for feature, column in columns.items()}
            means["neural_persistence_std"] = float(np.std(columns["neural_persistence"]))
            null = [statistics.fmean(draw) for draw in zip(*(nulls[label] for label in members), strict=True)]
            if null:
                means["neural_persistence_excess"] = means["neural_persistence"] - statistics.fmean(null)
            measured.rows += group.rows(at, self.name, means, filtration=normalization)
            self._add_nulls(measured, at, normalization, group, null)

    def _add_nulls(
        self,
        measured: Measured,
        at: Checkpoint,
        normalization: Normalization,
        label: Label,
        null: list[float],
    ) -> None:
        for draw, value in enumerate(null):
            feature = {"neural_persistence_shuffled": value}
            measured.rows += label.rows(at, self.name, feature, filtration=normalization, draw=draw)


@dataclass(frozen=True, slots=True)
class _MatrixTree:
    """The results for a matrix: its spanning tree's edges, those of its permutations, and moments."""

    label: Label
    edges: Diagram
    confounds: tuple[float, float] | None
    """The 99.9% quantile of |w|, and Var(|w| / max|w|)."""
    nulls: list[Diagram]

    @property
    def top(self) -> float:
        return float(self.edges.birth[0])

    def values(self, normalization: Normalization, top: float | None, clip: float | None) -> dict[str, float]:
        scale = self.top if top is None else top
        numbers = {"neural_persistence": _value(self.edges, normalization, scale)}
        if self.confounds is not None:
            quantile, variance = self.confounds
            numbers["neural_persistence_clipped"] = _value(self.edges, normalization, clip or quantile)
            numbers["weight_variance"] = variance * (self.top / scale) ** 2 if scale > 0 else 0.0
        return numbers

    def null_values(self, normalization: Normalization, top: float | None) -> list[float]:
        return [_value(null, normalization, self.top if top is None else top) for null in self.nulls]


def seconds_of_trees(rows: int, columns: int, nulls: int) -> float:
    """Return the cost of one matrix: passes over its entries, and N ln N random cells for each null."""
    entries, vertices = rows * columns, rows + columns
    return 1e-4 + 6e-9 * entries + nulls * (1e-4 + 6e-8 * vertices * math.log(vertices) + 6e-10 * entries)


def _value(edges: Diagram, normalization: Normalization, scale: float) -> float:
    """Return neural persistence; 0 for a network without any weight."""
    return neural_persistence(edges, normalization, scale) if scale > 0 else 0.0


def _trees(batch: Sequence[Matrix], options: WeightOptions) -> list[_MatrixTree]:
    names = [matrix.name for matrix in batch]
    edges = batched_spanning_tree_weights([matrix.values for matrix in batch], names=names)
    return [_tree(matrix, tree, options) for matrix, tree in zip(batch, edges, strict=True)]


def _tree(matrix: Matrix, edges: np.ndarray, options: WeightOptions) -> _MatrixTree:
    at, values, name = matrix.checkpoint, matrix.values, matrix.name
    generators = [rng(run=at.run, step=at.step, name=name, draw=draw) for draw in range(options.nulls)]
    shuffled = shuffled_spanning_tree_weights(values, rng=generators, name=name) if generators else []
    confounds = None
    if options.confounds:
        confounds = magnitude_quantile(values, _CLIP, name=name), magnitude_variance(values, name=name)
    return _MatrixTree(
        Label.of(matrix), diagram_of_tree(edges), confounds, [diagram_of_tree(t) for t in shuffled]
    )
