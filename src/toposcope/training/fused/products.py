"""Sums of outer products over many rows: the gradients of weight matrices."""

from __future__ import annotations

import numpy as np
from numba import njit

from toposcope.training.fused.vectors import FAST, LANES, fma, load, splat, store

_ROWS_AT_ONCE = 64
_WIDE = 2 * LANES


def transposed_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a.T @ b, float32; `a` (n, k) and `b` (n, m) are C-contiguous, k and m multiples of four.

    The wider side lies along the vectors, so that narrow matrices waste little of them.
    """
    wide_a, wide_b = _padded(a.shape[1]), _padded(b.shape[1])
    if a.shape[1] * wide_b <= b.shape[1] * wide_a:
        out = np.zeros((a.shape[1], wide_b), np.float32)
        _accumulate(a, b, out)
        return out[:, : b.shape[1]]
    out = np.zeros((b.shape[1], wide_a), np.float32)
    _accumulate(b, a, out)
    return out[:, : a.shape[1]].T


def _padded(width: int) -> int:
    return (width + _WIDE - 1) // _WIDE * _WIDE


@njit(cache=True, fastmath=FAST)
def _accumulate(a, b, out):
    """Add a.T @ b to `out`, whose rows are padded to whole pairs of vectors (what lies there is noise)."""
    rows, tall = a.shape
    wide = b.shape[1]
    padded = out.shape[1]
    whole = max(0, rows - (padded - wide + wide - 1) // wide)  # vectors of later rows would leave `b`
    left, right, sums = a.ravel(), b.ravel(), out.ravel()
    for first in range(0, whole, _ROWS_AT_ONCE):
        last = min(whole, first + _ROWS_AT_ONCE)
        for i in range(0, tall, 4):
            for j in range(0, padded, _WIDE):
                _tile(left, right, sums, first, last, tall, wide, padded, i, j)
    for row in range(whole, rows):
        for i in range(tall):
            for j in range(wide):
                out[i, j] += a[row, i] * b[row, j]


@njit(cache=True, fastmath=FAST)
def _tile(left, right, sums, first, last, tall, wide, padded, i, j):
    """Add four rows by two vectors of the product over the rows `first` <= row < `last`."""
    at = i * padded + j
    s00, s01 = load(sums, at), load(sums, at + LANES)
    s10, s11 = load(sums, at + padded), load(sums, at + padded + LANES)
    s20, s21 = load(sums, at + 2 * padded), load(sums, at + 2 * padded + LANES)
    s30, s31 = load(sums, at + 3 * padded), load(sums, at + 3 * padded + LANES)
    for row in range(first, last):
        y, x = row * tall + i, row * wide + j
        b0, b1 = load(right, x), load(right, x + LANES)
        a = splat(left[y])
        s00, s01 = fma(a, b0, s00), fma(a, b1, s01)
        a = splat(left[y + 1])
        s10, s11 = fma(a, b0, s10), fma(a, b1, s11)
        a = splat(left[y + 2])
        s20, s21 = fma(a, b0, s20), fma(a, b1, s21)
        a = splat(left[y + 3])
        s30, s31 = fma(a, b0, s30), fma(a, b1, s31)
    store(sums, at, s00)
    store(sums, at + LANES, s01)
    store(sums, at + padded, s10)
    store(sums, at + padded + LANES, s11)
    store(sums, at + 2 * padded, s20)
    store(sums, at + 2 * padded + LANES, s21)
    store(sums, at + 3 * padded, s30)
    store(sums, at + 3 * padded + LANES, s31)
