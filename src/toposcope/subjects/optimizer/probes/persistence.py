"""Neural persistence of the bipartite graphs of m and of m / sqrt(v), beside the same entries shuffled."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint, Diagram, Feature, Normalization
from toposcope.subjects.base import Cost, Measured, Probe
from toposcope.subjects.labels import Label, groups
from toposcope.subjects.optimizer.features import MOMENT_PERSISTENCE, OF_MOMENTUM, OF_SCALED
from toposcope.subjects.optimizer.kept import FIRST, SECOND, MomentMatrix, kept_state, moment_matrices
from toposcope.subjects.optimizer.options import OptimizerOptions
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.probes.neural_persistence import seconds_of_trees
from toposcope.topology import (
    batched_spanning_tree_weights,
    neural_persistence,
    shuffled_spanning_tree_weights,
)
from toposcope.topology.neural_persistence import diagram_of_tree

_READING = 2e-9
"""Seconds to read a value of the state, beside those of a tree."""


@dataclass(frozen=True)
class MomentPersistence(Probe):
    r"""Neural persistence of m, and of m / sqrt(v) where there is a second moment, by each matrix's maximum.

    The rows and columns of a matrix are the vertices, its entries' magnitudes the edges; the n - 1 edges e of
    the maximum spanning tree are the deaths of H0. The value is mean(1 - \|e\| / max), the null is the same
    after a random permutation of the entries, one row a draw, and the excess is the difference of the value
    and the nulls' mean. Where v is 0, m / sqrt(v) counts as 0. A matrix that is not finite is left out.
    """

    options: OptimizerOptions = field(default_factory=OptimizerOptions)
    name: str = MOMENT_PERSISTENCE
    version: ClassVar[int] = 1
    features: tuple[Feature, ...] = field(default=(*OF_MOMENTUM, *OF_SCALED), repr=False)
    cost = Cost.COSTLY

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: two trees a matrix, and two for each null."""
        return sum(
            2 * (seconds_of_trees(rows, columns, self.options.nulls) + _READING * rows * columns)
            for rows, columns in shapes
        )

    def warm_up(self) -> None:
        """Load the compiled kernels, so that no measurement's time includes what is done once per process."""
        batched_spanning_tree_weights([np.ones((2, 3), np.float32)])

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the persistence of one checkpoint's moments; nothing where none are kept."""
        measured, at = Measured(), snapshot.checkpoint
        kept = kept_state(snapshot)
        if kept is None:
            return measured
        trees: dict[str, dict[Label, MomentTree]] = {}
        for matrix in moment_matrices(snapshot, kept, history=False):
            if not self.options.keeps(matrix.label.name):
                continue
            for features, values in _graphs(matrix):
                stem = features[0].name
                if np.isfinite(values).all():
                    tree = _tree(values, matrix.label, at, stem, self.options.nulls)
                    trees.setdefault(stem, {})[matrix.label] = tree
                    if features is OF_MOMENTUM:
                        measured.diagrams.append(matrix.label.keep(tree.edges))
        for features in (OF_MOMENTUM, OF_SCALED):
            self._add(measured, at, features, trees.get(features[0].name, {}))
        return measured

    def _add(
        self,
        measured: Measured,
        at: Checkpoint,
        features: Sequence[Feature],
        trees: Mapping[Label, MomentTree],
    ) -> None:
        value, null, excess = (feature.name for feature in features)
        everything = [(label, [tree]) for label, tree in trees.items()]
        everything += [(group, [tree for label, tree in trees.items() if has(label)])
                       for group, has in (groups(trees, "model") if trees else {}).items()]  # fmt: skip
        for label, members in everything:
            mean = statistics.fmean(tree.value for tree in members)
            draws = [statistics.fmean(draw) for draw in zip(*(tree.nulls for tree in members), strict=True)]
            numbers = {value: mean} | ({excess: mean - statistics.fmean(draws)} if draws else {})
            measured.rows += label.rows(at, self.name, numbers)
            for draw, number in enumerate(draws):
                measured.rows += label.rows(at, self.name, {null: number}, draw=draw)


@dataclass(frozen=True, slots=True)
class MomentTree:
    """The spanning tree of one matrix, its neural persistence, and that of each permutation."""

    edges: Diagram
    value: float
    nulls: tuple[float, ...]


def _graphs(matrix: MomentMatrix) -> list[tuple[tuple[Feature, ...], np.ndarray]]:
    """Return m, and m / sqrt(v) where v is known."""
    if not matrix.has(FIRST):
        return []
    first = np.ascontiguousarray(matrix.fields[FIRST])
    graphs = [(OF_MOMENTUM, first)]
    if matrix.has(SECOND):
        root = np.sqrt(np.maximum(matrix.fields[SECOND], 0))
        with np.errstate(over="ignore"):
            graphs.append((OF_SCALED, np.divide(first, root, out=np.zeros_like(first), where=root > 0)))
    return graphs


def _tree(values: np.ndarray, label: Label, at: Checkpoint, stem: str, nulls: int) -> MomentTree:
    (edges,) = batched_spanning_tree_weights([values], names=[label.name])
    generators = [
        rng(run=at.run, step=at.step, name=f"{stem}/{label.name}", draw=draw) for draw in range(nulls)
    ]
    shuffled = shuffled_spanning_tree_weights(values, rng=generators, name=label.name) if generators else []
    diagram = diagram_of_tree(edges)
    return MomentTree(diagram, _value(diagram), tuple(_value(diagram_of_tree(tree)) for tree in shuffled))


def _value(edges: Diagram) -> float:
    """Return neural persistence by the matrix's maximum; 0 if every entry is 0."""
    top = float(edges.birth[0])
    return neural_persistence(edges, Normalization.MATRIX, top) if top > 0 else 0.0
