"""The rest of a maximum spanning tree, once the heaviest edges have joined most vertices.

Rows and columns outside the largest component are finished in one of two exact ways. If there are few, by
Borůvka rounds over those rows and columns only. If there are many (rows and columns of very different
scales), by one more pass: the heaviest edge of such a row to a few vertices of the largest component is a
floor, because a lighter edge would be the lightest of a cycle through the component.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.bipartite_scan import (
    SERIAL_BELOW,
    Edges,
    best_of_columns,
    best_of_rows,
    collected,
    descending,
    floor_of_columns,
    floor_of_rows,
    joined,
)
from toposcope.kernels.union_find import kruskal, roots, unite

_FEW = 0.05
"""Share of the matrix up to which scanning the remaining rows and columns repeatedly is cheap."""
# How many of the busiest rows and columns give the floors. Affects speed only.
_LANDMARK_ROWS, _LANDMARK_COLUMNS = 256, 64
_FLOORED_LIMIT = 24
"""With more edges above the floors than this, per vertex outside, the floors do not help."""


def finish(
    bits: np.ndarray, mask: np.unsignedinteger, heavy: Edges, parent: np.ndarray, size: np.ndarray
) -> list[Edges]:
    """Return the tree's remaining edges; `heavy` are all edges already examined.

    `parent` and `size` are the components so far and are updated to one.
    """
    parts: list[Edges] = []
    labels, largest = roots(parent)
    outside = labels != largest
    n_out = bits.shape[0]
    # If only rows or only columns are left, one round joins nearly all of them, so nothing is gained.
    if min(outside[:n_out].mean(), outside[n_out:].mean()) > _FEW:
        parts.append(_above_floors(bits, mask, heavy, outside, parent, size))
    missing = int((parent == np.arange(parent.size)).sum()) - 1
    while missing:
        parts.append(_boruvka_round(bits, mask, parent, size))
        missing -= parts[-1].keys.size
    return parts


def _above_floors(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    heavy: Edges,
    outside: np.ndarray,
    parent: np.ndarray,
    size: np.ndarray,
) -> Edges:
    """Return the tree's edges among those at or above the floors; none if there are too many."""
    n_out, n_in = bits.shape
    row_floor, column_floor = np.full(n_out, mask), np.full(n_in, mask)
    rows, columns = np.flatnonzero(outside[:n_out]), np.flatnonzero(outside[n_out:])
    top_rows = _busiest(heavy.rows, outside[:n_out], _LANDMARK_ROWS)
    top_columns = _busiest(heavy.columns, outside[n_out:], _LANDMARK_COLUMNS)

    def floor_rows(block: tuple[int, int]) -> None:
        floor_of_rows(bits, mask, rows[slice(*block)], top_columns, row_floor)

    run_blocks(floor_rows, row_blocks(rows.size), serial=rows.size < _LANDMARK_ROWS)
    floor_of_columns(bits, mask, top_rows, columns, column_floor)
    edges, _ = collected(bits, mask, row_floor, column_floor, _FLOORED_LIMIT * (rows.size + columns.size))
    if edges is None:
        return heavy[:0]
    return edges[kruskal(descending(edges.keys), edges.rows, edges.columns + np.int32(n_out), parent, size)]


def _busiest(ends: np.ndarray, outside: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` vertices inside with the most heavy edges."""
    degree = np.bincount(ends, minlength=outside.size) * ~outside
    count = min(count, int((degree > 0).sum()))
    return np.argpartition(degree, degree.size - count)[degree.size - count :] if count else ends[:0]


def _boruvka_round(bits: np.ndarray, mask: np.unsignedinteger, parent: np.ndarray, size: np.ndarray) -> Edges:
    """Join every component but the largest to its heaviest neighbour; return the edges used."""
    n_out = bits.shape[0]
    labels, largest = roots(parent)
    row_set, column_set = labels[:n_out], labels[n_out:]
    rows = np.flatnonzero(row_set != largest).astype(np.int32)
    columns = np.flatnonzero(column_set != largest).astype(np.int32)
    from_rows = _from_rows(bits, mask, rows, row_set, column_set)
    from_columns = _from_columns(bits, mask, columns, row_set, column_set)
    both = joined([from_rows, from_columns])
    owner = np.concatenate((row_set[rows], column_set[columns]))
    chosen = _best_of_components(owner, both.keys, both.rows, both.columns, n_out, parent, size)
    return both[chosen]


def _from_rows(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    rows: np.ndarray,
    row_set: np.ndarray,
    column_set: np.ndarray,
) -> Edges:
    """Return the heaviest edge out of its component for each of `rows`; column -1 if there is none."""
    edges = Edges(np.zeros(rows.size, bits.dtype), rows, np.full(rows.size, -1, np.int32))
    serial = rows.size * bits.shape[1] < SERIAL_BELOW

    def scan(block: tuple[int, int]) -> None:
        part = slice(*block)
        best_of_rows(bits, mask, rows[part], row_set, column_set, edges.keys[part], edges.columns[part])

    if rows.size:
        run_blocks(scan, row_blocks(rows.size, serial=serial), serial=serial)
    return edges


def _from_columns(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    columns: np.ndarray,
    row_set: np.ndarray,
    column_set: np.ndarray,
) -> Edges:
    """Return the heaviest edge out of its component for each of `columns`; row -1 if there is none."""
    n_out = bits.shape[0]
    serial = columns.size * n_out < SERIAL_BELOW

    def scan(block: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        keys, rows = np.zeros(columns.size, bits.dtype), np.full(columns.size, -1, np.int32)
        best_of_columns(bits, mask, *block, columns, row_set, column_set, keys, rows)
        return keys, rows

    keys, rows = np.zeros(columns.size, bits.dtype), np.full(columns.size, -1, np.int32)
    if columns.size:
        for block_keys, block_rows in run_blocks(scan, row_blocks(n_out, serial=serial), serial=serial):
            better = (block_rows >= 0) & ((block_keys > keys) | (rows < 0))
            keys[better], rows[better] = block_keys[better], block_rows[better]
    return Edges(keys, rows, columns)


@kernel
def _best_of_components(
    owner: np.ndarray,
    keys: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    n_out: int,
    parent: np.ndarray,
    size: np.ndarray,
) -> np.ndarray:
    """Join each owning component by its heaviest edge, ties by (row, column); return the edges used."""
    best = np.full(parent.size, -1, np.int64)
    for e in range(owner.size):
        if rows[e] < 0 or columns[e] < 0:
            continue
        b = best[owner[e]]
        tied = b >= 0 and keys[e] == keys[b]
        if b < 0 or keys[e] > keys[b] or (tied and (rows[e], columns[e]) < (rows[b], columns[b])):
            best[owner[e]] = e
    used = np.empty(owner.size, np.int64)
    count = 0
    for b in best:
        if b >= 0 and unite(parent, size, rows[b], n_out + columns[b]):
            used[count] = b
            count += 1
    return used[:count]
