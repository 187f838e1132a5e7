"""The experts of each layer of a mixture, and the rows of its gate."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from toposcope.core.types import Feature, Matrix, Role, Scope
from toposcope.sources.expert_layers import GateRows, expert_name, gate_layer, gate_rows, sample_of
from toposcope.subjects.base import Cost, Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.snapshot import Snapshot, unless_unreadable
from toposcope.subjects.weights.features import EXPERTS, OF_EXPERTS
from toposcope.subjects.weights.options import WeightOptions

_OF_STACK = re.compile(r"\[(\d+)\]$")


@dataclass(slots=True)
class _LayerOfExperts:
    """What is kept of one layer while its matrices stream by: a norm and a sample of each, and the gate."""

    layer: int | None = None
    squares: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    samples: dict[int, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    gate: tuple[str, np.ndarray] | None = None

    def add(self, number: int, matrix: Matrix) -> None:
        values = np.asarray(matrix.values, np.float32)
        self.layer = matrix.layer
        self.squares[number] += float(np.einsum("ij,ij", values, values, dtype=np.float64))
        self.samples[number].append(sample_of(values))

    def rows_of_gate(self) -> GateRows | None:
        """Return what the gate's rows show; None without a gate of one row for each expert."""
        if self.gate is None or len(self.squares) not in self.gate[1].shape:
            return None
        return gate_rows(*self.gate, len(self.squares))


@dataclass(frozen=True)
class Experts(Probe):
    """Norms and cosines of the gate's rows, spread of the experts' norms, likeness of experts, per layer.

    A row of scope `layer` for each layer with experts, under what its experts' names begin with. A model
    without experts has no rows and is not read. The stable rank is that of the gate's rows without their
    mean, which changes no choice; `gate_rank_kept` is over that of the run's first checkpoint.
    """

    options: WeightOptions
    name: str = EXPERTS
    version: ClassVar[int] = 1
    features: tuple[Feature, ...] = field(default=OF_EXPERTS, repr=False)
    cost = Cost.COSTLY  # although it is cheap: measured only if named
    reads = Reads.PREFIX

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: one pass over the weights."""
        return sum(1e-4 + 1e-9 * rows * columns for rows, columns in shapes)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the features of each layer with experts."""
        measured = Measured()
        names = snapshot.weight_names()
        if names and not any("experts" in name for name in names):
            return measured
        layers = _layers(snapshot, self.options)
        first = snapshot.prefix[0]
        begun: Mapping[str, float] = {}
        if layers and snapshot.index:
            begun = first.remember_for_run(
                (EXPERTS, self.options.without),
                lambda: unless_unreadable(lambda: _ranks(_layers(first, self.options))) or {},
            )
        for name, layer in layers.items():
            label = Label(name, Role.MLP, layer.layer, None, Scope.LAYER)
            measured.rows += label.rows(snapshot.checkpoint, self.name, _of_layer(layer, begun.get(name)))
        return measured


def _layers(snapshot: Snapshot, options: WeightOptions) -> dict[str, _LayerOfExperts]:
    layers: dict[str, _LayerOfExperts] = defaultdict(_LayerOfExperts)
    gates: dict[str, tuple[str, np.ndarray]] = {}
    for matrix in snapshot.matrices():
        if not options.keeps(matrix.name):
            continue
        if (layer := gate_layer(matrix.name)) is not None:
            gates[layer] = (matrix.name, np.asarray(matrix.values))
        for place, number in _places(matrix.name):
            layers[f"{place}experts"].add(number, matrix)
    for layer, gate in gates.items():
        if f"{layer}experts" in layers:
            layers[f"{layer}experts"].gate = gate
    return dict(layers)


def _places(name: str) -> Iterator[tuple[str, int]]:
    """Yield the layer and the number of the expert that a matrix is of, if it is of one.

    >>> list(_places("h.0.mlp.experts.3.up_proj")), list(_places("h.0.mlp.experts.up_proj[3]"))
    ([('h.0.mlp.', 3)], [('h.0.mlp.', 3)])
    """
    stack = _OF_STACK.search(name)
    place = expert_name(name[: stack.start()], 3) if stack else expert_name(name, 2)
    if place is not None:
        yield place.layer, int(stack[1]) if stack else place.number or 0


def _ranks(layers: Mapping[str, _LayerOfExperts]) -> dict[str, float]:
    rows = {name: layer.rows_of_gate() for name, layer in layers.items()}
    return {name: gate.rank for name, gate in rows.items() if gate is not None}


def _of_layer(layer: _LayerOfExperts, first_rank: float | None) -> dict[str, float]:
    norms = np.sqrt(list(layer.squares.values()))
    middle = float(np.median(norms))
    values = {
        "expert_count": float(len(norms)),
        "expert_norm_spread": float(norms.std() / norms.mean()) if norms.any() else math.nan,
        "expert_norm_least": float(norms.min()) / middle if middle else math.nan,
        "expert_cosine_largest": _largest_cosine(layer.samples),
    }
    gate = layer.rows_of_gate()
    if gate is None:
        return values
    values |= {
        "gate_norm_spread": float(gate.norms.std() / gate.norms.mean()),
        "gate_norm_largest": gate.longest if math.isfinite(gate.longest) else math.nan,
        "gate_cosine": gate.cosine,
        "gate_cosine_largest": gate.largest,
        "gate_differences": gate.spread,
        "gate_rank": gate.rank,
    }
    return values if first_rank is None else values | {"gate_rank_kept": gate.rank / first_rank}


def _largest_cosine(samples: Mapping[int, Sequence[np.ndarray]]) -> float:
    """Return the largest cosine of two experts, by a sample of their values; NaN for one or unequal parts."""
    parts = {len(sample) for sample in samples.values()}
    if len(parts) != 1 or len(samples) < 2:
        return math.nan
    flat = np.array([np.concatenate(sample) for sample in samples.values()])
    length = np.linalg.norm(flat, axis=1)
    if not length.all():
        return math.nan
    flat /= length[:, None]
    return float((flat @ flat.T)[np.triu_indices(len(flat), 1)].max())
