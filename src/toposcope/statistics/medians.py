"""The median inside compiled kernels: numba's own takes a second to compile wherever it is called."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel


@kernel
def median(values: np.ndarray) -> float:
    """Return the median of finite values (n > 0,) by Hoare's selection.

    >>> median(np.array([3.0, 1.0, 2.0])), median(np.array([4.0, 1.0, 3.0, 2.0]))
    (2.0, 2.5)
    """
    held, middle = values.copy(), len(values) // 2
    low, high = 0, len(values) - 1
    while low < high:
        pivot, i, j = held[middle], low, high
        while i <= j:
            while held[i] < pivot:
                i += 1
            while pivot < held[j]:
                j -= 1
            if i <= j:
                held[i], held[j] = held[j], held[i]
                i, j = i + 1, j - 1
        if j < middle:
            low = i
        if middle < i:
            high = j
    if len(values) % 2:
        return held[middle]
    below = held[0]
    for i in range(1, middle):
        below = max(below, held[i])
    return (below + held[middle]) / 2.0
