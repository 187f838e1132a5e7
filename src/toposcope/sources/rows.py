"""Finds rows of a matrix that swapped places, became copies or were replaced, and scaled blocks.

The limits were set with those of `sources.content_checks`, which says on which runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

NEAR = 0.5
"""A row is in another's place if its distance to it is at most this share of that to its former value."""

CERTAIN = 1 / 4
"""Rows changed places beyond doubt if each is at most at this share of its move from the former values of
another, while the median of the other rows moved at most by this share of it. Rows of a position embedding
that learns from near 0 drift through each other's places together: half the distance alone is no proof."""

MOSTLY = 0.9
"""The share of rows that must be found in other places for a matrix to be called permuted."""

CROWDED = 0.2
"""The largest share of the rows that may, beside those on cycles, be nearer to another's former value than
to their own: where more are, rows move past one another. Of the other rows it was .90 to .92 in three healthy
position embeddings, and at most .17 in five of six planted exchanges."""

MANY, FEW = 1 / 8, 4
"""The smallest share and number of a low-rank product's rows that count as swapped: pairs occur by chance."""

MOST = 512
"""The largest number of rows that are compared with one another: those that moved most."""

TURNED = 1e-5
"""A row that moves across its direction by at most this share of its norm rests: float32 rounds by 6e-8,
a thousand updates round by 1e-6; one of AdamW at a rate of 1e-5 moves a row by 1e-4 of its usual norm."""

UNLIKE = 0.5
"""A row whose cosine with its former value is below this counts as replaced."""


ALIKE, BETWEEN, CHANCE, GROWN = 0.9, 1 / 8, 3.0, 2.0
"""Rows were replaced by noise if the cosine of the others with their former values is above .9, at most an
eighth as many lie between, the mean cosine of the replaced ones is within three standard errors of 0, and
they did not grow to twice their norm. What training turns leaves rows between, and grows: see `noise_rows`.
They were set in view of 40 series (90,000 to 90,039 of benchmarks/audit_rates.py) and judged on others."""


class RowFaults(NamedTuple):
    """Rows that swapped places beyond doubt, the shares of copies and new rows, and the number of these."""

    exchanged_rows: float
    repeated_rows: float
    renewed_rows: float
    renewed_count: float


def row_faults(now: np.ndarray, then: np.ndarray, *, low_rank: bool = False) -> RowFaults:
    """Return how many rows swapped places, and how many (and which share) became copies or were replaced.

    Row i took the place of row j when ||now_i - then_j|| <= ||now_i - then_i|| / 2 and it moved by half of
    its norm at least. Rows on closed cycles of such moves swapped places: two that were exchanged, or more
    that were permuted. None counts if more than a fifth of the rows are others that are nearer to another's
    former value than to their own: there, all rows wander. Only the 512 rows that moved most are compared.
    The rows of a `low_rank` product are close together: there, no third row may be within twice the distance
    to j, and at least an eighth of all rows must be swapped. Only rows that did so beyond doubt count, as
    `exchanged` says.

    >>> then = np.random.default_rng(0).normal(size=(20, 6))
    >>> row_faults(then[[1, 0, *range(2, 20)]], then).exchanged_rows
    2.0
    """
    past, here = np.linalg.norm(then, axis=1), np.linalg.norm(now, axis=1)
    products, both = np.einsum("ij,ij->i", now, then, dtype=np.float64), here * past
    alike = np.divide(products, both, out=np.ones(len(now)), where=both > 0)
    moved = np.einsum("ij,ij->i", now - then, now - then, dtype=np.float64)
    _, swapped = exchanged(now, then, moved, past.astype(np.float64) ** 2, low_rank=low_rank)
    return RowFaults(
        exchanged_rows=float(len(swapped)),
        repeated_rows=_repeated(now[here > 0]) / max(len(now), 1),
        renewed_rows=float(np.mean(alike < UNLIKE)),
        renewed_count=float(np.sum(alike < UNLIKE)),
    )


def resting_rows(now: np.ndarray, then: np.ndarray, moved: np.ndarray) -> float:
    """Return the share of rows that did not change, or only in length, as weight decay alone shrinks them.

    `moved` are the squared norms of the rows' changes. A row that changed only in length leaves its direction
    by rounding alone: by at most `TURNED` of its norm.

    >>> then = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    >>> now = then.copy()
    >>> now[0] *= np.float32(0.999)
    >>> now[1, 0] += 0.01
    >>> resting_rows(now, then, ((now - then) ** 2).sum(axis=1))
    0.75
    """
    past = np.einsum("ij,ij->i", then, then, dtype=np.float64)
    inner = np.einsum("ij,ij->i", now - then, then, dtype=np.float64)
    across = moved - np.divide(inner**2, past, out=np.zeros(len(now)), where=past > 0)
    return float(np.mean(across <= TURNED**2 * past))


def scaling(now: np.ndarray, then: np.ndarray) -> tuple[float, float]:
    """Return the relative growth of the former weights W along themselves, and how pure it is.

    These are c = <D, W> / <W, W> for the change D of W, and the cosine of D and W; (0, 0) if nothing changed.

    >>> W = np.random.default_rng(0).normal(size=(4, 6))
    >>> [round(value, 6) for value in scaling(1.5 * W, W)]
    [0.5, 1.0]
    """
    change = now - then
    inner, square = float(np.vdot(change, then)), float(np.vdot(then, then))
    size = math.sqrt(float(np.vdot(change, change)) * square)
    return (inner / square, inner / size) if size > 0 else (0.0, 0.0)


def exchanged(
    now: np.ndarray, then: np.ndarray, moved: np.ndarray, squares: np.ndarray, *, low_rank: bool = False
) -> tuple[int, tuple[int, ...]]:
    """Return how many rows swapped places, and which of them beyond doubt.

    `moved` and `squares` are the squared norms of each row's move and former value. It is beyond doubt where
    the other rows barely moved (`CERTAIN`), where nine tenths of all rows are found in other places and none
    is as near to two, and for an eighth of a `low_rank` product's rows. This costs nothing where fewer than
    two rows moved by half of their norm, which is usual.

    >>> then = np.random.default_rng(0).normal(size=(20, 6))
    >>> now = then[[1, 0, *range(2, 20)]]
    >>> exchanged(now, then, ((now - then) ** 2).sum(axis=1), (then**2).sum(axis=1))
    (2, (0, 1))
    """
    if (moved >= UNLIKE**2 * squares).sum() < 2 or not moved.any():
        return 0, ()
    far = np.sqrt(moved)
    placed = _on_cycles(now, then, far, low_rank=low_rank)
    if low_rank or not placed:
        return len(placed), tuple(placed)
    if len(placed) >= MOSTLY * min(len(now), MOST):
        rows = _on_cycles(now, then, far, low_rank=True, near=CERTAIN)  # a wave over rows moves between two
        return len(placed), tuple(rows) if len(rows) >= MOSTLY * len(placed) else ()
    rows = _on_cycles(now, then, far, low_rank=False, near=CERTAIN)
    others = np.delete(far, rows)
    alone = bool(rows) and CERTAIN * far[rows].min() >= np.median(others)
    return len(placed), tuple(rows) if alone else ()


def noise_rows(alike: np.ndarray, growth: np.ndarray, moved: np.ndarray, columns: int) -> int:
    """Return how many rows seem to be fresh noise; 0 if training could have turned them, too.

    `alike` are the cosines of the rows with their former values, `growth` the ratios of their norms, `moved`
    how far they moved. The cosine of noise with anything has mean 0 and variance 1 / `columns`. At least four
    rows and an eighth must be noise, and as many others must have moved and kept their direction: an
    embedding's rows that no batch used say nothing of those that one did.

    >>> alike = np.array([0.99] * 12 + [0.1, -0.2, 0.05, 0.1])
    >>> noise_rows(alike, np.ones(16), np.ones(16), 64), noise_rows(alike, np.full(16, 3.0), np.ones(16), 64)
    (4, 0)
    """
    turned = alike < UNLIKE
    count, least = int(turned.sum()), max(FEW, MANY * len(alike))
    if count < least:
        return 0
    kept = (alike >= ALIKE) & (moved > 0)
    between = int(((alike >= UNLIKE) & (alike < ALIKE)).sum())
    by_chance = float(alike[turned].mean()) <= CHANCE / math.sqrt(count * columns)
    apart = between <= BETWEEN * count and int(kept.sum()) >= least
    return count if by_chance and apart and float(np.median(growth[turned])) < GROWN else 0


def exchanged_share(now: np.ndarray, then: np.ndarray) -> float:
    """Return the share of the rows that are found in other places; of at most 512, those that moved most.

    >>> rows = np.random.default_rng(0).normal(size=(20, 6))
    >>> exchanged_share(rows[::-1], rows), exchanged_share(rows + 0.01, rows)
    (0.9, 0.0)
    """
    moved = np.linalg.norm(now - then, axis=1)
    return len(_on_cycles(now, then, moved, low_rank=False)) / max(1, min(int((moved > 0).sum()), MOST))


def _on_cycles(
    now: np.ndarray, then: np.ndarray, moved: np.ndarray, *, low_rank: bool, near: float = NEAR
) -> list[int]:
    """Return the rows, in order, each of which is near the former values of another of them.

    With `low_rank`, of no third row as well.
    """
    far = np.flatnonzero(moved > 0)
    if len(far) > MOST:
        far = far[np.argpartition(-moved[far], MOST)[:MOST]]
    if len(far) < 2:
        return []
    a, b = now[far].astype(np.float64), then[far].astype(np.float64)
    square = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2.0 * a @ b.T
    np.fill_diagonal(square, np.inf)
    other = square.argmin(axis=1)
    nearest = square.min(axis=1)
    took = (nearest <= (near * moved[far]) ** 2) & (moved[far] >= UNLIKE * np.linalg.norm(b, axis=1))
    if low_rank:
        np.put_along_axis(square, other[:, None], np.inf, axis=1)
        took &= nearest <= near**2 * square.min(axis=1)
    on = set(np.flatnonzero(took).tolist())
    while on:
        reached = on & {int(other[i]) for i in on}
        if len(reached) == len(on):
            break
        on = reached
    few = low_rank and len(on) < max(FEW, MANY * len(now))
    others = np.delete(nearest < moved[far] ** 2, sorted(on))
    crowded = others.sum() > CROWDED * len(far)
    return [] if few or crowded else sorted(int(far[i]) for i in on)


def repeated(rows: np.ndarray, squares: np.ndarray) -> int:
    """Return how many rows are identical, bit for bit, to an earlier row; rows of zeros do not count.

    `squares` are the rows' squared norms: only rows of equal norm are compared.
    """
    if rows.shape[1] < 2:
        return 0
    order = np.argsort(squares, kind="stable")
    sorted_squares = squares[order]
    close = np.flatnonzero((sorted_squares[1:] == sorted_squares[:-1]) & (sorted_squares[1:] > 0))
    if not len(close):
        return 0
    return _repeated(np.ascontiguousarray(rows[order[np.unique(np.concatenate([close, close + 1]))]]))


def _repeated(rows: np.ndarray) -> int:
    """Return how many rows are identical, bit for bit, to an earlier row."""
    if rows.shape[1] < 2:
        return 0
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    return len(rows) - len(np.unique(packed))
