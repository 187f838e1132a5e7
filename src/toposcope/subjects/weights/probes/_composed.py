"""Matrices that really compose: up and down of an MLP, value and output, embedding and first projection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from toposcope.core.types import Matrix, Role, Scope
from toposcope.sources.matrices import Heads, part_rows
from toposcope.sources.projections import Projection, projection_of
from toposcope.subjects.labels import Label

_SAMPLE = 4096
"""Values of the embedding that are compared with those of the head: a tied head has the same."""
_PAIRS = (("up", "down"), ("v", "o"))
_FIRST = ("q", "k", "v")

Half = tuple[str, int | None, int | None, int | None]
"""The first part of a pair, the layer, the expert and the head of both matrices."""


@dataclass(frozen=True, slots=True)
class Composed:
    """Two matrices of which the second reads what the first writes, (n_out, n_in) each."""

    label: Label
    layers: tuple[np.ndarray, np.ndarray]


@dataclass(slots=True)
class Composition:
    """Pairs the matrices of a checkpoint's stream: what has been read and is not paired yet.

    The whole of a layer's value and output comes first, then each head's, if the number of heads is known.
    The embedding is paired with the queries, keys and values of layer 0 together.
    """

    heads: Heads
    halves: dict[Half, dict[str, Matrix]] = field(default_factory=dict)
    embedding: Matrix | None = None
    first: dict[str, np.ndarray] = field(default_factory=dict)
    samples: dict[Role, tuple[tuple[int, ...], bytes]] = field(default_factory=dict)

    @property
    def untied(self) -> bool:
        """Whether the model has a head of its own: a tied embedding is one matrix with two tasks."""
        return len(self.samples) == 2 and len(set(self.samples.values())) == 2

    def add(self, matrix: Matrix) -> Iterator[Composed]:
        """Take a matrix; yield the pairs that it completes."""
        if matrix.role == Role.HEAD:
            self.samples[Role.HEAD] = _sample(matrix.values)
        projection = projection_of(matrix.name)
        if projection is None:
            return
        if projection.part == "token":
            self.embedding, self.samples[Role.EMBEDDING] = matrix, _sample(matrix.values)
        for part, values in _parts(matrix, projection, self.heads).items():
            if projection.layer == 0 and part in _FIRST and matrix.head is None:
                self.first[part] = values
            yield from self._paired(part, projection, replace(matrix, values=values))
        yield from self._embedded()

    def _paired(self, part: str, projection: Projection, piece: Matrix) -> Iterator[Composed]:
        pair = next((pair for pair in _PAIRS if part in pair), None)
        if pair is None:
            return
        key = (pair[0], projection.layer, projection.expert, piece.head)
        halves = self.halves.setdefault(key, {})
        halves[part] = piece
        if len(halves) == 2:
            del self.halves[key]
            first, second = (halves[half] for half in pair)
            yield from _attention(first, second, self.heads) if part in "vo" else _pair(first, second)

    def _embedded(self) -> Iterator[Composed]:
        if self.embedding is None or len(self.first) < len(_FIRST):
            return
        label, table = Label.of(self.embedding), self.embedding.values
        projection = np.concatenate([self.first[part] for part in _FIRST])
        self.embedding, self.first = None, {}
        if projection.shape[1] == table.shape[1] and (self.untied or Role.HEAD not in self.samples):
            yield Composed(label, (table.T, projection))


def _sample(values: np.ndarray) -> tuple[tuple[int, ...], bytes]:
    """Return a matrix's shape and some of its values, evenly spaced."""
    flat = values.reshape(-1)
    return values.shape, flat[:: max(1, flat.size // _SAMPLE)].tobytes()


def _parts(matrix: Matrix, projection: Projection, heads: Heads) -> dict[str, np.ndarray]:
    """Return the parts of a block that a matrix holds: itself, or those of a fused one that is not split."""
    if projection.fused is None:
        return {projection.part: matrix.values}
    rows = part_rows(projection.fused, matrix.values.shape, heads) or {}
    return {part: matrix.values[index] for part, index in rows.items()}


def _pair(first: Matrix, second: Matrix) -> Iterator[Composed]:
    if second.values.shape[1] == first.values.shape[0]:
        scope = Scope.MATRIX if first.head is None else Scope.HEAD
        yield Composed(replace(Label.of(first), scope=scope), (first.values, second.values))


def _attention(value: Matrix, output: Matrix, heads: Heads) -> Iterator[Composed]:
    """Yield value and output of a layer, then of each head; heads of one group share their values."""
    rows, columns = value.values, output.values.T
    queries, groups = heads.queries, heads.groups
    width = len(columns) // queries if queries else 0
    is_regular = value.head is None and width and queries % groups == 0 and len(rows) == groups * width
    if is_regular and groups < queries:
        shared = np.repeat(rows.reshape(groups, width, -1), queries // groups, axis=0)
        rows = shared.reshape(queries * width, -1)
    yield from _pair(replace(value, values=rows), output)
    if not is_regular or queries == 1 or len(rows) != len(columns):
        return
    for head in range(queries):
        of_head = slice(head * width, (head + 1) * width)
        name = f"{value.name}[head {head}]"  # as `stream_matrices` names a head's rows
        label = replace(Label.of(value), name=name, head=head, scope=Scope.HEAD)
        yield Composed(label, (rows[of_head], columns[of_head].T))
