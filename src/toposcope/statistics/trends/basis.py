"""The smooth trends that are removed from every series: a core, and a nested family of variable size."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

TREND_TOLERANCE = 1e-3
"""Principal functions of the core are kept if their singular value exceeds this part of the first."""
_CORE_EXPONENTS = np.linspace(0.05, 2.0, 40)
"""Exponents of power laws of the step, t^-b."""
_RATES = np.geomspace(0.02, 2.0, 40)
"""Times in which exponentials fall by a factor of e, in shares of the run."""
_WIDTHS = (0.05, 0.1)
"""Widths of sigmoids, in shares of the run."""
_PLACES = np.linspace(0.05, 0.95, 19)
"""Centres of sigmoids, in shares of the run and of its logarithm."""
_EXTRA = (0, 2, 4, 7, 11, 16, 22)
"""The numbers of trends beyond the core among which AICc chooses."""
_NEGLIGIBLE = 1e-2
"""A learning rate's residual on the core is a trend above this share; a smaller one is hidden by noise."""
_DROP, _ALONE = 0.3, 4.0
"""A drop is a fall of the log rate by this much between two checkpoints, so many times the falls beside it:
the end of a decay is none."""
_DROP_LAGS = (0.02, 0.08)
"""The lags of the answers to each of several drops, in shares of the run."""
_ROOM = 8
"""One drop in so many checkpoints has answers of its own; more would leave too little of a series."""

_CLEAR = 12
"""With so many checkpoints a drop, unrelated pairs that answer each drop in their own way are found in at
most 6.3% (51 checkpoints, three drops); with fewer in up to 9.0% (26, three drops)."""


def trend_family(steps: np.ndarray, rate: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal trends as rows (most, n), the core first, and the numbers of them to choose from."""
    steps = np.asarray(steps, float)
    rate_known = (
        None if rate is None or not np.isfinite(rate).all() or np.ptp(rate) == 0 else tuple(map(float, rate))
    )
    return _trend_family(tuple(map(float, steps)), rate_known)


@lru_cache(maxsize=64)
def _trend_family(at: tuple[float, ...], rate: tuple[float, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    steps = np.array(at)
    core = core_trends(steps)
    most, plain = round(len(steps) / 2.5), core.shape[1]
    if rate is not None:
        core = _joined(core, schedule_trends(steps, np.array(rate)))
    most += core.shape[1] - plain  # known, not chosen, so they do not replace trends that are chosen
    size = core.shape[1]
    most = max(most, size)
    extra = _smooth_family(steps)
    extra = extra - core @ (core.T @ extra)
    left, power, _ = np.linalg.svd(extra, full_matrices=False)
    extra = left[:, power > 1e-8 * power[0]][:, : most - size]
    basis, _ = np.linalg.qr(np.column_stack([core, extra]))
    sizes = np.array([size + k for k in _EXTRA if size + k <= basis.shape[1]])
    return np.ascontiguousarray(basis.T), sizes


def core_trends(steps: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis (n, k) of the trends that are removed from every series, cached."""
    return _core_trends(tuple(map(float, steps)))


@lru_cache(maxsize=64)
def _core_trends(at: tuple[float, ...]) -> np.ndarray:
    steps = np.array(at)
    t = (steps - steps[0]) / np.diff(steps).min() + 1.0
    family = _powers(t)
    left, size, _ = np.linalg.svd(family.T, full_matrices=False)
    keep = left[:, size > TREND_TOLERANCE * size[0]]
    basis, _ = np.linalg.qr(np.column_stack([np.ones_like(t), keep, t - t.mean()]))
    return basis


def _powers(t: np.ndarray) -> np.ndarray:
    """Return t^-b and log t as rows of mean 0 and norm 1."""
    family = np.stack([*(t**-b for b in _CORE_EXPONENTS), np.log(t)])
    family = family - family.mean(axis=1, keepdims=True)
    return np.asarray(family / np.linalg.norm(family, axis=1, keepdims=True))


def schedule_trends(steps: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return the traces of a learning rate in a series (n, 3): its value, its integral, its lagged value.

    The lag is an exponential mean over a twentieth of the run. If the rate drops several times, a series may
    answer each drop at its own pace: two more traces for each drop, with a shorter and a longer lag.
    """
    gaps = np.r_[0.0, np.diff(steps)]
    total = np.cumsum(gaps * (rate + np.r_[rate[0], rate[:-1]]) / 2.0)
    lagged = rate.astype(float).copy()
    keep = np.exp(-gaps / (0.05 * (steps[-1] - steps[0])))
    for i in range(1, len(rate)):
        lagged[i] = keep[i] * lagged[i - 1] + (1.0 - keep[i]) * rate[i]
    drops = _drops(rate)
    if not 1 < len(drops) <= len(steps) // _ROOM:
        return np.column_stack([rate, total, lagged])
    since = np.stack([np.maximum(steps - steps[at - 1], 0.0) for at in drops], axis=1)
    answers = [1.0 - np.exp(-since / (lag * (steps[-1] - steps[0]))) for lag in _DROP_LAGS]
    return np.column_stack([rate, total, lagged, *answers])


def crowded_drops(rate: np.ndarray) -> int:
    """Return how often a rate drops at once, if several times with too few checkpoints a drop; else 0.

    >>> rates = [1.0, 0.3, 0.1, 0.03]
    >>> crowded_drops(np.repeat(rates, 7)), crowded_drops(np.repeat(rates, 20))
    (3, 0)
    """
    count = len(_drops(rate)) if len(rate) > 2 else 0
    return count if count > 1 and len(rate) < _CLEAR * count else 0


def _drops(rate: np.ndarray) -> np.ndarray:
    """Return the checkpoints at which the rate has dropped at once.

    >>> _drops(np.array([1, 1, 1, 0.3, 0.3, 0.3, 0.1, 0.1, 0.1])), _drops(np.linspace(1, 0, 9))
    (array([3, 6]), array([], dtype=int64))
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = -np.diff(np.log(np.maximum(rate, 1e-300)))
    beside = np.maximum(np.r_[0.0, fall[:-1]], np.r_[fall[1:], 0.0])
    drops = np.flatnonzero((fall > _DROP) & (fall > _ALONE * beside)) + 1
    return drops[(rate[drops] > 0) & (drops < len(rate) - 1)]


def _joined(core: np.ndarray, more: np.ndarray) -> np.ndarray:
    more = more - more.mean(axis=0)
    more = more / np.maximum(np.linalg.norm(more, axis=0), 1e-300)
    left, power, _ = np.linalg.svd(more - core @ (core.T @ more), full_matrices=False)
    basis, _ = np.linalg.qr(np.column_stack([core, left[:, power > _NEGLIGIBLE]]))
    return basis


def _smooth_family(steps: np.ndarray) -> np.ndarray:
    u = (steps - steps[0]) / (steps[-1] - steps[0])
    logs = np.log((steps - steps[0]) / np.diff(steps).min() + 1.0)
    curves = [np.exp(-u / rate) for rate in _RATES]
    curves += [_sigmoid((x - c) / w) for x in (u, logs / logs[-1]) for c in _PLACES for w in _WIDTHS]
    return np.stack(curves, axis=1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))
