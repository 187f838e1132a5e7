"""Removes the smooth trend and the persistence of each series, before two of them are compared.

The correlation of two persistent series says little. The correlation of the parts that their own past does
not explain says much (Box and Jenkins 1970; Haugh 1976). For every series separately:

1. Trend. The core is a constant, a line in the step, the leading principal functions of {t^-b, log t} and, if
   known, the learning rate, its integral and its lagged value. At uneven steps it also has powers and the
   logarithm of the row number, because logs are smoothed by rows. Beyond the core, there is a nested family
   of smooth functions: the principal functions of exponentials in the step and of sigmoids in the step and
   its logarithm.
2. Persistence. An autoregression of order p by Burg's method on the residual of the trend, with p by AICc.
   What the trend removed is restored in expectation: each trend function enters as a separate segment, scaled
   by the noise (the E step of restricted maximum likelihood). Otherwise the hole that a projection leaves in
   the spectrum would count as persistence. If no checkpoint is missing, an autoregression of the differences
   (a unit root; Box and Jenkins) is the other candidate: its first reflection coefficient is 1, and the
   constant takes the first value.
3. Trend again, by generalised least squares under that autoregression; steps 2 and 3 are done three times.
4. A penalised likelihood of the whole model, restricted to what the core and the missing values leave,
   chooses how many functions of the nested family are used, and whether there is a unit root. A smooth series
   uses many functions, a noisy one none. (Without the restriction a walk would use more trend than it has,
   because its persistence is underestimated with a trend.)

If checkpoints are missing from an even grid, a persistence counted in checkpoints would be wrong. So the
series is placed on the full grid, and every hole has its own regressor: least squares with missing values.

The results are the standardised innovations e (n,) and h (n,), the share of each that the projection left.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from toposcope.core.threads import row_blocks, run_blocks
from toposcope.statistics.trends.basis import trend_family

MOST_ORDER = 12
"""The largest order of an autoregression from 60 checkpoints on; with fewer, a fifth of their number."""
ROUNDS = 3
"""How often persistence and trend are estimated alternately."""
SHORT = 40
"""With fewer checkpoints, the order of an autoregression is poorly determined."""
_UNIT = 1.0 - 1e-9
"""The first reflection coefficient of a unit root; it keeps the filtered constant's norm above rounding."""
JUMP = 5.0
"""A unit root would turn a transition into one innovation; if one is this large, differences are not used."""
UNEVEN = 2.0
"""Steps are uneven if the largest gap exceeds the smallest by this factor."""
PENALTY = 4.0
"""The penalty per parameter in -2 log likelihood, times n / (n - parameters - 1): AICc has 2, BIC log n."""
_MOST_CACHED = 2048
"""More than the series of a store; simulations would fill the memory."""
_CACHE: dict[bytes, tuple[np.ndarray, ...]] = {}
"""Recently whitened series, by the digest of their values and of the trends."""
_FAST = {"reassoc", "contract", "nsz"}
"""Sums may be reordered, so that they are vectorised."""


@dataclass(frozen=True, slots=True)
class Whitened:
    """Innovations `e` and what the projection `left` of each, both (n, columns).

    `trace` (lags, columns) is the autocorrelation that the projection alone gives white series. n counts the
    positions of `steps`, holes included, and `count` the existing ones. Per column there are the number of
    `trends`, the `order`, and whether the family of trends was `exhausted`; `choices` is the number of trend
    sizes to choose from.
    """

    e: np.ndarray
    left: np.ndarray
    trace: np.ndarray
    trends: np.ndarray
    order: np.ndarray
    exhausted: np.ndarray
    steps: np.ndarray
    count: int
    choices: int

    def taken(self, at: np.ndarray) -> Whitened:
        """Return the columns `at`."""
        columns = {
            name: getattr(self, name)[..., at]
            for name in ("e", "left", "trace", "trends", "order", "exhausted")
        }
        return replace(self, **columns)


def whiten(values: np.ndarray, steps: np.ndarray, rate: np.ndarray | None = None) -> Whitened:
    """Whiten each column of `values` (n, columns) at distinct ascending `steps`.

    `rate` (n,) is the learning rate, or None. A column that its trend explains up to rounding errors has no
    innovations: NaN.
    """
    steps = np.asarray(steps, float)
    there, basis, sizes = _layout(steps, rate)
    centred = values - values.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    whole = np.zeros((values.shape[1], len(there)))
    whole[:, there] = (centred / np.where(scale > 0, scale, 1.0)).T
    holes, most = int(np.count_nonzero(~there)), most_order(len(steps))
    units = holes == 0
    e, left, trace, place, order, power = _known(whole, basis, sizes + holes, most, holes, units)
    dust = (power <= 1e-20) | ~(scale > 0)
    e[dust] = np.nan
    return Whitened(
        e=e.T,
        left=left.T,
        trace=trace.T,
        trends=sizes[place],
        order=order,
        exhausted=place == len(sizes) - 1,
        steps=full_steps(steps),
        count=len(steps),
        choices=len(sizes),
    )


def _known(
    whole: np.ndarray, basis: np.ndarray, sizes: np.ndarray, most: int, holes: int, units: bool
) -> list[np.ndarray]:
    """Return the result of `_whiten`, computed once per series.

    Each feature is compared with several targets, and in several tables.
    """
    if len(whole) > _MOST_CACHED:  # a simulation: no series comes again
        return list(_whiten(whole, basis, sizes, most, holes, units))
    design = hashlib.blake2b(
        basis.tobytes() + sizes.tobytes() + repr((most, holes, units)).encode(), digest_size=16
    )
    keys = []
    for row in whole:
        series = design.copy()
        series.update(row.tobytes())
        keys.append(series.digest())
    found = {key: known for key in keys if (known := _CACHE.get(key)) is not None}
    new = [j for j, key in enumerate(keys) if key not in found]
    rows = np.ascontiguousarray(whole[new])
    parts = run_blocks(
        lambda at: _whiten(rows[at[0] : at[1]], basis, sizes, most, holes, units), row_blocks(len(rows))
    )
    made = [np.concatenate(part) for part in zip(*parts, strict=True)]
    for i, j in enumerate(new):
        found[keys[j]] = tuple(part[i].copy() for part in made)
    for key in dict.fromkeys(keys):
        _CACHE.pop(key, None)
        _CACHE[key] = found[key]  # move to the end: the least recently used go first
    while len(_CACHE) > _MOST_CACHED:
        _CACHE.pop(next(iter(_CACHE)), None)
    return [np.array(column) for column in zip(*(found[key] for key in keys), strict=True)]


def full_steps(steps: np.ndarray) -> np.ndarray:
    """Return the steps, filled up to an even grid if it has at most twice as many.

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


def uneven_steps(steps: np.ndarray) -> bool:
    """Return whether the largest gap between these steps is more than `UNEVEN` times the smallest.

    >>> uneven_steps(np.arange(5)), uneven_steps(2.0 ** np.arange(5))
    (False, True)
    """
    gaps = np.diff(steps)
    return bool(gaps.max() > UNEVEN * gaps.min())


def _layout(steps: np.ndarray, rate: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which of the full steps exist, the trends on them after one row per hole, and the sizes."""
    full = full_steps(steps)
    basis, sizes = trend_family(steps, rate, rows=uneven_steps(full))
    there = np.isin(full, steps)
    if there.all():
        return there, basis, sizes
    whole = np.zeros((np.count_nonzero(~there) + len(basis), len(there)))
    whole[np.arange(np.count_nonzero(~there)), np.flatnonzero(~there)] = 1.0
    whole[np.count_nonzero(~there) :, there] = basis
    return there, whole, sizes


def most_order(n: int) -> int:
    """Return the largest autoregressive order tried: n // 5, at most 12."""
    return min(n // 5, MOST_ORDER)


@njit(cache=True, nogil=True)
def _whiten(values, basis, sizes, most, holes, units):  # type: ignore[no-untyped-def]
    """Whiten each row of `values` (columns, n) by every size of trend and root; keep the smallest score."""
    columns, n = values.shape
    e, left = np.empty((columns, n)), np.empty((columns, n))
    place, order = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    powers, trace = np.empty(columns), np.zeros((columns, most))
    for j in range(columns):
        best = np.inf
        for i in range(len(sizes)):
            for unit in range(2 if units else 1):
                fitted = _fitted(values[j], basis[: sizes[i]], most, holes, sizes[0], unit)
                score, p, w, h, traced, power = fitted
                if i == 0:
                    powers[j] = power
                if unit and _jumps(w):
                    continue
                if score < best:
                    best = score
                    _scaled(w, 1.0, e[j])
                    _scaled(h, 1.0, left[j])
                    _scaled(traced, 1.0, trace[j])
                    place[j], order[j] = i, p
    return e, left, trace, place, order, powers


@njit(cache=True)
def _jumps(e):  # type: ignore[no-untyped-def]
    """Return whether one of the innovations stands out by `JUMP` robust standard deviations."""
    sizes = np.abs(e)
    return sizes.max() > JUMP / 0.6745 * np.median(sizes)


@njit(cache=True)
def _fitted(x, basis, most, holes, core, unit):  # type: ignore[no-untyped-def]
    """Return score, order, innovations, the share left of each, the trace, and the power given the trend.

    The first `core` rows of the basis (the holes, then the core) are integrated out of the likelihood.
    """
    size, n = basis.shape
    free, known = n - size, n - core
    w, filled = np.empty((size + 1, n)), np.empty((size + 1, n))
    forward, backward = np.empty_like(w), np.empty_like(w)
    _scaled(x, 1.0, filled[size])
    for k in range(size):
        _off(basis[k], filled[size])
    rest = filled[size].copy()
    power = _dot(rest, rest) / n
    if power <= 1e-20:
        return -1e300, 0, rest, np.ones(n), np.zeros(most), power
    scale = np.sqrt(power * n / free)
    for k in range(size):
        _scaled(basis[k], scale, filled[k])
    reflection, p = _burg(filled, forward, backward, free, most, unit)
    left, logs = np.ones(n), np.zeros(size)
    for turn in range(ROUNDS):
        a, sizes = _predictors(reflection, p)
        for k in range(size):
            _filtered(basis[k], w[k], a, sizes, p)
        _filtered(x, w[size], a, sizes, p)
        left = _project(w, logs)
        if p == 0 or turn == ROUNDS - 1:
            break  # without persistence, another round changes nothing
        for k in range(size + 1):
            _unfiltered(w[k], filled[k], a, sizes, p)
        scale = np.sqrt(_dot(w[size], w[size]) / free)
        for k in range(size):
            _scaled(filled[k], scale, filled[k])
        reflection, p = _burg(filled, forward, backward, free, most, unit)
    count = size - core + p + 1 - unit
    score = known * np.log(_dot(w[size], w[size]) / known) + 2.0 * np.log(sizes).sum() + logs[:core].sum()
    score += PENALTY * count * known / max(known - count - 1, 0.1)
    return score, p, w[size], left, _trace(w[:size], most, free), power


@njit(cache=True)
def _scaled(x, scale, out):  # type: ignore[no-untyped-def]
    """Put scale * x in out, element by element, because slices take seconds to compile."""
    for t in range(len(x)):
        out[t] = scale * x[t]


@njit(cache=True, fastmath=_FAST)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@njit(cache=True, fastmath=_FAST)
def _off(q, x):  # type: ignore[no-untyped-def]
    """Project the unit vector q off x."""
    part = _dot(q, x)
    for t in range(len(x)):
        x[t] -= part * q[t]


@njit(cache=True, fastmath=_FAST)
def _burg(x, forward, backward, free, most, unit):  # type: ignore[no-untyped-def]
    """Return Burg's reflection coefficients of the rows of x together, and the order with the smallest AICc.

    With a `unit` root, the first coefficient is 1. `forward` and `backward` are work space.
    """
    rows, n = x.shape
    for i in range(rows):
        _scaled(x[i], 1.0, forward[i])
        _scaled(x[i], 1.0, backward[i])
    reflection = np.zeros(most + 1)
    variance = np.sum(x * x) / n
    best, order = np.inf if unit else free * np.log(variance) + free * free / (free - 2.0), 0
    for m in range(1, most + 1):
        if free - m - 2 < 2:
            break
        across = below = 0.0
        for i in range(rows):
            f, b = forward[i, m:], backward[i]
            for s in range(n - m):
                across += f[s] * b[s]
                below += f[s] * f[s] + b[s] * b[s]
        k = min(max(2.0 * across / below if below > 0 else 0.0, -0.9999), 0.9999)
        if unit and m == 1:
            k = _UNIT
        reflection[m - 1] = k
        for i in range(rows):
            f, b = forward[i, m:], backward[i]
            for s in range(n - m):
                old = f[s]
                f[s] -= k * b[s]
                b[s] -= k * old
        variance *= 1.0 - k * k
        if unit and m == 1:
            variance = np.sum(forward[:, 1:] ** 2) / (n - 1)
        score = free * np.log(variance) + free * (free + m) / (free - m - 2.0)
        if score < best:
            best, order = score, m
    return reflection, order


@njit(cache=True)
def _predictors(reflection, order):  # type: ignore[no-untyped-def]
    """Return the predictors of order 0 .. order as rows, and their standard deviations; the last one is 1."""
    a = np.zeros((order + 1, order))
    for m in range(1, order + 1):
        for i in range(m - 1):
            a[m, i] = a[m - 1, i] - reflection[m - 1] * a[m - 1, m - 2 - i]
        a[m, m - 1] = reflection[m - 1]
    sizes = np.ones(order + 1)
    for m in range(order - 1, -1, -1):
        sizes[m] = sizes[m + 1] / np.sqrt(1.0 - reflection[m] ** 2)
    return a, sizes


@njit(cache=True, fastmath=_FAST)
def _filtered(x, out, a, sizes, order):  # type: ignore[no-untyped-def]
    """Put the innovations of x under a stationary autoregression in out; the first use shorter predictors."""
    n = len(x)
    _scaled(x, 1.0, out)
    for t in range(min(order, n)):
        for i in range(t):
            out[t] -= a[t, i] * x[t - 1 - i]
        out[t] /= sizes[t]
    for i in range(order):
        weight = a[order, i]
        for t in range(order, n):
            out[t] -= weight * x[t - 1 - i]


@njit(cache=True, fastmath=_FAST)
def _unfiltered(e, out, a, sizes, order):  # type: ignore[no-untyped-def]
    """Put the series with the innovations e in out."""
    for t in range(len(e)):
        m = min(t, order)
        total = e[t] * sizes[m]
        for i in range(m):
            total += a[m, i] * out[t - 1 - i]
        out[t] = total


@njit(cache=True, fastmath=_FAST)
def _project(w, logs):  # type: ignore[no-untyped-def]
    """Make all rows of `w` but the last orthonormal, project the last off them; return the shares left.

    `logs` receives the logarithm of each row's power before normalisation; their sum is the log determinant.
    """
    last = len(w) - 1
    left = np.ones(w.shape[1])
    for k in range(last):
        for i in range(k):
            _off(w[i], w[k])
        size = max(np.sqrt(_dot(w[k], w[k])), 1e-12)
        logs[k] = 2.0 * np.log(size)
        for t in range(len(left)):
            w[k, t] /= size
            left[t] -= w[k, t] * w[k, t]
    for k in range(last):
        _off(w[k], w[last])
    return np.maximum(left, 1e-6)


@njit(cache=True, fastmath=_FAST)
def _trace(w, lags, free):  # type: ignore[no-untyped-def]
    """Return the autocorrelation, lags 1 .., of white noise projected off the orthonormal rows of w."""
    out = np.zeros(lags)
    for k in range(1, lags + 1):
        for row in w:
            out[k - 1] -= _dot(row[k:], row[: len(row) - k]) / free
    return out
