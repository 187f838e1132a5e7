"""Point clouds of weights: the rows of a matrix, or of all matrices pooled, whole or subsampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint, Matrix
from toposcope.subjects.weights.options import WeightOptions
from toposcope.topology import pooled_rows


@dataclass(frozen=True, slots=True)
class CloudDraw:
    """A measured cloud: `number` is that of its draw, None if it has every row; `rows` counts all rows."""

    points: np.ndarray
    number: int | None
    rows: int

    @property
    def note(self) -> str:
        """Say how many of the rows were drawn."""
        return "" if self.number is None else f"{len(self.points):,} of {self.rows:,} rows"


def row_draws(matrix: Matrix, options: WeightOptions) -> Iterator[CloudDraw]:
    """Yield the rows of a matrix, or the subsamples of them that the options ask for."""
    rows = len(matrix.values)
    if rows <= options.points:
        yield CloudDraw(matrix.values, None, rows)
        return
    at = matrix.checkpoint
    for draw in range(options.draws):
        generator = rng(run=at.run, step=at.step, name=matrix.name, draw=draw)
        chosen = np.sort(generator.choice(rows, options.points, replace=False))
        yield CloudDraw(matrix.values[chosen], draw, rows)


@dataclass(slots=True)
class _Reservoir:
    """A uniform subsample in one pass: the rows with the smallest random priorities so far."""

    size: int
    priority: np.ndarray = field(default_factory=lambda: np.empty(0))
    rows: list[np.ndarray] = field(default_factory=list)

    def offer(self, values: np.ndarray, priority: np.ndarray) -> None:
        """Consider the rows of a matrix."""
        merged = np.concatenate([self.priority, priority])
        if len(merged) > self.size:
            selected = np.sort(np.argpartition(merged, self.size - 1)[: self.size])
        else:
            selected = np.arange(len(merged))
        before = len(self.priority)
        old = [self.rows[index] for index in selected[selected < before]]
        self.rows = old + list(values[selected[selected >= before] - before])
        self.priority = merged[selected]


def pooled_draws(matrices: Iterable[Matrix], at: Checkpoint, options: WeightOptions) -> list[CloudDraw]:
    """Return the pooled cloud of all matrices, their rows padded with zeros to the widest.

    Subsamples are drawn while the matrices stream, so at most `options.points` rows per draw are in memory.
    If there are no more rows than that, there is one draw with all of them.
    """
    reservoirs = [_Reservoir(options.points) for _ in range(options.draws)]
    total = width = 0
    for matrix in matrices:
        rows = len(matrix.values)
        total, width = total + rows, max(width, matrix.values.shape[1])
        for draw, reservoir in enumerate(reservoirs):
            generator = rng(run=at.run, step=at.step, name=f"pooled/{matrix.name}", draw=draw)
            reservoir.offer(matrix.values, generator.random(rows))
    if total == 0:
        return []
    whole = total <= options.points
    return [
        CloudDraw(
            pooled_rows([row[None, :] for row in reservoir.rows], width), None if whole else draw, total
        )
        for draw, reservoir in enumerate(reservoirs[:1] if whole else reservoirs)
    ]
