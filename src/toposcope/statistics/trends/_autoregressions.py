"""The kernels of whitening: trends and an autoregression, fitted in turns to one series."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.statistics.medians import median

ROUNDS = 3
"""How often persistence and trend are estimated alternately."""
_UNIT = 1.0 - 1e-9
"""The first reflection coefficient of a unit root; it keeps the filtered constant's norm above rounding."""
JUMP = 5.0
"""A unit root would turn a transition into one innovation; if one is this large, differences are not used."""
PENALTY = 4.0
"""The penalty per parameter in -2 log likelihood, times n / (n - parameters - 1): AICc has 2, BIC log n."""
HOLE = 1e-6
"""The share of an innovation that is left where a checkpoint is missing."""
_FAST = {"reassoc", "contract", "nsz"}
"""Sums may be reordered, so that they are vectorised."""


@kernel
def whitened_rows(values, basis, sizes, most, holes, units):  # type: ignore[no-untyped-def]
    """Whiten each row of `values` (columns, n) by every size of trend and root; keep the smallest score."""
    columns, n = values.shape
    e, left = np.empty((columns, n)), np.empty((columns, n))
    place, order = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    powers, trace = np.empty(columns), np.zeros((columns, most))
    for j in range(columns):
        best = np.inf
        for i in range(len(sizes)):
            for unit in range(2 if units else 1):
                fit = fitted(values[j], basis[: sizes[i]], most, holes, sizes[0], unit)
                score, p, w, h, traced, power = fit
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


@inner_kernel
def _jumps(e):  # type: ignore[no-untyped-def]
    """Return whether one of the innovations stands out by `JUMP` robust standard deviations."""
    sizes = np.empty(len(e))
    largest = 0.0
    for t in range(len(e)):
        sizes[t] = abs(e[t])
        largest = max(largest, sizes[t])
    return largest > JUMP / 0.6745 * median(sizes)


@kernel
def fitted(x, basis, most, holes, core, unit):  # type: ignore[no-untyped-def]
    """Return score, order, innovations, the share left of each, the trace, and the power given the trend.

    The first `core` rows of the basis (the holes, then the core) are integrated out of the likelihood.
    """
    size, n = basis.shape
    free, degrees = n - size, n - core
    w, filled = np.empty((size + 1, n)), np.empty((size + 1, n))
    forward, backward = np.empty((size + 1, n)), np.empty((size + 1, n))
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
    spread = volume = 0.0
    for m in range(len(sizes)):
        spread += np.log(sizes[m])
    for k in range(core):
        volume += logs[k]
    score = degrees * np.log(_dot(w[size], w[size]) / degrees) + 2.0 * spread + volume
    score += PENALTY * count * degrees / max(degrees - count - 1, 0.1)
    return score, p, w[size], left, _trace(w[:size], most, free), power


@inner_kernel
def _scaled(x, scale, out):  # type: ignore[no-untyped-def]
    """Put scale * x in out, element by element, because slices take seconds to compile."""
    for t in range(len(x)):
        out[t] = scale * x[t]


@inner_kernel(fastmath=_FAST)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@kernel
def orthonormal(rows):  # type: ignore[no-untyped-def]
    """Return an orthonormal basis of the rows in their order, by Gram-Schmidt steps done twice."""
    basis = rows.copy()
    for k in range(len(basis)):
        for _ in range(2):
            for i in range(k):
                _off(basis[i], basis[k])
            _scaled(basis[k], 1.0 / np.sqrt(_dot(basis[k], basis[k])), basis[k])
    return basis


@inner_kernel(fastmath=_FAST)
def _off(q, x):  # type: ignore[no-untyped-def]
    """Project the unit vector q off x."""
    part = _dot(q, x)
    for t in range(len(x)):
        x[t] -= part * q[t]


@inner_kernel(fastmath=_FAST)
def _burg(x, forward, backward, free, most, unit):  # type: ignore[no-untyped-def]
    """Return Burg's reflection coefficients of the rows of x together, and the order with the smallest AICc.

    With a `unit` root, the first coefficient is 1. `forward` and `backward` are work space.
    """
    rows, n = x.shape
    for i in range(rows):
        _scaled(x[i], 1.0, forward[i])
        _scaled(x[i], 1.0, backward[i])
    reflection = np.zeros(most + 1)
    variance = _squares(x, 0) / n
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
            variance = _squares(forward, 1) / (n - 1)
        score = free * np.log(variance) + free * (free + m) / (free - m - 2.0)
        if score < best:
            best, order = score, m
    return reflection, order


@inner_kernel
def _squares(x, first):  # type: ignore[no-untyped-def]
    """Return the sum of squares from column `first` on, in the order of the rows."""
    total = 0.0
    for i in range(len(x)):
        for t in range(first, x.shape[1]):
            total += x[i, t] * x[i, t]
    return total


@inner_kernel
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


@inner_kernel(fastmath=_FAST)
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


@inner_kernel(fastmath=_FAST)
def _unfiltered(e, out, a, sizes, order):  # type: ignore[no-untyped-def]
    """Put the series with the innovations e in out."""
    for t in range(len(e)):
        m = min(t, order)
        total = e[t] * sizes[m]
        for i in range(m):
            total += a[m, i] * out[t - 1 - i]
        out[t] = total


@inner_kernel(fastmath=_FAST)
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
    for t in range(len(left)):
        left[t] = max(left[t], HOLE)
    return left


@inner_kernel(fastmath=_FAST)
def _trace(w, lags, free):  # type: ignore[no-untyped-def]
    """Return the autocorrelation, lags 1 .., of white noise projected off the orthonormal rows of w."""
    out = np.zeros(lags)
    for k in range(1, lags + 1):
        for row in w:
            out[k - 1] -= _dot(row[k:], row[: len(row) - k]) / free
    return out
