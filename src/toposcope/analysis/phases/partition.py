"""Piecewise-constant slopes on log(step): what a partition costs, and the best one.

The model of a series v at steps s > 0: v_i - v_(i-1) = slope x (log s_i - log s_(i-1)) + noise, with one
slope per segment, so v is continuous and piecewise linear in log(step) and its noise a random walk, whose
size and persistence `phases.whitening` takes out first. The cost of a segment is its residual
sum of squares; a partition costs the sum plus a penalty per boundary. The search is exact, as PELT's is:
pruning would save nothing at these lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

LEAST_SEGMENT = 3
MOST_BOUNDARIES = 8


@dataclass(frozen=True, slots=True)
class Increments:
    """Changes of a series (n,) and of log step (n,), between the checkpoints `steps` (n + 1,)."""

    change: np.ndarray
    clock: np.ndarray
    steps: np.ndarray


def increments(steps: np.ndarray, values: np.ndarray) -> Increments:
    """Return the changes between consecutive checkpoints; step 0, whose logarithm is -inf, is left out."""
    keep = (steps > 0) & np.isfinite(values)
    steps, values = np.asarray(steps, float)[keep], np.asarray(values, float)[keep]
    return Increments(np.diff(values), np.diff(np.log(steps)), steps)


def optimal_boundaries(change: np.ndarray, clock: np.ndarray, penalty: float) -> list[int]:
    """Return where new segments start (indices into `change`) in the partition of least penalised cost.

    Segments have at least 3 increments.

    >>> change = np.r_[np.full(10, 1.0), np.full(10, -1.0)]
    >>> optimal_boundaries(change, np.ones(20), 1.0)
    [10]
    """
    last = _partition(change, clock, penalty, LEAST_SEGMENT)
    out = []
    end = len(change)
    while end > 0:
        end = int(last[end])
        if end > 0:
            out.append(end)
    return out[::-1]


@njit(cache=True)
def _sums(change, clock):  # type: ignore[no-untyped-def]
    n = len(change)
    vv, vx, xx = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        vv[i + 1] = vv[i] + change[i] * change[i]
        vx[i + 1] = vx[i] + change[i] * clock[i]
        xx[i + 1] = xx[i] + clock[i] * clock[i]
    return vv, vx, xx


@njit(cache=True)
def _cost(vv, vx, xx, a, b):  # type: ignore[no-untyped-def]
    """Residual sum of squares of the segment [a, b)."""
    part = vx[b] - vx[a]
    return max(vv[b] - vv[a] - part * part / (xx[b] - xx[a]), 0.0)


@njit(cache=True)
def _partition(change, clock, penalty, least):  # type: ignore[no-untyped-def]
    n = len(change)
    vv, vx, xx = _sums(change, clock)
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    last = np.zeros(n + 1, np.int64)
    for b in range(least, n + 1):
        for a in range(b - least + 1):
            total = best[a] + penalty + _cost(vv, vx, xx, a, b)
            if total < best[b]:
                best[b], last[b] = total, a
    return last


@njit(cache=True)
def best_gain(change, clock, least, most):  # type: ignore[no-untyped-def]
    """Return the largest (cost without boundary - cost with m of them) / m, over m up to `most`."""
    n = len(change)
    vv, vx, xx = _sums(change, clock)
    before = np.full(n + 1, np.inf)
    for b in range(least, n + 1):
        before[b] = _cost(vv, vx, xx, 0, b)
    whole, best = before[n], 0.0
    for m in range(1, most + 1):
        now = np.full(n + 1, np.inf)
        for b in range(least * (m + 1), n + 1):
            for a in range(least * m, b - least + 1):
                now[b] = min(now[b], before[a] + _cost(vv, vx, xx, a, b))
        if now[n] < np.inf:
            best = max(best, (whole - now[n]) / m)
        before = now
    return best


@njit(cache=True)
def best_split(change, clock, least):  # type: ignore[no-untyped-def]
    """Return the largest drop in cost that one boundary brings, and where it is."""
    n = len(change)
    vv, vx, xx = _sums(change, clock)
    whole, best, where = _cost(vv, vx, xx, 0, n), 0.0, 0
    for a in range(least, n - least + 1):
        gain = whole - _cost(vv, vx, xx, 0, a) - _cost(vv, vx, xx, a, n)
        if gain > best:
            best, where = gain, a
    return best, where
