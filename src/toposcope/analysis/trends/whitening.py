"""Each series freed of a smooth trend and of its own persistence, before two of them are compared.

Correlating two persistent series says little; correlating what is left of each once its own past is taken
out says much (Box and Jenkins 1970; Haugh 1976). For every series alone:

1. Trend. A constant, a line in the step, the leading principal functions of {t^-b, log t}, and, where it
   is known, the learning rate, its integral and its lagged value: the core. Beyond the core a nested family
   of smooth functions: the principal functions of exponentials in the step and of sigmoids in the step and
   in its logarithm.
2. Persistence. An autoregression of order p by Burg's method on what the trend leaves, p by AICc. What the
   trend took is given back in expectation: each trend function enters as a segment of its own, scaled by the
   noise (the E step of restricted maximum likelihood), for a projection that leaves a hole in the spectrum
   would otherwise pass for persistence.
3. Trend again, by generalised least squares under that autoregression; 2 and 3 are done three times.
4. How many functions of the nested family are taken is chosen by a penalised likelihood of the whole model: a
   smooth series takes many, a noisy one none.

Where checkpoints are missing from an even grid, a persistence counted in checkpoints would be wrong. The
series is then laid out on the whole grid, and every hole has a regressor of its own: least squares with
missing values.

The result is the standardised innovations e (n,) and h (n,), the part of each that the projection left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

TREND_TOLERANCE = 1e-3
"""Principal functions of the core with a singular value above this part of the first are kept."""
_CORE_EXPONENTS = np.linspace(0.05, 2.0, 40)
_RATES = np.geomspace(0.02, 2.0, 40)
_WIDTHS = (0.05, 0.1)
_PLACES = np.linspace(0.05, 0.95, 19)
_EXTRA = (0, 2, 4, 7, 11, 16, 22)
MOST_ORDER = 12
ROUNDS = 3
"""Times that persistence and trend are estimated in turn."""
CYCLIC = 2
"""Where checkpoints are few or missing, a persistence of this order is not estimated well enough."""
PENALTY = 3.0
"""What a parameter costs in -2 log likelihood, times n / (n - parameters - 1): AICc has 2, BIC log n."""


@dataclass(frozen=True, slots=True)
class Whitened:
    """Innovations `e` and what the projection `left` of each, both (n, columns).

    n counts the places of `steps`, holes included. Per column the number of `trends`, the `order`, and
    whether the family of trends was `exhausted`, or the
    steps too `uneven` for its persistence; `choices` is how many sizes of trend there were to choose from.
    """

    e: np.ndarray
    left: np.ndarray
    trends: np.ndarray
    order: np.ndarray
    exhausted: np.ndarray
    steps: np.ndarray
    uneven: np.ndarray
    choices: int


def whiten(values: np.ndarray, steps: np.ndarray, rate: np.ndarray | None = None) -> Whitened:
    """Whiten each column of `values` (n, columns) at distinct rising `steps`.

    `rate` (n,) is the learning rate, or None. A column that its trend explains to rounding has no
    innovations: NaN.
    """
    steps = np.asarray(steps, float)
    there, basis, sizes = _layout(steps, rate)
    centred = values - values.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    whole = np.zeros((values.shape[1], len(there)))
    whole[:, there] = (centred / np.where(scale > 0, scale, 1.0)).T
    holes = int(np.count_nonzero(~there))
    e, left, place, order, kept = _whiten(whole, basis, sizes + holes, most_order(len(steps)), holes)
    dust = (kept <= 1e-20) | ~(scale > 0)
    e[dust] = np.nan
    uneven = (holes > 0) & (order >= CYCLIC)
    return Whitened(
        e.T, left.T, sizes[place], order, place == len(sizes) - 1, full_steps(steps), uneven, len(sizes)
    )


def full_steps(steps: np.ndarray) -> np.ndarray:
    """Return the steps with those that an even grid of at most twice as many would have between them.

    >>> full_steps(np.array([0.0, 100.0, 300.0])).tolist()
    [0.0, 100.0, 200.0, 300.0]
    """
    gap = np.diff(steps).min()
    place = (steps - steps[0]) / gap
    whole = np.rint(place)
    if np.abs(place - whole).max() > 1e-6 or whole[-1] + 1 > 2 * len(steps):
        return steps
    full = steps[0] + gap * np.arange(int(whole[-1]) + 1)
    full[whole.astype(int)] = steps
    return full


def _layout(steps: np.ndarray, rate: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which of the full steps are there, the trends on them behind one row per hole, and the sizes."""
    basis, sizes = trend_family(steps, rate)
    there = np.isin(full_steps(steps), steps)
    if there.all():
        return there, basis, sizes
    whole = np.zeros((np.count_nonzero(~there) + len(basis), len(there)))
    whole[np.arange(np.count_nonzero(~there)), np.flatnonzero(~there)] = 1.0
    whole[np.count_nonzero(~there) :, there] = basis
    return there, whole, sizes


def most_order(n: int) -> int:
    """Return the largest autoregressive order tried: n // 5, at most 12."""
    return min(n // 5, MOST_ORDER)


def trend_family(steps: np.ndarray, rate: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal trends as rows (most, n), the core first, and the numbers of them to choose from."""
    steps = np.asarray(steps, float)
    known = (
        None if rate is None or not np.isfinite(rate).all() or np.ptp(rate) == 0 else tuple(map(float, rate))
    )
    return _trend_family(tuple(map(float, steps)), known)


@lru_cache(maxsize=64)
def _trend_family(at: tuple[float, ...], rate: tuple[float, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    steps = np.array(at)
    core = core_trends(steps)
    if rate is not None:
        core = _joined(core, schedule_trends(steps, np.array(rate)))
    n, size = core.shape
    most = max(round(n / 2.5), size)
    extra = _smooth_family(steps)
    extra = extra - core @ (core.T @ extra)
    left, power, _ = np.linalg.svd(extra, full_matrices=False)
    extra = left[:, power > 1e-8 * power[0]][:, : most - size]
    basis, _ = np.linalg.qr(np.column_stack([core, extra]))
    sizes = np.array([size + k for k in _EXTRA if size + k <= basis.shape[1]])
    return np.ascontiguousarray(basis.T), sizes


def core_trends(steps: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis (n, k) of the trends that are removed from every series."""
    t = (steps - steps[0]) / np.diff(steps).min() + 1.0
    family = np.stack([*(t**-b for b in _CORE_EXPONENTS), np.log(t)])
    family = family - family.mean(axis=1, keepdims=True)
    family /= np.linalg.norm(family, axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(family.T, full_matrices=False)
    keep = left[:, size > TREND_TOLERANCE * size[0]]
    basis, _ = np.linalg.qr(np.column_stack([np.ones_like(t), keep, t - t.mean()]))
    return basis


def schedule_trends(steps: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return what a learning rate leaves in a series (n, 3): its value, its integral, and its value lagged.

    The lag is an exponential mean over a twentieth of the run.
    """
    gaps = np.r_[0.0, np.diff(steps)]
    total = np.cumsum(gaps * (rate + np.r_[rate[0], rate[:-1]]) / 2.0)
    lagged = rate.astype(float).copy()
    keep = np.exp(-gaps / (0.05 * (steps[-1] - steps[0])))
    for i in range(1, len(rate)):
        lagged[i] = keep[i] * lagged[i - 1] + (1.0 - keep[i]) * rate[i]
    return np.column_stack([rate, total, lagged])


def _joined(core: np.ndarray, more: np.ndarray) -> np.ndarray:
    more = more - more.mean(axis=0)
    more = more / np.maximum(np.linalg.norm(more, axis=0), 1e-300)
    left, power, _ = np.linalg.svd(more - core @ (core.T @ more), full_matrices=False)
    basis, _ = np.linalg.qr(np.column_stack([core, left[:, power > 1e-6]]))
    return basis


def _smooth_family(steps: np.ndarray) -> np.ndarray:
    u = (steps - steps[0]) / (steps[-1] - steps[0])
    logs = np.log((steps - steps[0]) / np.diff(steps).min() + 1.0)
    curves = [np.exp(-u / rate) for rate in _RATES]
    curves += [_sigmoid((x - c) / w) for x in (u, logs / logs[-1]) for c in _PLACES for w in _WIDTHS]
    return np.stack(curves, axis=1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


@njit(cache=True)
def _whiten(values, basis, sizes, most, holes):  # type: ignore[no-untyped-def]
    """Whiten each row of `values` (columns, n) under every size of trend; keep the least score."""
    columns, n = values.shape
    e, left = np.empty((columns, n)), np.empty((columns, n))
    place, order = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    kept = np.empty(columns)
    for j in range(columns):
        best = np.inf
        for i in range(len(sizes)):
            score, p, w, h, power = _fitted(values[j], basis, sizes[i], most, holes)
            if i == 0:
                kept[j] = power
            if score < best:
                best = score
                e[j], left[j], place[j], order[j] = w, h, i, p
    return e, left, place, order, kept


@njit(cache=True)
def _fitted(x, basis, size, most, holes):  # type: ignore[no-untyped-def]
    """Return score, order, innovations, what is left of each, and the power that the trend leaves of x."""
    n = len(x)
    w = np.empty((size + 1, n))
    for k in range(size):
        w[k] = basis[k]
    w[size] = x
    for k in range(size):
        w[size] -= np.dot(w[k], w[size]) * w[k]
    rest = w[size].copy()
    power = np.dot(rest, rest) / n
    if power <= 1e-20:
        return -1e300, 0, rest, np.ones(n), power
    free = n - size
    p, h = 0, np.ones(n)
    filled = w.copy()
    filled[:size] *= np.sqrt(power * n / free)
    for _ in range(ROUNDS):
        reflection, p = _burg(filled, free, most)
        for k in range(size):
            w[k] = _filtered(basis[k], reflection, p)
        w[size] = _filtered(x, reflection, p)
        h = _project(w)
        sigma = np.sqrt(np.dot(w[size], w[size]) / free)
        for k in range(size):
            filled[k] = sigma * _unfiltered(w[k], reflection, p)
        filled[size] = _unfiltered(w[size], reflection, p)
    determinant, scale = 0.0, 1.0
    for m in range(p - 1, -1, -1):
        scale /= 1.0 - reflection[m] ** 2
        determinant += np.log(scale)
    count, known = size - holes + p + 1, n - holes
    score = known * np.log(np.dot(w[size], w[size]) / known) + determinant
    score += PENALTY * count * known / max(known - count - 1, 0.1)
    return score, p, w[size], h, power


@njit(cache=True)
def _burg(x, free, most):  # type: ignore[no-untyped-def]
    """Return Burg's reflection coefficients of the rows of x together, and the order with the least AICc."""
    n = x.shape[1]
    forward, backward = x.copy(), x.copy()
    reflection = np.zeros(most + 1)
    variance = np.sum(x * x) / n
    best, order = free * np.log(variance) + free * free / (free - 2.0), 0
    for m in range(1, most + 1):
        if free - m - 2 < 2:
            break
        across = below = 0.0
        for i in range(len(x)):
            f, b = forward[i, m:], backward[i, m - 1 : n - 1]
            across += np.dot(f, b)
            below += np.dot(f, f) + np.dot(b, b)
        k = min(max(2.0 * across / below if below > 0 else 0.0, -0.9999), 0.9999)
        reflection[m - 1] = k
        for i in range(len(x)):
            old = forward[i, m:].copy()
            forward[i, m:] -= k * backward[i, m - 1 : n - 1]
            backward[i, m:] = backward[i, m - 1 : n - 1] - k * old
        variance *= 1.0 - k * k
        score = free * np.log(variance) + free * (free + m) / (free - m - 2.0)
        if score < best:
            best, order = score, m
    return reflection, order


@njit(cache=True)
def _next(a, reflection, m):  # type: ignore[no-untyped-def]
    """Turn the predictor of order m - 1 in a[:m - 1] into that of order m (Levinson)."""
    old = a[: m - 1].copy()
    for i in range(m - 1):
        a[i] = old[i] - reflection[m - 1] * old[m - 2 - i]
    a[m - 1] = reflection[m - 1]


@njit(cache=True)
def _starts(reflection, order):  # type: ignore[no-untyped-def]
    """Return the standard deviations of the predictors of order 0 .. order, that of the last being 1."""
    out = np.ones(order + 1)
    for m in range(order - 1, -1, -1):
        out[m] = out[m + 1] / np.sqrt(1.0 - reflection[m] ** 2)
    return out


@njit(cache=True)
def _filtered(x, reflection, order):  # type: ignore[no-untyped-def]
    """Return the innovations of x under a stationary autoregression, the first ones by shorter predictors."""
    n = len(x)
    out = x.copy()
    a, size = np.zeros(order + 1), _starts(reflection, order)
    for t in range(min(order, n)):
        if t > 0:
            _next(a, reflection, t)
        for i in range(t):
            out[t] -= a[i] * x[t - 1 - i]
        out[t] /= size[t]
    if order > 0:
        _next(a, reflection, order)
    for i in range(order):
        out[order:] -= a[i] * x[order - 1 - i : n - 1 - i]
    return out


@njit(cache=True)
def _unfiltered(e, reflection, order):  # type: ignore[no-untyped-def]
    """Return the series whose innovations are e."""
    n = len(e)
    out = e.copy()
    a, size = np.zeros(order + 1), _starts(reflection, order)
    for t in range(n):
        m = min(t, order)
        if 0 < t <= order:
            _next(a, reflection, m)
        out[t] *= size[m]
        for i in range(m):
            out[t] += a[i] * out[t - 1 - i]
    return out


@njit(cache=True)
def _project(w):  # type: ignore[no-untyped-def]
    """Make the rows of `w` but the last orthonormal, project it off them; return what is left."""
    last = len(w) - 1
    left = np.ones(w.shape[1])
    for k in range(last):
        for i in range(k):
            w[k] -= np.dot(w[i], w[k]) * w[i]
        size = np.sqrt(np.dot(w[k], w[k]))
        w[k] /= max(size, 1e-12)
        left -= w[k] * w[k]
    for k in range(last):
        w[last] -= np.dot(w[k], w[last]) * w[k]
    return np.maximum(left, 1e-6)
