"""Passes over the bits of a weight matrix: sampling, collecting heavy entries, finding the best edges out.

A key is the bits of |w| as an unsigned integer: with the sign cleared, the order of floats is the order
of their bits for every floating type, and infinity and NaN sort above everything finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks

SERIAL_BELOW = 1_000_000
"""Entries below which starting threads costs more than it saves."""
_CHUNK = 64
"""Entries examined together, with one branch for all of them; wide enough to be vectorised."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of a bipartite graph: keys (bits of |w|), rows and columns, of equal length."""

    keys: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    def __getitem__(self, chosen: np.ndarray | slice) -> Edges:
        """Return the edges at the positions `chosen`."""
        return Edges(self.keys[chosen], self.rows[chosen], self.columns[chosen])


def joined(parts: Sequence[Edges]) -> Edges:
    """Return the concatenated edges of all parts."""
    return Edges(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.columns for part in parts]),
    )


def descending(keys: np.ndarray) -> np.ndarray:
    """Return the stable order of `keys` from the largest down."""
    if keys.dtype.itemsize == 8:
        return np.argsort(~keys, kind="stable")
    # One sort of 64-bit numbers, key above and position below, is far cheaper than an argsort.
    packed = (~keys.astype(np.uint32)).astype(np.uint64) << np.uint64(32)
    packed |= np.arange(keys.size, dtype=np.uint64)
    packed.sort()
    return (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def collected(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    row_floor: np.ndarray,
    column_floor: np.ndarray,
    limit: int,
) -> tuple[Edges | None, int]:
    """Return what `collect` finds in all rows, with threads, and the number; None for more than `limit`."""
    serial = bits.size < SERIAL_BELOW
    blocks = row_blocks(bits.shape[0], serial=serial)
    room = limit if len(blocks) == 1 else limit // len(blocks) + 1024

    def scan(block: tuple[int, int], room: int = room) -> tuple[int, Edges]:
        room = min(room, (block[1] - block[0]) * bits.shape[1])
        edges = Edges(np.empty(room, bits.dtype), np.empty(room, np.int32), np.empty(room, np.int32))
        count = collect(bits, mask, row_floor, column_floor, *block, edges.keys, edges.rows, edges.columns)
        return count, edges

    results = run_blocks(scan, blocks, serial=serial)
    total = sum(count for count, _ in results)
    if total > limit:
        return None, total
    return joined(
        [
            (scan(block, count)[1] if count > edges.keys.size else edges)[slice(0, count)]
            for block, (count, edges) in zip(blocks, results, strict=True)
        ]
    ), total


@kernel
def sample_keys(flat: np.ndarray, mask: np.unsignedinteger, starts: np.ndarray, width: int) -> np.ndarray:
    """Return the keys of `width` neighbours from each position in `starts` of the flattened matrix."""
    out = np.empty(starts.size * width, flat.dtype)
    for s in range(starts.size):
        for k in range(width):
            out[s * width + k] = flat[starts[s] + k] & mask
    return out


@kernel
def collect(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    row_floor: np.ndarray,
    column_floor: np.ndarray,
    first: int,
    last: int,
    keys: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
) -> int:
    """Store the edges (i, j) of rows `first` to `last` with key >= min(row_floor[i], column_floor[j]).

    They are stored in row-major order; those beyond the length of the buffers are counted only. Returns
    their number. A floor of `mask` is above every finite key.
    """
    n_in = bits.shape[1]
    whole = n_in // _CHUNK * _CHUNK
    closed = True
    for j in range(n_in):
        closed &= column_floor[j] >= mask
    count = 0
    for i in range(first, last):
        low = row_floor[i]
        if closed and low >= mask:
            continue
        for start in range(0, n_in, _CHUNK):
            part = bits[i, start : start + _CHUNK]
            floor = column_floor[start : start + _CHUNK]
            hit = np.uint32(start >= whole)
            if not hit:
                for k in range(_CHUNK):
                    hit |= np.uint32((part[k] & mask) >= min(low, floor[k]))
            if not hit:
                continue
            for k in range(part.size):
                key = part[k] & mask
                if key >= min(low, floor[k]):
                    if count < keys.size:
                        keys[count] = key
                        rows[count] = i
                        columns[count] = start + k
                    count += 1
    return count


@kernel
def floor_of_rows(
    bits: np.ndarray, mask: np.unsignedinteger, rows: np.ndarray, columns: np.ndarray, floor: np.ndarray
) -> None:
    """Set `floor` of each of `rows` to its largest key within `columns`."""
    for i in rows:
        largest = floor[i] ^ floor[i]  # a zero of the keys' own type: a plain 0 would round 64-bit keys
        for j in columns:
            largest = max(largest, bits[i, j] & mask)
        floor[i] = largest


@kernel
def floor_of_columns(
    bits: np.ndarray, mask: np.unsignedinteger, rows: np.ndarray, columns: np.ndarray, floor: np.ndarray
) -> None:
    """Set `floor` of each of `columns` to its largest key within `rows`."""
    largest = np.zeros(bits.shape[1], bits.dtype)
    for i in rows:
        row = bits[i]
        for j in range(row.size):
            largest[j] = max(largest[j], row[j] & mask)
    for j in columns:
        floor[j] = largest[j]


@kernel
def best_of_rows(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    wanted: np.ndarray,
    row_set: np.ndarray,
    column_set: np.ndarray,
    found: np.ndarray,
    columns: np.ndarray,
) -> None:
    """For each row in `wanted`, find its heaviest edge into another set, lowest column first on ties.

    `columns` keeps its value if every column is in the row's own set.
    """
    n_in = bits.shape[1]
    for w in range(wanted.size):
        row = bits[wanted[w]]
        own_set = row_set[wanted[w]]
        heaviest = found[w]
        none = heaviest
        for j in range(n_in):
            key = row[j] & mask
            heaviest = max(heaviest, key if column_set[j] != own_set else none)
        found[w] = heaviest
        for j in range(n_in):
            if (row[j] & mask) == heaviest and column_set[j] != own_set:
                columns[w] = j
                break


@kernel
def best_of_columns(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    first: int,
    last: int,
    wanted: np.ndarray,
    row_set: np.ndarray,
    column_set: np.ndarray,
    found: np.ndarray,
    rows: np.ndarray,
) -> None:
    """For each column in `wanted`, find its heaviest edge into another set among rows `first` to `last`.

    `found` (0 at first) and `rows` (-1 at first) are updated in place; the lowest row wins ties.
    """
    n_in = bits.shape[1]
    if 8 * wanted.size < n_in:
        for i in range(first, last):
            for w in range(wanted.size):
                key = bits[i, wanted[w]] & mask
                if (key > found[w] or rows[w] < 0) and column_set[wanted[w]] != row_set[i]:
                    found[w] = key
                    rows[w] = i
        return
    all_found = np.zeros(n_in, found.dtype)
    all_rows = np.full(n_in, -1, np.int32)
    for i in range(first, last):
        _raise_all(bits[i], mask, np.int32(i), row_set[i], column_set, all_found, all_rows)
    for w in range(wanted.size):
        found[w] = all_found[wanted[w]]
        rows[w] = all_rows[wanted[w]]


@kernel
def _raise_all(row, mask, i, own_set, column_set, best_keys, rows):
    for j in range(row.size):
        key = row[j] & mask
        better = (column_set[j] != own_set) & ((key > best_keys[j]) | (rows[j] < 0))
        best_keys[j] = key if better else best_keys[j]
        rows[j] = i if better else rows[j]
