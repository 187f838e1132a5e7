"""How a tensor changed since the checkpoint before, from one pass over both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.sources.rows import UNLIKE, exchanged, noise_rows, repeated

_BLOCK = 1 << 18
"""Values at a time: two blocks and their difference fit into a core's cache."""

_SMALL, _LARGE = 1e-12, 1e12
"""Root mean squares between which float32 can hold the squares of a block's values."""


@dataclass(frozen=True, slots=True)
class TensorChange:
    """What a tensor's change D = W - W' since the previous checkpoint's W' shows.

    `distance` is the norm of D, `along` is <D, W'> / <W', W'>, `purity` the cosine of D and W', `cosine` that
    of W and W', and `ratio` |W| / |W'|. The others count rows: the share and number of those whose cosine
    with their former values is below 1/2, the number of those that swapped places, which did so beyond doubt,
    and the number of those that seem to be noise.
    """

    distance: float
    along: float = math.nan
    purity: float = 0.0
    cosine: float = math.nan
    ratio: float = math.nan
    renewed: float = 0.0
    renewed_rows: int = 0
    exchanged_rows: int = 0
    swapped_rows: tuple[int, ...] = ()
    noise_rows: int = 0


@dataclass(frozen=True, slots=True)
class TensorValues:
    """What a tensor's values alone show: norm, largest absolute value, share of rows that repeat another."""

    norm: float
    largest: float
    repeated: float = 0.0


def as_rows(values: np.ndarray) -> np.ndarray:
    """Return a tensor as a matrix of its rows along the first axis; a vector is one row."""
    return values.reshape(len(values), -1) if values.ndim > 1 and len(values) else values.reshape(1, -1)


def values_of(values: np.ndarray) -> TensorValues:
    """Return the norm of finite values, their largest, and the share of rows identical to another.

    >>> values_of(np.array([[3.0, 4.0], [0.0, 0.0], [3.0, 4.0]]))
    TensorValues(norm=7.0710678118654755, largest=4.0, repeated=0.3333333333333333)
    """
    rows = as_rows(values)
    squares, largest = np.zeros(len(rows)), 0.0
    for start, (block,) in _blocks(rows):
        squares[start : start + len(block)] += np.einsum("ij,ij->i", block, block)
        largest = max(largest, float(block.max(initial=0)), -float(block.min(initial=0)))
    same = repeated(rows, squares) / len(rows) if values.ndim > 1 else 0.0
    return TensorValues(math.sqrt(float(squares.sum())), largest, same)


def change_of(now: np.ndarray, then: np.ndarray, *, low_rank: bool = False) -> TensorChange:
    """Return how finite values changed, if both arrays have one shape.

    `low_rank` says that they are the product of an adapter, whose rows are close together.

    >>> W = np.random.default_rng(0).normal(size=(4, 6))
    >>> change = change_of(3 * W, W)
    >>> round(change.along, 6), round(change.purity, 6), round(change.cosine, 6), round(change.ratio, 6)
    (2.0, 1.0, 1.0, 3.0)
    """
    here, there = as_rows(now), as_rows(then)
    moved, products, squares, before = (np.zeros(len(here)) for _ in range(4))
    inner = 0.0
    for start, (new, old) in _blocks(here, there):
        change = new - old
        part = slice(start, start + len(new))
        moved[part] += np.einsum("ij,ij->i", change, change)
        products[part] += np.einsum("ij,ij->i", new, old)
        squares[part] += np.einsum("ij,ij->i", new, new)
        before[part] += np.einsum("ij,ij->i", old, old)
        inner += float(np.einsum("ij,ij", change, old))
    far, past, norm = (math.sqrt(float(part.sum())) for part in (moved, before, squares))
    if not past:
        return TensorChange(far)
    along = inner / past / past
    purity = inner / past / far if far else 0.0
    cosine = float(products.sum()) / past / norm if norm else math.nan
    both = np.sqrt(squares * before)
    alike = np.divide(products, both, out=np.ones(len(here)), where=both > 0)
    unlike = int((alike < UNLIKE).sum()) if now.ndim > 1 else 0
    placed, swapped = exchanged(here, there, moved, before, low_rank=low_rank) if now.ndim > 1 else (0, ())
    noise = 0
    if unlike:
        growth = np.sqrt(np.divide(squares, before, out=np.ones(len(here)), where=before > 0))
        noise = noise_rows(alike, growth, moved, here.shape[1])
    return TensorChange(
        far, along, purity, cosine, norm / past, unlike / len(here), unlike, placed, swapped, noise
    )


def _blocks(*arrays: np.ndarray) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield the first row and the values of blocks of all arrays; a long row is cut into several blocks.

    Values are float32 where its range suffices for their squares, else float64.
    """
    rows, columns = arrays[0].shape
    if (
        0 < rows * columns <= _BLOCK
    ):  # the usual case, without slices: a mixture of experts has 100,000 matrices
        yield 0, _exact(arrays)
        return
    count, width = max(1, _BLOCK // max(columns, 1)), min(columns, _BLOCK)
    for start in range(0, rows, count):
        for first in range(0, columns, max(width, 1)):
            parts = [array[start : start + count, first : first + width] for array in arrays]
            yield start, _exact(parts)


def _exact(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return blocks in float32 where its range suffices for the squares of all, else in float64."""
    small = [part.astype(np.float32) if part.dtype.itemsize < 4 else part for part in parts]
    for part in small:
        if part.dtype != np.float32 or not _in_range(part):
            return [block.astype(np.float64) for block in parts]
    return small


def _in_range(block: np.ndarray) -> bool:
    flat = block.reshape(-1)
    with np.errstate(over="ignore"):  # damaged values may be huge: then float64 is taken
        square = float(np.dot(flat, flat)) / max(flat.size, 1)
    return _SMALL**2 < square < _LARGE**2
