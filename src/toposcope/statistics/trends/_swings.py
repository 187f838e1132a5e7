"""Series that swing with an unsteadily drifting period: no single wave removes them (`sweeps`).

The innovations of such a series look white over the whole run, but are a wave in each part of it. Two series
with the same sweep agree, or disagree, throughout. So autocorrelations are computed in thirds of the run, and
their squares are added. If both series of a pair have a larger sum than nine in ten white series, the pair is
not tested. This is done only at even steps, and only from `SHORT` checkpoints on: a third of fewer shows
little of a period, and at uneven steps the residual of white noise resembles such a wave (7% of pairs at 48
geometric steps).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.trends.grids import uneven_steps
from toposcope.statistics.trends.whitening import SHORT

PARTS, MOST_LAGS = 3, 6
"""The number of parts of a run, and of autocorrelations in each."""
BAR = 0.9
"""A pair of white series is refused in one case in a hundred; a series paired with itself, in one in ten.

Set on chirps of 20 to 4 and 12 to 5 checkpoints; quarters and sixths of the run find fewer of them."""
_SIMULATED = 2000
"""The number of white series that determine the bar for a number of checkpoints."""


def both_swing(steps: np.ndarray, e: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return for each pair of columns at these steps whether both are such waves."""
    if len(e) < SHORT or uneven_steps(steps):
        return np.zeros(e.shape[1], bool)
    return swinging(e) & swinging(f)


def swinging(e: np.ndarray) -> np.ndarray:
    """Return for each column (n, pairs) whether it is a wave in thirds of the run.

    >>> turns = np.cumsum(np.linspace(0.4, 1.5, 60))
    >>> noise = np.random.default_rng(0).standard_normal(60)
    >>> swinging(np.column_stack([np.sin(turns), noise])).tolist()
    [True, False]
    """
    return np.asarray(_local_power(e) > _bar(len(e)))


def _local_power(e: np.ndarray) -> np.ndarray:
    """Return the sum over parts and lags of (sum e_t e_(t+k))^2 / (part n), for e of power 1."""
    n, total = len(e), np.zeros(e.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        e = e / np.sqrt(np.mean(e * e, axis=0))
    edges = np.linspace(0, n, PARTS + 1).astype(int)
    for start, stop in pairwise(edges):
        for k in range(1, min(n // PARTS // 2, MOST_LAGS) + 1):
            both = np.sum(e[start + k : stop] * e[start : stop - k], axis=0)
            total += both * both / (stop - start) / n
    return total


@lru_cache(maxsize=64)
def _bar(n: int) -> float:
    white = rng(name="swings", n=n).standard_normal((n, _SIMULATED))
    return float(np.quantile(_local_power(white), BAR))
