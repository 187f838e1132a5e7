"""Maximum spanning tree of the complete bipartite graph with edge weights |W|, exact.

Three steps, all on the bits of |W| (see `bipartite_scan`), so no copy of the matrix is made:

1. A threshold is read off a sample so that about N ln N of the edges lie above it. Kruskal's algorithm
   on exactly these edges is a prefix of Kruskal's algorithm on all of them, whatever the sample was:
   a poor threshold costs time, never correctness.
2. Nearly everything is then in one component. What is not is finished by Borůvka rounds, in which every
   other component takes its heaviest edge out: only their rows and columns are scanned.
3. The edges are put in order. Ties are broken by (weight, row, column) throughout, a total order, so
   the tree is unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from toposcope.kernels.bipartite_scan import best_of_columns, best_of_rows, collect, sample_keys
from toposcope.kernels.small_tree import SMALL, small_tree
from toposcope.kernels.threads import row_blocks, run_blocks
from toposcope.kernels.union_find import find, kruskal, unite

_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_SERIAL_BELOW = 1_000_000
_PREFIX = 0.75
"""Edges of the prefix in units of N ln N: few enough to sort quickly, enough to connect iid weights."""
_PREFIX_LIMIT = 4.0
"""Where the prefix turns out more than this many times too long, the threshold is raised."""
_SAMPLE = 1 << 16
_RUN = 16
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of a bipartite graph: keys (bits of |w|), rows and columns, of one length."""

    keys: np.ndarray
    rows: np.ndarray
    columns: np.ndarray


def magnitude_bits(W: np.ndarray) -> tuple[np.ndarray, np.unsignedinteger]:
    """Return the bits of `W` as unsigned integers, a view where `W` is contiguous, and the sign's mask."""
    unsigned = _UNSIGNED[W.dtype.itemsize]
    return np.ascontiguousarray(W).view(unsigned), unsigned(np.iinfo(unsigned).max >> 1)


def spanning_tree(W: np.ndarray) -> Edges:
    """Return the maximum spanning tree of |W|, heaviest edge first.

    `W` is any two-dimensional array of float16, bfloat16, float32 or float64, not empty. Its largest
    entry is always an edge of the tree, so where `W` holds NaN or infinity, the first key shows it.
    """
    bits, mask = magnitude_bits(W)
    if bits.size <= SMALL and bits.dtype.itemsize < 8:
        return Edges(*small_tree(bits, mask))
    n_out, n_in = bits.shape
    n = n_out + n_in
    heavy = heaviest_edges(bits, mask, _PREFIX * n * np.log(n))
    parent, size = np.arange(n, dtype=np.int32), np.ones(n, np.int32)
    chosen = kruskal(_descending(heavy.keys), heavy.rows, heavy.columns + np.int32(n_out), parent, size)
    parts = [Edges(heavy.keys[chosen], heavy.rows[chosen], heavy.columns[chosen])]
    missing = n - 1 - chosen.size
    while missing:
        parts.append(_boruvka_round(bits, mask, parent, size))
        missing -= parts[-1].keys.size
    if len(parts) == 1:
        return parts[0]
    keys, rows, columns = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "rows", "columns")
    )
    order = np.lexsort((columns, rows, ~keys))
    return Edges(keys[order], rows[order], columns[order])


def heaviest_edges(bits: np.ndarray, mask: np.unsignedinteger, target: float) -> Edges:
    """Return all edges with a key of at least some tau, near `target` of them, in row-major order.

    Fewer come back where many edges tie at the threshold: those are then left out together.
    """
    sample = _sample(bits, mask)
    share = target / bits.size
    tau = bits.dtype.type(0)
    if share < 1:
        rank = int(sample.size * (1 - share))
        tau = np.partition(sample, rank)[rank]
    limit = max(_PREFIX_LIMIT * target, 1024)
    while True:
        found, count = _collect(bits, mask, tau, limit)
        if found is not None:
            return found
        # Too many: the sample was unlucky, or many edges tie. Every step up lets at least one value go.
        above = sample[sample > tau]
        rank = int(above.size * (1 - target / count))
        tau = np.partition(above, rank)[rank] if above.size else tau + bits.dtype.type(1)


def _sample(bits: np.ndarray, mask: np.unsignedinteger) -> np.ndarray:
    """Return keys at runs of neighbours spread evenly over the matrix (all keys where that is as cheap)."""
    flat = bits.reshape(-1)
    if flat.size <= 2 * _SAMPLE:
        return flat & mask
    spread = (np.arange(_SAMPLE // _RUN) * _GOLDEN) % 1.0
    return sample_keys(flat, mask, (spread * (flat.size - _RUN)).astype(np.int64), _RUN)


def _collect(
    bits: np.ndarray, mask: np.unsignedinteger, tau: np.unsignedinteger, limit: float
) -> tuple[Edges | None, int]:
    """Return the edges with key >= `tau` and their number; None where they are more than `limit`."""
    serial = bits.size < _SERIAL_BELOW
    blocks = row_blocks(bits.shape[0], serial=serial)
    room = int(limit) if len(blocks) == 1 else int(limit / len(blocks)) + 1024

    def scan(block: tuple[int, int], room: int = room) -> tuple[int, Edges]:
        room = min(room, (block[1] - block[0]) * bits.shape[1])
        edges = Edges(np.empty(room, bits.dtype), np.empty(room, np.int32), np.empty(room, np.int32))
        count = collect(bits, mask, tau, *block, edges.keys, edges.rows, edges.columns)
        return count, edges

    results = run_blocks(scan, blocks, serial=serial)
    total = sum(count for count, _ in results)
    if total > limit and tau < mask:
        return None, total
    full = [
        scan(block, count) if count > edges.keys.size else (count, edges)
        for block, (count, edges) in zip(blocks, results, strict=True)
    ]
    keys, rows, columns = (
        np.concatenate([getattr(edges, name)[:count] for count, edges in full])
        for name in ("keys", "rows", "columns")
    )
    return Edges(keys, rows, columns), total


def _descending(keys: np.ndarray) -> np.ndarray:
    """Return the stable order of `keys` from the largest down."""
    if keys.dtype.itemsize == 8:
        return np.argsort(~keys, kind="stable")
    packed = (~keys.astype(np.uint32)).astype(np.uint64) << np.uint64(32)
    packed |= np.arange(keys.size, dtype=np.uint64)
    packed.sort()
    return (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _boruvka_round(
    bits: np.ndarray, mask: np.unsignedinteger, parent: np.ndarray, size: np.ndarray
) -> Edges:
    """Join every component but the largest to its heaviest neighbour; return the edges used."""
    n_out = bits.shape[0]
    labels, largest = _labels(parent)
    row_set, column_set = labels[:n_out], labels[n_out:]
    rows = np.flatnonzero(row_set != largest).astype(np.int32)
    columns = np.flatnonzero(column_set != largest).astype(np.int32)
    from_rows = _from_rows(bits, mask, rows, row_set, column_set)
    from_columns = _from_columns(bits, mask, columns, row_set, column_set)
    both = Edges(
        np.concatenate((from_rows.keys, from_columns.keys)),
        np.concatenate((from_rows.rows, from_columns.rows)),
        np.concatenate((from_rows.columns, from_columns.columns)),
    )
    owner = np.concatenate((row_set[rows], column_set[columns]))
    chosen = _best_of_components(owner, both.keys, both.rows, both.columns, n_out, parent, size)
    return Edges(both.keys[chosen], both.rows[chosen], both.columns[chosen])


def _from_rows(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    rows: np.ndarray,
    row_set: np.ndarray,
    column_set: np.ndarray,
) -> Edges:
    """Return the heaviest edge out of its component for each of `rows`; column -1 where there is none."""
    found = Edges(np.zeros(rows.size, bits.dtype), rows, np.full(rows.size, -1, np.int32))
    serial = rows.size * bits.shape[1] < _SERIAL_BELOW

    def scan(block: tuple[int, int]) -> None:
        part = slice(*block)
        best_of_rows(bits, mask, rows[part], row_set, column_set, found.keys[part], found.columns[part])

    if rows.size:
        run_blocks(scan, row_blocks(rows.size, serial=serial), serial=serial)
    return found


def _from_columns(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    columns: np.ndarray,
    row_set: np.ndarray,
    column_set: np.ndarray,
) -> Edges:
    """Return the heaviest edge out of its component for each of `columns`; row -1 where there is none."""
    n_out = bits.shape[0]
    serial = columns.size * n_out < _SERIAL_BELOW

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


@njit(cache=True, nogil=True)
def _labels(parent: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the root of every vertex and the root of the largest component."""
    labels = np.empty_like(parent)
    count = np.zeros(parent.size, np.int64)
    for x in range(parent.size):
        labels[x] = find(parent, x)
        count[labels[x]] += 1
    return labels, labels.dtype.type(np.argmax(count))


@njit(cache=True, nogil=True)
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
        if b < 0 or keys[e] > keys[b]:
            best[owner[e]] = e
        elif keys[e] == keys[b] and (rows[e], columns[e]) < (rows[b], columns[b]):
            best[owner[e]] = e
    used = np.empty(owner.size, np.int64)
    count = 0
    for e in best:
        if e >= 0 and unite(parent, size, rows[e], n_out + columns[e]):
            used[count] = e
            count += 1
    return used[:count]
