"""The noise of one series' changes: its sizes along training, its persistence, and how to whiten it.

The changes of a series without a trend are modelled as sizes times u. u is the sum of the steps of a walk (an
autoregression of order 1 with coefficient phi and innovations of variance 1) and of white noise in the series
itself, whose changes have the covariance r (2, -1). White noise, a walk, a walk measured with error and a
smooth drift are special cases. Noise that slowly returns to a mean is treated as a walk, and alternating
noise as white noise; both errors are conservative. Sizes are fitted to log contrasts of neighbours, (phi, r)
by restricted maximum likelihood over `MODELS`.

Whitening is exact and takes a dozen operations per value: after x_t - phi x_(t-1) the covariance is banded.

The kernels here are loops that numpy does not have; they make no array and end in no whole-array expression,
because those take most of the time of compiling. The rest is numpy, whose linear algebra gives the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def factors(n: int, models: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return phi and the banded Cholesky factor of each model for n changes, (models, n, 4), and log det."""
    out = np.array([_factor(n, *model) for model in models.tolist()]).reshape(len(models), n, 4)
    return out, np.array([total(2.0 * logarithms(sizes)) for sizes in out[:, :, 3]])


def _factor(n: int, phi: float, innovation: float, white: float) -> list[tuple[float, float, float, float]]:
    """Return phi and the factor's entries left of the diagonal and on it, nearest first, for n changes."""
    before, last, further = 0.0, 1.0, 1.0
    out = []
    for t in range(n):
        if t == 0:
            whole, lag_one, two = innovation / (1.0 - phi * phi) + 2.0 * white, 0.0, 0.0
        elif t == 1:
            whole = innovation + white * (2.0 + 2.0 * phi + 2.0 * phi * phi)
            lag_one = -white * (1.0 + 2.0 * phi)
        else:
            lag_one, two = -white * ((1.0 + phi) * (1.0 + phi)), phi * white
        c2 = two / further
        c1 = (lag_one - c2 * before) / last
        before, further, last = c1, last, math.sqrt(whole - c1 * c1 - c2 * c2)
        out.append((phi, c1, c2, last))
    return out


def whitened(rows: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return rows (k, n) whitened by the `factors` of a model (n, 4), or of several (models, n, 4)."""
    k, n = rows.shape
    out = np.empty((*factor.shape[:-2], k, n))
    work = np.zeros((2, n, min(k // 8 * 8 + 8, _AT_ONCE)))
    _whiten(rows, factor.reshape(-1, n, 4), work[0], work[1], out.reshape(-1, k, n))
    return out


@kernel
def _whiten(rows, factor, given, output, out):  # type: ignore[no-untyped-def]
    k, n, wide = len(rows), len(given), given.shape[1]
    for first in range(0, k, wide):  # each value needs the previous one, so rows are processed side by side
        count = min(k - first, wide)
        for j in range(count):
            for t in range(n):
                given[t, j] = rows[first + j, t]
        for g in range(len(factor)):
            size = factor[g, 0, 3]
            for j in range(wide):
                output[0, j] = given[0, j] / size
            for t in range(1, n):  # the factors do not reach beyond the beginning: `two` of t = 1 is 0
                row = factor[g, t]
                first_lag, second_lag, two, size = row[0], row[1], row[2], row[3]
                before, now, new = given[t - 1], given[t], output[t]
                back, further = output[t - 1], output[max(t - 2, 0)]
                for j in range(wide):
                    new[j] = (
                        now[j] - (first_lag * before[j] + second_lag * back[j]) - two * further[j]
                    ) / size
            for j in range(count):
                for t in range(n):
                    out[g, first + j, t] = output[t, j]


@dataclass(frozen=True, slots=True)
class Fit:
    """A series under several noise models, given means: whitened, and with the means taken out.

    `basis` (models, k, n) are the means, orthonormal or 0; `left` (models, n) is what they leave of the
    series, `squares` (models,) its sum of squares over `free` degrees of freedom, and `volume` (models,) the
    log determinant of noise and means.
    """

    basis: np.ndarray
    left: np.ndarray
    squares: np.ndarray
    free: np.ndarray
    volume: np.ndarray

    def under(self, models: np.ndarray | slice) -> Fit:
        """Return the fit under some of the models."""
        return Fit(
            self.basis[models], self.left[models], self.squares[models], self.free[models],
            self.volume[models],
        )  # fmt: skip

    @property
    def likelihoods(self) -> np.ndarray:
        """The log restricted likelihood of each model; its scale is integrated out."""
        return -0.5 * (self.volume + self.free * logarithms(np.maximum(self.squares, 1e-300)))

    def variance(self, model: int) -> float:
        """Return the variance of what is left under one model."""
        return max(float(self.squares[model]) / max(int(self.free[model]), 1), 1e-300)


def fitted(rows: np.ndarray, factor: np.ndarray, log_det: np.ndarray) -> Fit:
    """Fit the last row by the others under each noise model."""
    white = whitened(rows, factor)
    rank, volume = part(white, len(rows) - 1)
    left = white[:, -1]
    squares = (left[:, None] @ left[:, :, None])[:, 0, 0]
    return Fit(white[:, :-1], left, squares, rows.shape[1] - rank, log_det + volume)


def part(stack: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Make the first `count` rows of each matrix orthonormal in place, and take them out of the others.

    Rows that depend on earlier ones become 0. The rank and the log volume of each matrix (k, n) are returned.
    """
    rank, volume = np.zeros(len(stack), np.int64), np.zeros(len(stack))
    _part(stack, count, rank, volume)
    return rank, volume


@kernel
def _part(stack, count, rank, volume):  # type: ignore[no-untyped-def]
    """Do so by Gram-Schmidt steps, done twice."""
    for g in range(len(stack)):
        rows = stack[g]
        for j in range(len(rows)):
            row = rows[j]
            whole = np.dot(row, row)
            for i in range(min(j, count)):
                subtract(rows[i], row)
            if j >= count:
                continue
            left = np.dot(row, row)
            if left > _TINY * whole:
                for i in range(j):
                    subtract(rows[i], row)
                size = np.sqrt(np.dot(row, row))
                for t in range(len(row)):
                    row[t] /= size
                rank[g] += 1
                volume[g] += np.log(left)
            else:
                for t in range(len(row)):
                    row[t] = 0.0


@inner_kernel
def subtract(unit, row):  # type: ignore[no-untyped-def]
    """Project a unit vector off a row, in place; element by element, because slices compile slowly."""
    along = np.dot(unit, row)
    for t in range(len(row)):
        row[t] -= along * unit[t]


def logarithms(values: np.ndarray) -> np.ndarray:
    """Return the logarithms of values by the C library: numpy's last digit depends on the processor."""
    out = np.array(values, float, order="C")
    _logarithms(out.reshape(-1))
    return out


def exponentials(values: np.ndarray) -> np.ndarray:
    """Return the exponentials of values by the C library."""
    out = np.array(values, float, order="C")
    _exponentials(out.reshape(-1))
    return out


@kernel
def _logarithms(values):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        values[i] = np.log(values[i])


@kernel
def _exponentials(values):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        values[i] = np.exp(values[i])


def total(values: np.ndarray) -> float:
    """Return the sum of values in their order, which is the same on every processor."""
    return float(values.cumsum()[-1])


def squares_of(rows: np.ndarray) -> np.ndarray:
    """Return the sum of squares of each row (..., n), in its order."""
    out = np.empty(rows.shape[:-1])
    _squares(rows.reshape(-1, rows.shape[-1]), out.reshape(-1))
    return out


@kernel
def _squares(rows, out):  # type: ignore[no-untyped-def]
    last = len(rows) - 1
    for a in range(0, len(rows), 4):  # a sum waits for its previous value, so four are made side by side
        b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
        first = second = third = fourth = 0.0
        for t in range(rows.shape[1]):
            first += rows[a, t] * rows[a, t]
            second += rows[b, t] * rows[b, t]
            third += rows[c, t] * rows[c, t]
            fourth += rows[d, t] * rows[d, t]
        out[a] = first
        out[b], out[c], out[d] = second, third, fourth


def sizes(change: np.ndarray, rows: np.ndarray, clock: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return the size of each change (n,), with geometric mean 1: a power of the step times a smoother."""
    n = len(change)
    sigma, width = np.ones(n), max(n // 5, 6)
    series, at = np.concatenate((rows, change[None])), _centred(logs[1:-1])
    x, y = clock[:-1], clock[1:]
    squares, middle, root = total(at * at), logs[:-1] + logs[1:], np.sqrt(x * x + y * y)
    by_chance = _SPREAD_OF_ROOT / (1.2 * width)
    for _ in range(2):
        left = _residual(series / sigma) * sigma
        size = np.abs(left[1:] * x - left[:-1] * y) / root  # of the contrasts of neighbours
        floor = _FLOOR * median(size)
        if not floor > 0:
            return np.ones(n)
        slope = _growth(logarithms(size + floor), at, squares)
        size = np.sqrt(size * exponentials(-slope * at))
        sigma = _centred(2.0 * logarithms(_smoothed(size, width) + 1e-300))
        spread = total(sigma * sigma) / n
        sigma *= max(1.0 - by_chance / max(spread, 1e-300), 0.0)
        sigma += slope * 0.5 * middle
        sigma = exponentials(_centred(sigma))
    return sigma


def _residual(rows: np.ndarray) -> np.ndarray:
    """Return what the other rows leave of the last; `rows` is changed."""
    part(rows[None], len(rows) - 1)
    return rows[-1]


def _growth(log_size: np.ndarray, at: np.ndarray, squares: float) -> float:
    """Return the power of the step by which sizes grow, from their logs and those of the steps."""
    log_size = np.maximum(log_size, median(log_size) - _DEEPEST)
    slope = total(at * log_size) / squares
    return slope * max(1.0 - _SPREAD / squares / max(slope * slope, 1e-300), 0.0)


def _centred(values: np.ndarray) -> np.ndarray:
    return values - total(values) / len(values)


def _smoothed(size: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of `size` (n - 1,) around each of n changes, which lie between two of them.

    The weight falls like a parabola to 0 at a distance of `width` + 1.
    """
    up, down = np.zeros((2, len(size) + 1))
    _add_neighbours(size, width, up, down)
    return np.asarray(up / down)


@kernel
def _add_neighbours(size, width, up, down):  # type: ignore[no-untyped-def]
    n = len(up)
    for k in range(-1 - width, width + 1):
        weight = 1.0 - (abs(k + 0.5) / (width + 1.0)) ** 2
        for i in range(max(-k, 0), min(n - 1 - k, n)):
            up[i] += weight * size[i + k]
            down[i] += weight


def calmed(z: np.ndarray, left: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return z with its extreme innovations clipped: `left`, whitened by `factor`, beyond `_WILD` sizes.

    The size is the median or, if larger, seven tenths of the root mean square, because most changes of a
    count are 0.
    """
    size = max(median(np.abs(left)) / 0.6745, 0.7 * math.sqrt(total(left * left) / len(z)))
    excess = left - np.minimum(np.maximum(left, -_WILD * size), _WILD * size)
    _colour(excess, factor)
    return z - excess


@kernel
def _colour(values, factor):  # type: ignore[no-untyped-def]
    """Undo `whitened` of one row, in place."""
    before = previous = two = 0.0
    for t in range(len(values)):
        new = values[t]
        whole = factor[t, 0] * before + factor[t, 1] * previous + factor[t, 2] * two + factor[t, 3] * new
        values[t] = whole
        before, two, previous = whole, previous, new
