"""One block of a count sketch: values added, with their signs, to coordinates chosen outside."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def signed_sums(values: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """Return `size` sums: value k is added to coordinate codes[k] // 2, negated where the code is odd."""
    sums = np.zeros(size)
    for k in range(values.size):
        value = values[k]
        sums[codes[k] >> 1] += -value if codes[k] & 1 else value
    return sums
