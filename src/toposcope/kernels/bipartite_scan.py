"""Passes over the bits of a weight matrix: sampling, collecting what is heavy, the best edges out.

A key is the bits of |w| as an unsigned integer: with the sign cleared, the order of floats is the order
of their bits for every floating type, and infinity and NaN sort above everything finite.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_CHUNK = 64
"""Entries looked at together: one branch for all of them, wide enough to be vectorised."""


@njit(cache=True, nogil=True)
def sample_keys(flat: np.ndarray, mask: np.unsignedinteger, starts: np.ndarray, width: int) -> np.ndarray:
    """Return the keys of `width` neighbours from each position in `starts` of the flattened matrix."""
    out = np.empty(starts.size * width, flat.dtype)
    for s in range(starts.size):
        for k in range(width):
            out[s * width + k] = flat[starts[s] + k] & mask
    return out


@njit(cache=True, nogil=True)
def collect(
    bits: np.ndarray,
    mask: np.unsignedinteger,
    tau: np.unsignedinteger,
    first: int,
    last: int,
    keys: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
) -> int:
    """Store the edges of rows `first` to `last` with key >= `tau` in row-major order; return their number.

    Edges beyond the length of the buffers are counted, not stored.
    """
    n_in = bits.shape[1]
    whole = n_in // _CHUNK * _CHUNK
    count = 0
    for i in range(first, last):
        for start in range(0, n_in, _CHUNK):
            part = bits[i, start : start + _CHUNK]
            hit = np.uint32(0)
            if start < whole:
                for k in range(_CHUNK):
                    hit |= np.uint32((part[k] & mask) >= tau)
            else:
                hit = np.uint32(1)
            if not hit:
                continue
            for k in range(part.size):
                key = part[k] & mask
                if key >= tau:
                    if count < keys.size:
                        keys[count] = key
                        rows[count] = i
                        columns[count] = start + k
                    count += 1
    return count


@njit(cache=True, nogil=True)
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

    `columns` stays as it is where every column is in the row's own set.
    """
    n_in = bits.shape[1]
    for w in range(wanted.size):
        row = bits[wanted[w]]
        own = row_set[wanted[w]]
        heaviest = found[w]
        none = heaviest
        for j in range(n_in):
            key = row[j] & mask
            heaviest = max(heaviest, key if column_set[j] != own else none)
        found[w] = heaviest
        for j in range(n_in):
            if (row[j] & mask) == heaviest and column_set[j] != own:
                columns[w] = j
                break


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _raise_all(row, mask, i, own, column_set, found, rows):  # type: ignore[no-untyped-def]
    for j in range(row.size):
        key = row[j] & mask
        better = (column_set[j] != own) & ((key > found[j]) | (rows[j] < 0))
        found[j] = key if better else found[j]
        rows[j] = i if better else rows[j]
