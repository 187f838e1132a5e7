"""Tent functions of bars on a grid, the arithmetic behind landscapes and silhouettes."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel


@kernel
def top_tents(low: np.ndarray, high: np.ndarray, grid: np.ndarray, out: np.ndarray) -> None:
    """Write the `len(out)` largest tents min(t - low, high - t) above 0 at every point t of the grid."""
    levels = len(out)
    best = np.empty(levels)
    for at in range(len(grid)):
        t = grid[at]
        best[:] = 0.0
        for i in range(len(low)):
            height = min(t - low[i], high[i] - t)
            if height > best[levels - 1]:
                place = levels - 1
                while place > 0 and best[place - 1] < height:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = height
        for level in range(levels):
            out[level, at] = best[level]


@kernel
def weighted_tents(
    low: np.ndarray, high: np.ndarray, weight: np.ndarray, grid: np.ndarray, out: np.ndarray
) -> None:
    """Add weight * max(0, min(t - low, high - t)) of all bars to `out`; the grid ascends."""
    for i in range(len(low)):
        at = np.searchsorted(grid, low[i])
        while at < len(grid) and grid[at] < high[i]:
            out[at] += weight[i] * min(grid[at] - low[i], high[i] - grid[at])
            at += 1
