"""The nouns of the house: frozen, without logic, importing nothing of ours."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Status(enum.StrEnum):
    """How a number came to be; never a sentinel value in its place."""

    OK = "ok"
    SUBSAMPLED = "subsampled"
    TRUNCATED = "truncated"
    DEGENERATE = "degenerate"
    FAILED = "failed"


class Role(enum.StrEnum):
    """What a weight matrix does in its model."""

    ATTENTION = "attention"
    MLP = "mlp"
    EMBEDDING = "embedding"
    HEAD = "head"
    NORM = "norm"
    OTHER = "other"
    MODEL = "model"
    """Not a matrix: a value of the whole model (pooled clouds, means over matrices, trajectories)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training replicate: what the analysis groups by.

    `parameters` is the number of trainable parameters; 0 when unknown.
    """

    run: str
    family: str = ""
    parameters: int = 0
    seed: int | None = None
    schedule: str = ""
    corpus: str = ""
    uri: str = ""
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Who a checkpoint is; nothing is loaded.

    `step` is the optimiser step, `tokens` the tokens seen so far (None when the format does not say).
    """

    run: str
    step: int
    tokens: int | None = None
    uri: str = ""
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Matrix:
    """One weight matrix of a checkpoint: `values` has shape (n_out, n_in).

    `layer` is None outside the blocks; `head` is None unless the matrix belongs to one attention head.
    """

    checkpoint: Checkpoint
    name: str
    values: np.ndarray
    role: Role = Role.OTHER
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True, slots=True)
class Cloud:
    """A point cloud of shape (n, d): rows of a matrix, embeddings of texts, checkpoints of a run."""

    checkpoint: Checkpoint
    name: str
    points: np.ndarray
    role: Role = Role.MODEL
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True, slots=True)
class Surface:
    """A loss surface sampled on a grid: `values` has one axis per direction, `axes` the coordinates."""

    checkpoint: Checkpoint
    name: str
    values: np.ndarray
    axes: tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Diagram:
    """A persistence diagram: `birth` and `death`, float64 arrays of the same length.

    Essential classes die at +inf (sublevel, Rips) or -inf (superlevel). `filtration` names what the
    values measure, `n_vertices` how many vertices the complex has, and `truncated_at` the threshold
    beyond which nothing was computed (None: complete).
    """

    dim: int
    birth: np.ndarray
    death: np.ndarray
    filtration: str = ""
    n_vertices: int = 0
    truncated_at: float | None = None

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.birth)

    @property
    def pairs(self) -> np.ndarray:
        """The pairs as one float64 array of shape (n, 2): birth, death. gudhi and persim take it as it is.

        >>> Diagram(1, np.array([1.0]), np.array([2.0])).pairs.tolist()
        [[1.0, 2.0]]
        """
        return np.column_stack([self.birth, self.death]).astype(np.float64, copy=False)

    def __array__(self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Return `pairs`, so that the diagram can stand wherever an array of pairs can."""
        return self.pairs if dtype is None else self.pairs.astype(dtype)

    def triples(self) -> np.ndarray:
        """Return birth, death and dimension, shape (n, 3): a row of giotto-tda's arrays of diagrams.

        >>> Diagram(1, np.array([1.0]), np.array([2.0])).triples().tolist()
        [[1.0, 2.0, 1.0]]
        """
        return np.column_stack([self.birth, self.death, np.full(len(self), float(self.dim))])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw death against birth, pairs that never die at the edge, and return the axes."""
        from toposcope.figures.diagram import draw_diagram

        return draw_diagram(self, ax)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number and where it comes from: a line of the store's `features` table.

    `draw` numbers the random subsample or the null's permutation; None marks a value that involves no
    draw. A value of the whole model has `role` "model". `status` and `note` say how it came to be.
    """

    run: str
    step: int
    probe: str
    feature: str
    value: float
    tokens: int | None = None
    name: str = ""
    role: Role = Role.MODEL
    layer: int | None = None
    head: int | None = None
    filtration: str = ""
    draw: int | None = None
    status: Status = Status.OK
    note: str = ""
