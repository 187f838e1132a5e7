"""The last update of every matrix and every attention head: cheap numbers that locate a fault."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from toposcope.core.types import Feature, Matrix, Role, Row, Scope
from toposcope.files.formats.adapter import is_low_rank
from toposcope.sources.rows import resting_rows, row_faults, scaling
from toposcope.subjects.base import Cost, Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.snapshot import Snapshot, unless_unreadable
from toposcope.subjects.weights.features import OF_UPDATES, UPDATES
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.heads import (
    Attention,
    attention_layers,
    head_products,
    heads_in,
    spectral_entropy,
)

LARGEST_EXACT = 1024
"""Matrices with a longer smaller side have no spectrum of their update, which would cost too much."""


@dataclass(frozen=True)
class Updates(Probe):
    """Norm, spectrum and rows of each matrix's update, and the QK and OV products of each head.

    Every tensor of fewer than two dimensions has rows on whether it is finite, its share of zeros, its norm
    and how far it moved; a tensor that appeared or vanished has `tensor_present`. Every matrix W with
    predecessor W' has the declared features of `D = W - W'`; the whole model has `update_norm` and
    `update_relative`. The first checkpoint of a run has only the share of dead rows and the heads' products.
    Heads are known if the model's configuration states their number; a head's `update_relative` is over its
    rows of Q, K and V and its columns of O together, and its name is that of the layer's Q matrix.
    """

    options: WeightOptions
    name: str = UPDATES
    version: ClassVar[int] = 6
    features: tuple[Feature, ...] = field(default=OF_UPDATES, repr=False)
    cost = Cost.COSTLY  # although it is cheap: measured only if named, and by `watch`
    reads = Reads.PREVIOUS

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: passes over the weights and the spectra of small updates."""
        return sum(
            1e-3 + 3e-8 * rows * columns + (1e-9 * min(rows, columns) ** 2 * max(rows, columns))
            for rows, columns in shapes
            if min(rows, columns) <= LARGEST_EXACT
        )

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return what changed since the previous checkpoint."""
        measured, at = Measured(), snapshot.checkpoint
        before = snapshot.previous
        if before is not None and not _readable(before):
            measured.alone, before = True, None
        attention = Attention(heads_in(snapshot.config))
        squares, low_rank = np.zeros(2), is_low_rank(snapshot.config)
        for now, then in _pairs(snapshot, before, self.options):
            values, part = matrix_update(now.values, None if then is None else then.values, low_rank=low_rank)
            squares += part
            measured.rows += Label.of(now).rows(at, self.name, values)
            attention.add(now, then)
            measured.rows += Label(now.name, now.role, now.layer, now.head, Scope.TENSOR).rows(
                at, self.name, rows_and_norm(now.values)
            )
        measured.rows += self._tensors(snapshot, before)
        if before is not None:
            whole = {"update_norm": math.sqrt(squares[0]), "update_relative": _ratio(*np.sqrt(squares))}
            measured.rows += Label("model").rows(at, self.name, whole)
        for layer in attention_layers(attention):
            for head, values in enumerate(head_products(layer)):
                label = Label(layer.name, Role.ATTENTION, layer.layer, head, Scope.HEAD)
                measured.rows += label.rows(at, self.name, values)
        return measured

    def _tensors(self, snapshot: Snapshot, before: Snapshot | None) -> list[Row]:
        """Return the changes of norms' gains, biases and scalars, and tensors that appeared or vanished."""
        at, rows = snapshot.checkpoint, []
        past = {} if before is None else {vector.name: vector.values for vector in before.vectors()}
        for vector in snapshot.vectors():
            if self.options.keeps(vector.name):
                label = Label(vector.name, vector.role, vector.layer, None, Scope.TENSOR)
                rows += label.rows(at, self.name, vector_update(vector.values, past.get(vector.name)))
        if before is None:
            return rows
        now, then = snapshot.weight_names(), before.weight_names()
        for name in sorted(filter(self.options.keeps, now ^ then)):
            label = Label(name, Role.OTHER, scope=Scope.TENSOR)
            rows += label.rows(at, self.name, {"tensor_present": float(name in now)})
        return rows


def rows_and_norm(values: np.ndarray) -> dict[str, float]:
    """Return a matrix's norm, its largest row norm over the median one, and the index of that row.

    >>> rows_and_norm(np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 1.0]]))
    {'tensor_norm': 5.196152422706632, 'tensor_rms': 2.1213203435596424, 'row_largest': 5.0, 'row_index': 0.0}
    """
    here = np.asarray(values, np.float32)
    rows = np.sqrt(np.einsum("ij,ij->i", here, here, dtype=np.float64))
    middle = float(np.median(rows))
    return {
        "tensor_norm": float(np.sqrt(np.square(rows).sum())),
        "tensor_rms": float(np.sqrt(np.square(rows).sum() / max(here.size, 1))),
        "row_largest": _ratio(float(rows.max()), middle),
        "row_index": float(rows.argmax()),
    }


def vector_update(now: np.ndarray, then: np.ndarray | None) -> dict[str, float]:
    """Return the features of a parameter of fewer than two dimensions.

    >>> vector_update(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0]]))["tensor_moved"]
    1.0
    """
    here = np.asarray(now, np.float64)
    if not np.isfinite(here).all():
        return {"tensor_finite": 0.0}
    values = {
        "tensor_finite": 1.0,
        "tensor_zero": float(np.mean(here == 0)),
        "tensor_norm": float(np.linalg.norm(here)),
        "tensor_rms": float(np.linalg.norm(here)) / math.sqrt(max(here.size, 1)),
    }
    if then is None or then.shape != now.shape:
        return values
    there = np.asarray(then, np.float64)
    if np.isfinite(there).all() and there.any():
        values["tensor_moved"] = float(np.linalg.norm(here - there) / np.linalg.norm(there))
        values["tensor_along"] = scaling(here, there)[0]
    return values


def matrix_update(
    now: np.ndarray, then: np.ndarray | None, *, low_rank: bool = False
) -> tuple[dict[str, float], np.ndarray]:
    """Return the features of one matrix, and the squared norms of its update and of its former value.

    >>> values, squares = matrix_update(np.array([[3.0, 4.0], [0.0, 0.0]]), np.zeros((2, 2)))
    >>> values["update_norm"], values["zero_rows"], values["update_entropy"], squares.tolist()
    (5.0, 0.5, 0.0, [25.0, 0.0])
    """
    here = np.asarray(now, np.float32)
    values = {"zero_rows": float(np.mean(~here.any(axis=1)))}
    if then is None or then.shape != now.shape:
        return values, np.zeros(2)
    there = np.asarray(then, np.float32)
    change = here - there
    rows = np.einsum("ij,ij->i", change, change, dtype=np.float64)
    square, past = float(rows.sum()), float(np.einsum("ij,ij", there, there, dtype=np.float64))
    values |= {
        "update_norm": math.sqrt(square),
        "update_relative": _ratio(math.sqrt(square), math.sqrt(past)),
        "update_row_max": _ratio(math.sqrt(rows.max()), math.sqrt(float(np.median(rows)))),
        "unchanged_rows": float(np.mean(rows == 0)),
        "unchanged_values": float(np.mean(change == 0)),
        "resting_rows": resting_rows(here, there, rows),
    } | row_faults(here, there, low_rank=low_rank)._asdict()
    values["scaling"], values["scaling_cosine"] = scaling(here, there)
    if min(change.shape) <= LARGEST_EXACT and square > 0:
        singular = np.linalg.svd(change, compute_uv=False).astype(np.float64)
        values |= {"update_spectral": float(singular[0]), "update_entropy": spectral_entropy(singular)}
    return values, np.array([square, past])


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0 else math.nan


def _readable(snapshot: Snapshot) -> bool:
    return unless_unreadable(lambda: next(iter(snapshot.matrices()), None)) is not None


def _pairs(
    snapshot: Snapshot, before: Snapshot | None, options: WeightOptions
) -> Iterator[tuple[Matrix, Matrix | None]]:
    """Yield each matrix with its value at the previous checkpoint; two are in memory at a time."""
    earlier = iter(()) if before is None else before.matrices()
    ahead: dict[str, Matrix] = {}
    for now in snapshot.matrices():
        if not options.keeps(now.name):
            continue
        then = ahead.pop(now.name, None)
        while then is None:
            other = next(earlier, None)
            if other is None:
                break
            if other.name == now.name:
                then = other
            elif options.keeps(other.name):
                ahead[other.name] = other
        yield now, then
