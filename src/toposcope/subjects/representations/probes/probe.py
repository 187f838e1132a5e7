"""The representation probe: every chosen layer of one checkpoint, and its change since the previous one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from toposcope.core.types import Checkpoint, Diagram, Feature, Role, Row, Scope
from toposcope.subjects.base import Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.representations.cost import seconds_of
from toposcope.subjects.representations.features import FEATURES, REPRESENTATIONS, null_name
from toposcope.subjects.representations.forward import Representation, read
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.probes._attention import attention_h0
from toposcope.subjects.representations.probes.across_layers import carried_over, linear_cka
from toposcope.subjects.representations.probes.clouds import LayerCloud, measure_layer
from toposcope.subjects.representations.probes.linear_probe import LabelledTexts, probe_accuracy
from toposcope.subjects.representations.source import StateSource
from toposcope.subjects.shapes import FILTRATION, CloudShape
from toposcope.subjects.snapshot import Snapshot, unless_unreadable
from toposcope.subjects.weights.probes.distances import diagram_distances

_NULL = "Gaussian cloud of the same mean and covariance"
MODEL = Label("model")
_GROUND = "ground L2 (Wasserstein), L-infinity (bottleneck)"


@dataclass(frozen=True, slots=True)
class _Seen:
    """The data from one visit to a checkpoint's model."""

    clouds: dict[int, LayerCloud]
    representation: Representation
    heads: np.ndarray | None
    accuracy: dict[int, tuple[float, float]]


@dataclass(frozen=True)
class Representations(Probe):
    """Rips H0 and H1 of each chosen layer's states over a fixed set of texts, with Gaussian nulls.

    For every layer: the summaries `h0_...`, `h1_...`, the spectral baselines, the dimensions, the distances
    to the previous checkpoint's diagrams (`wasserstein1_h1`, ...), and between consecutive chosen layers
    the share of H1 that an optimal matching carries over (`carried_h1`) beside the linear CKA, and beside
    the share that it finds in the next layer's Gaussian clouds (`carried_h1_null`). Every summary
    has its null, `h1_total_null` and so on: measured on Gaussian clouds with the cloud's own mean and
    covariance, one row per draw. For the model: `perplexity`, `loss` in nats per token, and
    `predicted_tokens` behind them. With `labelled`, each layer has the accuracy of a linear probe, and the
    model the share of the commonest label beside it.
    """

    options: RepresentationOptions
    source: StateSource
    labelled: LabelledTexts | None = None
    name: str = REPRESENTATIONS
    features: tuple[Feature, ...] = field(default=FEATURES, repr=False)
    version = 2
    reads = Reads.PREVIOUS

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint."""
        labelled = 0 if self.labelled is None else len(self.labelled.items)
        return seconds_of(shapes, self.options, self.source, labelled)

    def warm_up(self) -> None:
        """Load torch and the compiled kernels, which takes many times as long as a small checkpoint."""
        if self.source.loader is not None:
            import torch

            torch.nn.functional.linear(torch.ones(8, 8), torch.ones(8, 8))
        states = np.random.default_rng(0).normal(size=(24, 8)).astype(np.float32)
        cloud = measure_layer(states, 0, Checkpoint("", 0), self.options)
        for diagram in cloud.shapes[0].diagrams:
            diagram_distances(diagram, diagram, f"h{diagram.dim}")

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows and diagrams of one checkpoint."""
        seen = self._seen(snapshot)
        earlier, previous = None, snapshot.previous
        if previous is not None:
            earlier = unless_unreadable(
                lambda: previous.remember_for_run(self._key, lambda: self._diagrams(previous))
            )
        measured = Measured(alone=previous is not None and earlier is None)
        measured.rows += self._model_rows(snapshot, seen.representation)
        measured.rows += self._attention_rows(snapshot, seen.heads)
        measured.rows += self._probe_rows(snapshot, seen.accuracy)
        for layer, cloud in seen.clouds.items():
            self._add_layer(measured, snapshot, layer, cloud)
            if earlier is not None and layer in earlier:
                measured.rows += self._moved(snapshot, layer, cloud.shapes, earlier[layer])
            elif measured.alone:
                measured.rows += self._moved(snapshot, layer, cloud.shapes, None)
        measured.rows += self._across(snapshot, seen.clouds)
        snapshot.remember_for_run(self._key, lambda: {k: cloud.shapes for k, cloud in seen.clouds.items()})
        return measured

    @property
    def _key(self) -> tuple[str, RepresentationOptions]:
        return ("representation shapes", self.options)

    def _diagrams(self, snapshot: Snapshot) -> dict[int, tuple[CloudShape, ...]]:
        return {layer: cloud.shapes for layer, cloud in self._seen(snapshot).clouds.items()}

    def _seen(self, snapshot: Snapshot) -> _Seen:
        at, options, heads, accuracy = snapshot.checkpoint, self.options, None, {}
        with self.source.visit(snapshot, options) as visit:
            seen = visit.states()
            layers = tuple(seen.states)
            if options.attention and self.source.texts is not None:
                texts = self.source.texts.items[: options.attention_texts]
                ids = visit.model.encode(texts, options.length)
                heads = attention_h0(visit.model, [row for row in ids if len(row) > 1])
            if self.labelled is not None:
                reading = replace(options.reading(layers), pooling="mean", perplexity_texts=0)
                labelled = read(visit.model, self.labelled.items, reading).states
                accuracy = {k: probe_accuracy(labelled[k], self.labelled.labels) for k in layers}
        first = options.cloud_texts
        clouds = {k: measure_layer(seen.states[k][:first], k, at, options) for k in layers}
        return _Seen(clouds, seen, heads, accuracy)

    def _model_rows(self, snapshot: Snapshot, seen: Representation) -> list[Row]:
        values = {"predicted_tokens": float(seen.predicted)}
        if seen.predicted:
            values |= {"perplexity": seen.perplexity, "loss": seen.nll}
        if self.labelled is not None:
            values["majority_accuracy"] = self.labelled.majority
        return MODEL.rows(snapshot.checkpoint, self.name, values, note="; ".join(seen.notes))

    def _probe_rows(self, snapshot: Snapshot, accuracy: Mapping[int, tuple[float, float]]) -> list[Row]:
        rows: list[Row] = []
        for layer, (mean, deviation) in accuracy.items():
            values = {"probe_accuracy": mean, "probe_accuracy_sd": deviation}
            rows += _hidden(layer).rows(snapshot.checkpoint, self.name, values, note="five folds")
        return rows

    def _attention_rows(self, snapshot: Snapshot, heads: np.ndarray | None) -> list[Row]:
        rows: list[Row] = []
        if heads is None:
            return rows
        means, deviations = heads.mean(axis=0), heads.std(axis=0)
        for layer, head in np.ndindex(*means.shape):
            values = {
                "attention_h0": float(means[layer, head]),
                "attention_h0_sd": float(deviations[layer, head]),
            }
            label = Label("attention", Role.ATTENTION, layer, head, Scope.HEAD)
            rows += label.rows(snapshot.checkpoint, self.name, values, filtration="attention")
        return rows

    def _add_layer(self, measured: Measured, snapshot: Snapshot, layer: int, cloud: LayerCloud) -> None:
        label, at = _hidden(layer), snapshot.checkpoint
        for shape in cloud.shapes:
            measured.rows += label.rows(
                at, self.name, shape.features(), filtration=FILTRATION, draw=shape.draw, status=shape.status
            )
            measured.diagrams += [label.keep(diagram, shape.draw) for diagram in shape.diagrams]
        for null in cloud.nulls:
            values = {null_name(name): value for name, value in null.features().items()}
            measured.rows += label.rows(
                at, self.name, values, filtration=FILTRATION, draw=null.draw, note=_NULL,
                status=cloud.shapes[0].status,
            )  # fmt: skip
        for feature, value in cloud.scalars.items():
            note = cloud.notes.get(feature, "")
            measured.rows += label.rows(at, self.name, {feature: value}, note=note)

    def _moved(
        self, snapshot: Snapshot, layer: int, now: tuple[CloudShape, ...], then: tuple[CloudShape, ...] | None
    ) -> list[Row]:
        rows: list[Row] = []
        note = _GROUND if then is not None else snapshot.without_previous
        for shape, other in zip(now, then or [None] * len(now), strict=True):
            values: dict[str, float] = {}
            past = [None] * len(shape.diagrams) if other is None else other.diagrams
            for a, b in zip(shape.diagrams, past, strict=True):
                values |= diagram_distances(a, b, f"h{a.dim}")
            rows += _hidden(layer).rows(
                snapshot.checkpoint, self.name, values, filtration=FILTRATION, draw=shape.draw,
                status=shape.status, note=note,
            )  # fmt: skip
        return rows

    def _across(self, snapshot: Snapshot, clouds: dict[int, LayerCloud]) -> list[Row]:
        """Compare each chosen layer with the next one; the rows belong to the earlier of the two."""
        rows: list[Row] = []
        order = sorted(clouds)
        for layer, following in pairwise(order):
            label = _hidden(layer)
            values = {"cka": linear_cka(clouds[layer].states, clouds[following].states)}
            note = f"with layer {following}"
            rows += label.rows(snapshot.checkpoint, self.name, values, note=note)
            for shape, other in zip(clouds[layer].shapes, clouds[following].shapes, strict=True):
                rows += label.rows(
                    snapshot.checkpoint, self.name, _carried(shape, other), filtration=FILTRATION,
                    draw=shape.draw, status=shape.status, note=note,
                )  # fmt: skip
            for twin in clouds[following].nulls:
                shape = clouds[layer].shapes[(twin.draw or 0) % len(clouds[layer].shapes)]
                values = _carried(shape, twin)
                carried = {null_name(name): values[name] for name in values if name.startswith("carried")}
                rows += label.rows(
                    snapshot.checkpoint, self.name, carried, filtration=FILTRATION, draw=twin.draw,
                    status=shape.status, note=f"{note}'s {_NULL}",
                )  # fmt: skip
        return rows


def _hidden(layer: int) -> Label:
    return Label("hidden", Role.MODEL, layer, scope=Scope.LAYER)


def _carried(shape: CloudShape, other: CloudShape) -> dict[str, float]:
    """Match the diagrams of two layers, each in units of its own cloud's median distance."""
    values: dict[str, float] = {}
    for a, b in zip(shape.diagrams, other.diagrams, strict=True):
        carried = carried_over(_scaled(a, shape.median), _scaled(b, other.median))
        values[f"layer_cost_h{a.dim}"] = carried.cost
        if a.dim > 0:  # every bar of H0 is born at 0, so all of them are always matched
            values[f"carried_h{a.dim}"] = carried.share
    return values


def _scaled(diagram: Diagram, unit: float) -> Diagram:
    unit = unit if unit > 0 else 1.0
    return Diagram(diagram.dim, diagram.birth / unit, diagram.death / unit, FILTRATION, diagram.n_vertices)
