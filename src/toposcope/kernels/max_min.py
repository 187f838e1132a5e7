"""The max-min product of matrices: the widest path through two layers."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks

# Multiplications below which starting threads costs more than it saves. Changes speed only.
_SERIAL_BELOW = 10_000_000
# Columns processed at a time, so that they stay in the cache. Affects speed only.
_TILE = 1024


def max_min_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return C with C[i, j] = max over k of min(A[i, k], B[k, j]), for non-negative matrices."""
    out = np.zeros((A.shape[0], B.shape[1]), B.dtype)
    serial = A.shape[0] * A.shape[1] * B.shape[1] < _SERIAL_BELOW
    run_blocks(lambda block: _rows(A, B, *block, out), row_blocks(A.shape[0], serial=serial), serial=serial)
    return out


@kernel
def _rows(A: np.ndarray, B: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
    for start in range(0, B.shape[1], _TILE):
        stop = min(start + _TILE, B.shape[1])
        for i in range(first, last):
            best = out[i, start:stop]
            for k in range(A.shape[1]):
                _widen(best, A[i, k], B[k, start:stop])


@kernel
def _widen(best: np.ndarray, width: float, row: np.ndarray) -> None:
    for j in range(best.size):
        best[j] = max(best[j], min(width, row[j]))
