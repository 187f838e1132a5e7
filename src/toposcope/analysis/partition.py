"""Piecewise-constant slopes on log(step): the optimal partition, its calibration, an online detector.

The model of a series v at steps s > 0: v_i - v_(i-1) = slope x (log s_i - log s_(i-1)) + noise, with one
slope per segment, so v is continuous and piecewise linear in log(step) and its noise a random walk. The
cost of a segment is its residual sum of squares; a partition costs the sum plus a penalty per boundary.
The search is exact, as PELT's is: pruning would save nothing at these lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit, prange

from toposcope.seeding import rng

LEAST_SEGMENT = 3
MOST_BOUNDARIES = 8
SIMULATIONS = 10_000
FALSE_ALARMS = 0.05
_MAD_TO_SIGMA = 1.4826 / np.sqrt(2.0)


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


def robust_sigma(change: np.ndarray) -> float:
    """Return the noise's standard deviation from the median absolute difference of successive changes."""
    return float(_MAD_TO_SIGMA * np.median(np.abs(np.diff(change)))) if len(change) > 1 else 0.0


def base_penalty(change: np.ndarray) -> float:
    """Return 2 sigma^2 ln n, sigma robust: the penalty before calibration."""
    return 2.0 * robust_sigma(change) ** 2 * float(np.log(max(len(change), 2)))


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


def calibrated_factor(clock: np.ndarray, *, rate: float = FALSE_ALARMS) -> float:
    """Return what to multiply `base_penalty` by so that `rate` of all random walks show a boundary.

    Simulated for this very spacing (10,000 walks); any drift that is linear in log(step) leaves it unchanged.
    """
    return _factor(tuple(np.round(clock / clock.mean(), 6).tolist()), rate)


@lru_cache(maxsize=64)
def _factor(clock: tuple[float, ...], rate: float) -> float:
    return float(np.quantile(_null_gains(clock), 1.0 - rate))


@lru_cache(maxsize=16)
def _null_gains(clock: tuple[float, ...]) -> np.ndarray:
    walks = rng(name="segments", n=len(clock)).standard_normal((SIMULATIONS, len(clock)))
    gains = _best_gains(walks, np.array(clock), LEAST_SEGMENT, MOST_BOUNDARIES)
    return gains / np.array([base_penalty(walk) for walk in walks])


def false_alarm_rate(clock: np.ndarray, factor: float) -> float:
    """Return the share of simulated random walks with at least one boundary at this penalty factor."""
    key = tuple(np.round(clock / clock.mean(), 6).tolist())
    return float(np.mean(_null_gains(key) > factor))


class OnlineDetector:
    """Watches one growing series for a change of its slope on log(step), with false alarms at 5% per run.

    After each checkpoint the best single split of everything since the last alarm is compared with no split;
    the gain over 2 sigma^2 raises an alarm above a threshold that a random walk on the planned steps crosses
    anywhere in its run with probability 5%.

    Parameters
    ----------
    planned_steps
        The steps at which the run will be measured.

    Examples
    --------
    >>> steps = np.arange(100, 6100, 100)
    >>> noise = np.random.default_rng(0).standard_normal(60).cumsum() * 0.01
    >>> values = np.where(steps < 1500, 0.0, 3.0 * np.log(steps / 1500)) + noise
    >>> detector = OnlineDetector(steps)
    >>> alarms = [alarm for step, v in zip(steps, values) if (alarm := detector.update(step, v)) is not None]
    >>> bool(alarms) and abs(alarms[0] - 1500) <= 200
    True
    """

    start_after = 10
    """Increments before the first decision: fewer do not determine the noise."""

    def __init__(self, planned_steps: np.ndarray, *, rate: float = FALSE_ALARMS) -> None:
        clock = np.diff(np.log(np.asarray(planned_steps, float)[np.asarray(planned_steps) > 0]))
        self.threshold = _online_threshold(
            tuple(np.round(clock / clock.mean(), 6).tolist()), rate, self.start_after
        )
        self._steps: list[float] = []
        self._values: list[float] = []

    def update(self, step: float, value: float) -> float | None:
        """Take one more checkpoint; return the step at which the slope changed if this raises an alarm."""
        if not (step > 0 and np.isfinite(value)) or (self._steps and step <= self._steps[-1]):
            return None
        self._steps.append(float(step))
        self._values.append(float(value))
        change, clock = np.diff(self._values), np.diff(np.log(self._steps))
        if len(change) < self.start_after:
            return None
        gain, split = _best_split(change, clock, LEAST_SEGMENT)
        sigma = robust_sigma(change)
        if sigma == 0 or gain / (2.0 * sigma**2) <= self.threshold:
            return None
        at = self._steps[split]
        self._steps, self._values = self._steps[split:], self._values[split:]
        return at


@lru_cache(maxsize=16)
def _online_threshold(clock: tuple[float, ...], rate: float, start: int) -> float:
    walks = rng(name="online", n=len(clock)).standard_normal((SIMULATIONS // 2, len(clock)))
    return float(np.quantile(_running_maximum(walks, np.array(clock), LEAST_SEGMENT, start), 1.0 - rate))


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


@njit(parallel=True, cache=True)
def _best_gains(walks, clock, least, most):  # type: ignore[no-untyped-def]
    """For each row, the largest (cost without boundary - cost with m of them) / m, over m up to `most`."""
    draws, n = walks.shape
    out = np.zeros(draws)
    for d in prange(draws):
        vv, vx, xx = _sums(walks[d], clock)
        before = np.full(n + 1, np.inf)
        for b in range(least, n + 1):
            before[b] = _cost(vv, vx, xx, 0, b)
        whole = before[n]
        for m in range(1, most + 1):
            now = np.full(n + 1, np.inf)
            for b in range(least * (m + 1), n + 1):
                for a in range(least * m, b - least + 1):
                    now[b] = min(now[b], before[a] + _cost(vv, vx, xx, a, b))
            if now[n] < np.inf:
                out[d] = max(out[d], (whole - now[n]) / m)
            before = now
    return out


@njit(cache=True)
def _best_split(change, clock, least):  # type: ignore[no-untyped-def]
    """Return the largest drop in cost that one boundary brings, and where it is."""
    n = len(change)
    vv, vx, xx = _sums(change, clock)
    whole, best, where = _cost(vv, vx, xx, 0, n), 0.0, 0
    for a in range(least, n - least + 1):
        gain = whole - _cost(vv, vx, xx, 0, a) - _cost(vv, vx, xx, a, n)
        if gain > best:
            best, where = gain, a
    return best, where


@njit(parallel=True, cache=True)
def _running_maximum(walks, clock, least, start):  # type: ignore[no-untyped-def]
    """Return the largest split gain over 2 sigma^2 that each row shows at any time."""
    draws, n = walks.shape
    out = np.zeros(draws)
    for d in prange(draws):
        jumps = np.abs(np.diff(walks[d]))
        for t in range(start, n + 1):
            sigma = 1.4826 / np.sqrt(2.0) * np.median(jumps[: t - 1])
            gain, _ = _best_split(walks[d, :t], clock[:t], least)
            out[d] = max(out[d], gain / (2.0 * sigma * sigma))
    return out
