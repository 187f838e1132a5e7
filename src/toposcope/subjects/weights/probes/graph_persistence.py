"""Deep graph persistence of matrices that compose, with its null."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint, Feature, Role, Scope
from toposcope.subjects.base import Cost, Measured, Probe
from toposcope.subjects.labels import Label, groups
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.features import (
    DEEP,
    DEEP_EXCESS,
    DEEP_PERSISTENCE,
    DEEP_SHUFFLED,
    DEEP_SPREAD,
    OF_DEEP_PERSISTENCE,
)
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes._composed import Composed, Composition
from toposcope.subjects.weights.probes.heads import heads_in
from toposcope.subjects.weights.probes.neural_persistence import seconds_of_trees
from toposcope.topology.graph_persistence import paths_and_shuffled

_SLOWER = 3.0
"""The most that a pair costs, over the neural persistence of its two matrices (docs/benchmarks.md)."""


@dataclass(frozen=True)
class DeepGraphPersistence(Probe):
    """Deep graph persistence of every pair of matrices that compose, and of each attention head's.

    The pairs are up and down of an MLP, value and output of an attention, and the embedding of a model whose
    head is not tied to it with the first queries, keys and values. A row has the name of the first matrix,
    with the number of the head.
    ``deep_graph_persistence_shuffled`` has a row for each draw, in which each of the two is permuted alone.
    ``deep_graph_persistence_spread`` is one over the largest standardised magnitude of the two.
    The means over the pairs of a role and of the model also have ``deep_graph_persistence_excess``, the
    difference to the mean of the draws. Heads have rows of their own and count in no mean beside their
    layer's pair. A pair at a time is in memory; names that no table knows have no rows.
    """

    options: WeightOptions
    name: str = DEEP_PERSISTENCE
    features: tuple[Feature, ...] = field(default=OF_DEEP_PERSISTENCE, repr=False)
    cost = Cost.COSTLY

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: up to three times that of neural persistence."""
        return _SLOWER * sum(seconds_of_trees(*shape, self.options.nulls) for shape in shapes)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return deep graph persistence and its null at one checkpoint."""
        at, measured = snapshot.checkpoint, Measured()
        pairs: dict[Label, _Paths] = {}
        composition = Composition(heads_in(snapshot.config))
        for matrix in snapshot.matrices():
            if self.options.keeps(matrix.name):
                for pair in composition.add(matrix):
                    pairs[pair.label] = _measured(pair, at, self.options.nulls)
            del matrix  # or it would be held while the next one is read
        if not composition.untied:
            pairs = {label: paths for label, paths in pairs.items() if label.role != Role.EMBEDDING}
        for label, paths in pairs.items():
            self._add(measured, at, label, paths)
        whole = {label.layer for label in pairs if _is_whole_attention(label)}
        counted = {
            label: paths
            for label, paths in pairs.items()
            if label.scope != Scope.HEAD or label.layer not in whole
        }
        for group, has in groups(counted, "model").items() if counted else ():
            mean = _mean([paths for label, paths in counted.items() if has(label)])
            self._add(measured, at, group, mean)
            if mean.shuffled:
                excess = {DEEP_EXCESS.name: mean.value - statistics.fmean(mean.shuffled)}
                measured.rows += group.rows(at, self.name, excess)
        return measured

    def _add(self, measured: Measured, at: Checkpoint, label: Label, paths: _Paths) -> None:
        values = {DEEP.name: paths.value, DEEP_SPREAD.name: paths.spread}
        measured.rows += label.rows(at, self.name, values)
        for draw, value in enumerate(paths.shuffled):
            measured.rows += label.rows(at, self.name, {DEEP_SHUFFLED.name: value}, draw=draw)


@dataclass(frozen=True, slots=True)
class _Paths:
    """The deep graph persistence of a pair, that of its shuffles, and the spread over the largest weight."""

    value: float
    shuffled: list[float]
    spread: float


def _mean(members: Sequence[_Paths]) -> _Paths:
    return _Paths(
        statistics.fmean(paths.value for paths in members),
        [statistics.fmean(draws) for draws in zip(*(paths.shuffled for paths in members), strict=True)],
        statistics.fmean(paths.spread for paths in members),
    )


def _is_whole_attention(label: Label) -> bool:
    return label.role == Role.ATTENTION and label.scope == Scope.MATRIX


def _measured(pair: Composed, at: Checkpoint, draws: int) -> _Paths:
    generators = [
        rng(run=at.run, step=at.step, name=f"{DEEP_PERSISTENCE}/{pair.label.name}", draw=draw)
        for draw in range(draws)
    ]
    return _Paths(*paths_and_shuffled(pair.layers, generators))
