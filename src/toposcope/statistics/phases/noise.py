"""The noise of one series' changes: its sizes along training, its persistence, and how to whiten it.

The changes of a series without a trend are modelled as sizes times u. u is the sum of the steps of a walk (an
autoregression of order 1 with coefficient phi and innovations of variance 1) and of white noise in the series
itself, whose changes have the covariance r (2, -1). White noise, a walk, a walk measured with error and a
smooth drift are special cases. Noise that slowly returns to a mean is treated as a walk, and alternating
noise as white noise; both errors are conservative. Sizes are fitted to log contrasts of neighbours, (phi, r)
by restricted maximum likelihood over `MODELS`.

Whitening is exact and takes a dozen operations per value: after x_t - phi x_(t-1) the covariance is banded.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.statistics.medians import median

# From white noise to slow drifts, and random walks under little to much white noise.
_PHI = (0.0, 0.3, 0.6, 0.8, 0.93)
_WHITE = (0.4, 2.0, 8.0, 30.0, 120.0)
MODELS = np.array([*((phi, 1.0, 0.0) for phi in _PHI), *((0.0, 1.0, r) for r in _WHITE), (0.0, 0.0, 1.0)])
"""phi, variance of the innovations, and r, (models, 3); the last is white noise in the series itself."""
VARIANCE = MODELS[:, 1] / (1.0 - MODELS[:, 0] ** 2) + 2.0 * MODELS[:, 2]
"""The variance of one change under each model."""
PERSISTENCE = (MODELS[:, 0] * MODELS[:, 1] / (1.0 - MODELS[:, 0] ** 2) - MODELS[:, 2]) / VARIANCE
"""The correlation of neighbouring changes under each model."""
_FLOOR = 1e-3
"""Sizes below this share of the median are raised to it: counts have changes of zero."""
_DEEPEST = 2.5
"""Log contrasts further below their median (from zero changes of counts) are set to this distance."""
_SPREAD, _SPREAD_OF_ROOT = 1.23, 0.72
"""Variance of the log size of a normal value, from its logarithm and from the square root of its size."""
_WILD = 2.5
"""Whitened changes beyond this many sizes are clipped before the noise is measured."""
_AT_ONCE = 32
"""The number of rows that are whitened side by side."""
_TINY = 1e-10
"""A residual of a row below this share of the whole is rounding error."""


def covariances(model: int, n: int) -> np.ndarray:
    """Return the covariances of a change with itself and the next n - 1 ones under a model, (n,)."""
    phi, innovation, error = MODELS[model]
    out = innovation * phi ** np.arange(n) / (1.0 - phi * phi)
    out[0] += 2.0 * error
    out[1:2] -= error
    return np.asarray(out)


@kernel
def factors(n, models):  # type: ignore[no-untyped-def]
    """Return phi and the banded Cholesky factor of each model for n changes, (models, n, 4), and log det."""
    out, logs = np.zeros((len(models), n, 4)), np.zeros(len(models))
    for g in range(len(models)):
        phi, innovation, white = models[g]
        for t in range(n):
            if t == 0:
                whole, lag_one, two = innovation / (1.0 - phi * phi) + 2.0 * white, 0.0, 0.0
            else:
                whole = innovation + white * (2.0 + 2.0 * phi + 2.0 * phi * phi)
                lag_one = -white * (1.0 + phi) ** 2 if t > 1 else -white * (1.0 + 2.0 * phi)
                two = phi * white if t > 1 else 0.0
            c2 = two / out[g, t - 2, 3] if t > 1 else 0.0
            c1 = (lag_one - c2 * out[g, t - 1, 1]) / out[g, t - 1, 3] if t > 0 else 0.0
            last = np.sqrt(whole - c1 * c1 - c2 * c2)
            out[g, t, 0], out[g, t, 1], out[g, t, 2], out[g, t, 3] = phi, c1, c2, last
            logs[g] += 2.0 * np.log(last)
    return out, logs


@kernel
def whitened(rows, factor):  # type: ignore[no-untyped-def]
    """Return rows (k, n) whitened by one model's `factors` (n, 4)."""
    k, n = rows.shape
    out, wide = np.empty((k, n)), min(k // 8 * 8 + 8, _AT_ONCE)
    given, output = np.zeros((n, wide)), np.zeros((n, wide))
    for first in range(0, k, wide):  # each value needs the previous one, so rows are processed side by side
        last = min(first + wide, k)
        for j in range(first, last):
            for t in range(n):
                given[t, j - first] = rows[j, t]
        for t in range(n):
            first_lag, second_lag, two, size = factor[t, 0], factor[t, 1], factor[t, 2], factor[t, 3]
            before, now, new = given[max(t - 1, 0)], given[t], output[t]
            back, further = output[max(t - 1, 0)], output[max(t - 2, 0)]
            if t == 0:
                for j in range(wide):
                    new[j] = now[j] / size
            else:  # the factors do not reach beyond the beginning: `two` of the second value is 0
                for j in range(wide):
                    new[j] = (
                        now[j] - (first_lag * before[j] + second_lag * back[j]) - two * further[j]
                    ) / size
        for j in range(first, last):
            for t in range(n):
                out[j, t] = output[t, j - first]
    return out


@inner_kernel
def subtract(unit, row):  # type: ignore[no-untyped-def]
    """Project a unit vector off a row, in place; element by element, because slices compile slowly."""
    part = np.dot(unit, row)
    for t in range(len(row)):
        row[t] -= part * unit[t]


@inner_kernel
def orthonormal(rows):  # type: ignore[no-untyped-def]
    """Make the rows orthonormal in place by Gram-Schmidt (dependent ones 0); return rank and log volume."""
    count, volume = 0, 0.0
    for j in range(len(rows)):
        whole = np.dot(rows[j], rows[j])
        for i in range(j):
            subtract(rows[i], rows[j])
        left = np.dot(rows[j], rows[j])
        if left > _TINY * whole:
            for i in range(j):
                subtract(rows[i], rows[j])
            size = np.sqrt(np.dot(rows[j], rows[j]))
            for t in range(rows.shape[1]):
                rows[j, t] /= size
            count += 1
            volume += np.log(left)
        else:
            for t in range(rows.shape[1]):
                rows[j, t] = 0.0
    return count, volume


@inner_kernel
def rest(z, basis):  # type: ignore[no-untyped-def]
    """Project z off orthonormal rows, in place."""
    for j in range(len(basis)):
        subtract(basis[j], z)


@inner_kernel
def _smoothed(size, width):  # type: ignore[no-untyped-def]
    """Return the mean of `size` (n - 1,) around each of n changes, which lie between two of them.

    The weight falls like a parabola to 0 at a distance of `width` + 1; the loop runs over the neighbours.
    """
    n = len(size) + 1
    up, down = np.zeros(n), np.zeros(n)
    for k in range(-1 - width, width + 1):
        weight = 1.0 - (abs(k + 0.5) / (width + 1.0)) ** 2
        for i in range(max(-k, 0), min(n - 1 - k, n)):
            up[i] += weight * size[i + k]
            down[i] += weight
    for i in range(n):
        up[i] /= down[i]
    return up


@kernel
def sizes(change, rows, clock, logs):  # type: ignore[no-untyped-def]
    """Return the size of each change (n,), with geometric mean 1: a power of the step times a smoother."""
    n = len(change)
    sigma, width = np.ones(n), max(n // 5, 6)
    for _ in range(2):
        size = _contrasts(change, rows, sigma, clock)
        floor = _FLOOR * median(size)
        if not floor > 0:
            return np.ones(n)
        slope = _growth(size, floor, logs)
        sigma = _smoothed(size, width)
        for i in range(n):
            sigma[i] = 2.0 * np.log(sigma[i] + 1e-300)
        _shift(sigma)
        by_chance = _SPREAD_OF_ROOT / (1.2 * width)
        spread = 0.0
        for i in range(n):
            spread += sigma[i] * sigma[i]
        spread /= n
        for i in range(n):
            sigma[i] *= max(1.0 - by_chance / max(spread, 1e-300), 0.0)
            sigma[i] += slope * 0.5 * (logs[i] + logs[i + 1])
        _shift(sigma)
        for i in range(n):
            sigma[i] = np.exp(sigma[i])
    return sigma


@inner_kernel
def _contrasts(change, rows, sigma, clock):  # type: ignore[no-untyped-def]
    """Return the size of each contrast of neighbours (n - 1,) in what the rows leave of the changes."""
    n = len(change)
    basis, left, size = np.empty(rows.shape), np.empty(n), np.empty(n - 1)
    for i in range(n):
        left[i] = change[i] / sigma[i]
        for j in range(len(rows)):
            basis[j, i] = rows[j, i] / sigma[i]
    orthonormal(basis)
    rest(left, basis)
    for i in range(n):
        left[i] *= sigma[i]
    for i in range(n - 1):
        x, y = clock[i], clock[i + 1]
        size[i] = abs(left[i + 1] * x - left[i] * y) / np.sqrt(x * x + y * y)
    return size


@inner_kernel
def _growth(size, floor, logs):  # type: ignore[no-untyped-def]
    """Return the power of the step by which the sizes grow; leave the root of each size without it."""
    at, log_size = logs[1 : len(size) + 1].copy(), np.empty(len(size))
    _shift(at)
    for i in range(len(size)):
        log_size[i] = np.log(size[i] + floor)
    least = median(log_size) - _DEEPEST
    for i in range(len(size)):
        log_size[i] = max(log_size[i], least)
    squares = along = 0.0
    for i in range(len(size)):
        squares += at[i] * at[i]
        along += at[i] * log_size[i]
    slope = along / squares
    slope *= max(1.0 - _SPREAD / squares / max(slope * slope, 1e-300), 0.0)
    for i in range(len(size)):
        size[i] = np.sqrt(size[i] * np.exp(-slope * at[i]))
    return slope


@inner_kernel
def _shift(values):  # type: ignore[no-untyped-def]
    """Subtract the mean, in place."""
    mean = 0.0
    for i in range(len(values)):
        mean += values[i]
    mean /= len(values)
    for i in range(len(values)):
        values[i] -= mean


@kernel
def calmed(z, left, factor):  # type: ignore[no-untyped-def]
    """Return z with its extreme innovations clipped: `left`, whitened by `factor`, beyond `_WILD` sizes.

    The size is the median or, if larger, seven tenths of the root mean square, because most changes of a
    count are 0.
    """
    squares, n = 0.0, len(z)
    for t in range(n):
        squares += left[t] * left[t]
    size = max(median(np.abs(left)) / 0.6745, 0.7 * np.sqrt(squares / n))
    out = np.empty(n)
    before = previous = two = 0.0
    for t in range(n):
        excess = left[t] - min(max(left[t], -_WILD * size), _WILD * size)
        whole = factor[t, 0] * before + factor[t, 1] * previous + factor[t, 2] * two + factor[t, 3] * excess
        out[t] = z[t] - whole
        before, two, previous = whole, previous, excess
    return out


@kernel
def weights(rows, factor, log_det):  # type: ignore[no-untyped-def]
    """Return each model's log restricted likelihood of the last row given means in the other rows.

    Its scale is integrated out.
    """
    out = np.empty(len(factor))
    for g in range(len(factor)):
        white = whitened(rows, factor[g])
        basis, left = white[:-1], white[-1]
        count, volume = orthonormal(basis)
        rest(left, basis)
        out[g] = -0.5 * (
            log_det[g] + volume + (rows.shape[1] - count) * np.log(max(np.dot(left, left), 1e-300))
        )
    return out
