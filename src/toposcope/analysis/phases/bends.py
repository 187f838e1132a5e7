"""Where a series leaves every smooth trend: the statistic behind segments and the online detector.

A series v at steps s > 0 is a smooth trend plus noise, and perhaps a bend: a place tau from which its slope
on log(step) differs, max(log s - log tau, 0). Everything is done on the changes between checkpoints.

1. Trend. The changes of the trend basis of `trends.whitening`: a line in the step and so many of the
leading
   principal functions of t^-b and log t that what any of those leaves is a tenth of the series' roughness
   (median |second difference|, which a bend hardly touches) at most. A plain curve of training leaves no
   bend.
2. Size. The log contrasts of neighbouring residuals: a line on log(step), then a smoother over a fifth of the
   checkpoints. Noise may wane, grow, or change its size half-way.
3. Persistence. An autoregression of the residual that the best two bends leave, its order from 0 to 4 by
AICc, so
   that a bend is not taken for persistence.
4. Gain. Series, trend and bends are whitened with both; L = n log(S_0 / S_m), with S_0 the sum of squares
that
   the trend leaves and S_m the least that trend and m bends leave: one, or the two of an S-shaped change.

What L would be without a bend is simulated: `phases.reference`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from toposcope.analysis.trends.whitening import core_trends

LEAST_SEGMENT = 3
LEAST_POINTS = 16
MOST_ORDER = 4
_POINTS_PER_ORDER = 10
_FLOOR = 1e-3
_DEEPEST = 2.5
"""Log contrasts further than this below their median (a change that is zero, in counts) are set there."""
_TINY = 1e-10
_DEPENDENT = 1e-6
_SMALLEST = 1e-300
_MOST_PLACES = 48
_LEAST_ROUGHNESS = 2e-4
_HIDDEN = 0.1
_POWERS = np.linspace(0.05, 2.0, 40)
_MOST_STILL = 0.8


@dataclass(frozen=True, slots=True)
class Design:
    """A grid of steps: `clock` (n,) changes of log step, `logs` (n + 1,), `trend` (k, n) those of its basis.

    `left` (k,) is the largest rms, as a share of the range, that 0, 1, .. principal functions leave of any
    power.
    """

    steps: np.ndarray
    clock: np.ndarray
    logs: np.ndarray
    trend: np.ndarray
    left: np.ndarray


@dataclass(frozen=True, slots=True)
class Scan:
    """The best bend of a series, its `gain` L and `place` (the first change after it), and the best `pair`.

    `persistence` is the lag-1 autocorrelation of the changes
    that trend and pair leave, `phi` their autoregression, `sigma` (n,) the sizes; `residual` the standard
    deviation of the whitened noise; `profile` (n + 1,) the gain of a bend before every change (NaN: too
    near an end).
    """

    gain: float
    place: int
    pair_gain: float
    pair: tuple[int, int]
    persistence: float
    phi: np.ndarray
    sigma: np.ndarray
    residual: float
    profile: np.ndarray


def design(steps: np.ndarray) -> Design:
    """Return the design of rising positive `steps` (n + 1,)."""
    steps = np.asarray(steps, float)
    logs = np.log(steps)
    basis = core_trends(steps)  # constant, principal functions, line
    t = (steps - steps[0]) / np.diff(steps).min() + 1.0
    powers = np.stack([*(t**-b for b in _POWERS), np.log(t)])
    powers /= np.ptp(powers, axis=1)[:, None]
    left = []
    for count in range(basis.shape[1] - 1):
        kept, _ = np.linalg.qr(np.column_stack([basis[:, : count + 1], steps]))
        left.append(float(np.sqrt(np.mean((powers - (powers @ kept) @ kept.T) ** 2, axis=1)).max()))
    trend = np.diff(np.column_stack([basis[:, 1:-1], (steps - steps[0]) / np.ptp(steps)]), axis=0)
    return Design(steps, np.diff(logs), logs, np.ascontiguousarray(trend.T), np.array(left))


def scan(grid: Design, change: np.ndarray, bends: tuple[int, ...] = ()) -> Scan:
    """Return the best bend of a series' changes (n,) beyond the trend and the `bends` already found."""
    change = np.ascontiguousarray(change, float)
    return _as_scan(_scan(change, with_bends(grid, change, bends), grid.clock, grid.logs))


def why_not(grid: Design, values: np.ndarray) -> str:
    """Return why a series (n + 1,) cannot be tested, or nothing.

    A trend that noise hardly hides is no member of any finite family: what the basis leaves of a noiseless
    power law looks like a bend. Up to noise of .01% of the range it does not (docs/statistics.md).
    """
    if len(grid.clock) < LEAST_POINTS:
        return f"{len(values)} checkpoints after step 0: at least {LEAST_POINTS + 1} are needed"
    if np.mean(np.diff(values) == 0) > _MOST_STILL:
        return "the feature hardly ever changes: no noise level to judge by"
    if _roughness(np.diff(values), grid.trend) < _LEAST_ROUGHNESS:
        return "too smooth to test: its noise is below .01% of its range"
    return ""


def with_bends(grid: Design, change: np.ndarray, bends: tuple[int, ...]) -> np.ndarray:
    """Return the changes of the trend that a series needs, with a row for each bend."""
    index = np.arange(len(grid.clock))
    return np.vstack(
        [
            _needed(change, grid.trend, grid.left),
            *(np.where(index >= place, grid.clock, 0.0) for place in bends),
        ]
    )


def _as_scan(found: tuple) -> Scan:
    gain, place, pair_gain, first, second, phi, sigma, residual, profile, persistence = found
    pair = (int(first), int(second))
    return Scan(
        float(gain),
        int(place),
        float(pair_gain),
        pair,
        float(persistence),
        phi,
        sigma,
        float(residual),
        profile,
    )


def scans(grid: Design, changes: np.ndarray) -> np.ndarray:
    """Return gain, gain of the best pair and persistence of many series' changes (series, n): (series, 3)."""
    return _scans(np.ascontiguousarray(changes, float), grid.trend, grid.left, grid.clock, grid.logs)  # type: ignore[no-any-return]


@njit(cache=True)
def _roughness(change, trend):  # type: ignore[no-untyped-def]
    """Return the median |second difference| of what the trend leaves, as a share of the range."""
    level, low, high = 0.0, 0.0, 0.0
    for step in change:
        level += step
        low, high = min(low, level), max(high, level)
    return np.median(np.abs(np.diff(_rest(change, trend)))) / (high - low) if high > low else 0.0


@njit(cache=True)
def _needed(change, trend, left):  # type: ignore[no-untyped-def]
    """Return the principal functions that the roughness does not hide, and the line, which is last."""
    rough, count = _roughness(change, trend), 0
    while count < len(trend) - 1 and left[count] > _HIDDEN * rough:
        count += 1
    return np.concatenate((trend[:count], trend[len(trend) - 1 :]))


@njit(cache=True)
def _scans(changes, trend, left, clock, logs):  # type: ignore[no-untyped-def]
    out = np.empty((len(changes), 3))
    for d in range(len(changes)):
        found = _scan(changes[d], _needed(changes[d], trend, left), clock, logs)
        out[d, 0], out[d, 1], out[d, 2] = found[0], found[2], found[9]
    return out


@njit(cache=True)
def _scan(change, trend, clock, logs):  # type: ignore[no-untyped-def]
    n = len(change)
    sigma = _sizes(change, trend, clock, logs)
    z, x, columns = change / sigma, clock / sigma, trend / sigma
    _, first, second = _best_pair(z, x, columns, np.zeros(0))
    hinges = np.zeros((2, n))
    hinges[0, first:], hinges[1, second:] = x[first:], x[second:]
    e = _rest(z, np.concatenate((columns, hinges)))
    phi = _autoregression(e, n // _POINTS_PER_ORDER)
    persistence = np.sum(e[1:] * e[:-1]) / max(np.sum(e * e), _SMALLEST)
    gain, place, residual, profile = _best(z, x, columns, phi)
    pair_gain, first, second = _best_pair(z, x, columns, phi)
    return gain, place, pair_gain, first, second, phi, sigma, residual, profile, persistence


@njit(cache=True)
def _orthonormal(columns):  # type: ignore[no-untyped-def]
    """Return an orthonormal basis of the rows by Gram-Schmidt, twice; a dependent one becomes 0."""
    out = columns.copy()
    for j in range(len(out)):
        whole = np.sqrt(np.sum(out[j] ** 2))
        for _ in range(2):
            for i in range(j):
                out[j] -= np.sum(out[i] * out[j]) * out[i]
        size = np.sqrt(np.sum(out[j] ** 2))
        out[j] *= 1.0 / size if size > _TINY * whole else 0.0
    return out


@njit(cache=True)
def _rest(z, columns):  # type: ignore[no-untyped-def]
    basis, out = _orthonormal(columns), z.copy()
    for j in range(len(basis)):
        out -= np.sum(basis[j] * out) * basis[j]
    return out


@njit(cache=True)
def _sizes(change, trend, clock, logs):  # type: ignore[no-untyped-def]
    """Return sigma of each change, of geometric mean 1: fitted, then fitted again by what it weighs."""
    n = len(change)
    sigma, width = np.ones(n), max(n // 5, 6)
    for _ in range(2):
        left = _rest(change / sigma, trend / sigma) * sigma
        size = np.empty(n - 1)
        for i in range(n - 1):
            x, y = clock[i], clock[i + 1]
            size[i] = abs(left[i + 1] * x - left[i] * y) / np.sqrt(x * x + y * y)
        floor = _FLOOR * np.median(size)
        if not floor > 0:
            return np.ones(n)
        size = np.log(size + floor)
        at = logs[1:n] - logs[1:n].mean()
        slope = np.sum(at * size) / np.sum(at * at)
        size -= slope * at
        size = np.maximum(size, np.median(size) - _DEEPEST)
        for i in range(n):  # change i lies between the contrasts i - 1 and i
            up = down = 0.0
            for j in range(max(i - 1 - width, 0), min(i + width + 1, n - 1)):
                weight = 1.0 - (abs(j + 0.5 - i) / (width + 1.0)) ** 2
                up += weight * size[j]
                down += weight
            sigma[i] = up / down + slope * 0.5 * (logs[i] + logs[i + 1])
        sigma = np.exp(sigma - sigma.mean())
    return sigma


@njit(cache=True)
def _autoregression(e, most):  # type: ignore[no-untyped-def]
    """Return the coefficients of Burg's autoregression of e, its order (up to `most`, at most 4) by AICc."""
    n = len(e)
    power = np.mean(e * e)
    best_phi, phi = np.zeros(0), np.zeros(0)
    if not power > 0:
        return best_phi
    best = n * np.log(power) + 2.0 * n / (n - 2.0)
    forward, backward = e.copy(), e.copy()
    for p in range(1, min(most, MOST_ORDER) + 1):
        f, b = forward[1:].copy(), backward[:-1].copy()
        below = np.sum(f * f) + np.sum(b * b)
        k = 2.0 * np.sum(f * b) / below if below > 0 else 0.0
        longer = np.empty(p)
        longer[: p - 1] = phi - k * phi[::-1]
        longer[p - 1] = k
        phi = longer
        forward, backward = f - k * b, b - k * f
        power *= max(1.0 - k * k, _TINY)
        criterion = n * np.log(power) + 2.0 * n * (p + 1.0) / (n - p - 2.0)
        if criterion < best:
            best, best_phi = criterion, phi.copy()
    return best_phi


@njit(cache=True)
def _filtered(x, phi):  # type: ignore[no-untyped-def]
    p = len(phi)
    out = x[p:].copy()
    for j in range(p):
        out -= phi[j] * x[p - 1 - j : len(x) - 1 - j]
    return out


@njit(cache=True)
def _whitened(z, columns, phi):  # type: ignore[no-untyped-def]
    """Return an orthonormal basis of the whitened rows of `columns`, and what it leaves of the whitened z."""
    white = np.empty((len(columns), len(z) - len(phi)))
    for j in range(len(columns)):
        white[j] = _filtered(columns[j], phi)
    basis, left = _orthonormal(white), _filtered(z, phi)
    for j in range(len(basis)):
        left -= np.sum(basis[j] * left) * basis[j]
    return basis, left


@njit(cache=True)
def _best_pair(z, x, columns, phi):  # type: ignore[no-untyped-def]
    """Return gain and places of the best two bends, at least three changes apart, among up to 48 places."""
    n = len(z)
    basis, left = _whitened(z, columns, phi)
    stride = (n - 2 * LEAST_SEGMENT) // _MOST_PLACES + 1
    places = np.arange(LEAST_SEGMENT, n - LEAST_SEGMENT + 1, stride)
    rows, dots = np.empty((len(places), len(left))), np.empty(len(places))
    for i in range(len(places)):
        hinge = np.zeros(n)
        hinge[places[i] :] = x[places[i] :]
        row = _filtered(hinge, phi)
        for j in range(len(basis)):
            row -= np.sum(basis[j] * row) * basis[j]
        rows[i], dots[i] = row, np.sum(row * left)
    gram = rows @ rows.T
    best, first, second = 0.0, LEAST_SEGMENT, n - LEAST_SEGMENT
    for i in range(len(places)):
        for j in range(i + 1, len(places)):
            room = gram[i, i] * gram[j, j] - gram[i, j] ** 2
            if places[j] - places[i] < LEAST_SEGMENT or room < _DEPENDENT * gram[i, i] * gram[j, j]:
                continue
            up = dots[i] ** 2 * gram[j, j] - 2.0 * dots[i] * dots[j] * gram[i, j] + dots[j] ** 2 * gram[i, i]
            if up / room > best:
                best, first, second = up / room, places[i], places[j]
    whole = np.sum(left * left)
    gain = len(left) * np.log(whole / max(whole - best, _TINY * whole)) if whole > 0 else 0.0
    return gain, first, second


@njit(cache=True)
def _best(z, x, columns, phi):  # type: ignore[no-untyped-def]
    """Return gain, place, residual size and profile of the best bend of z beyond `columns`, whitened by phi.

    A bend before change a is x from a on; whitened, it is the whitened x from a + p on, with p further terms.
    """
    n, p, k = len(z), len(phi), len(columns)
    basis, left = _whitened(z, columns, phi)
    clock = _filtered(x, phi)
    whole = np.sum(left * left)
    gain, place = 0.0, LEAST_SEGMENT
    profile = np.full(n + 1, np.nan)
    sums = np.zeros(k)
    dot = square = 0.0
    for a in range(n - 1, LEAST_SEGMENT - 1, -1):
        if a + p < n:  # the row a + p of the whitened clock joins the part from a + p on
            i = a
            dot += clock[i] * left[i]
            square += clock[i] * clock[i]
            for j in range(k):
                sums[j] += clock[i] * basis[j, i]
        if a > n - LEAST_SEGMENT:
            continue
        up, down, lost = dot, square, 0.0
        extra = sums.copy()
        for i in range(max(a - p, 0), min(a, n - p)):  # rows whose own term counts, but not all lagged ones
            value = x[i + p]
            for j in range(p):
                if i + p - 1 - j >= a:
                    value -= phi[j] * x[i + p - 1 - j]
            up += value * left[i]
            down += value * value
            for j in range(k):
                extra[j] += value * basis[j, i]
        for j in range(k):
            lost += extra[j] * extra[j]
        room = down - lost
        profile[a] = up * up / room if room > _TINY * down else 0.0
        if profile[a] > gain:
            gain, place = profile[a], a
    residual = np.sqrt(max(whole - gain, 0.0) / max(n - p - k - 1, 1))
    return (
        (n - p) * np.log(whole / max(whole - gain, _TINY * whole)) if whole > 0 else 0.0,
        place,
        residual,
        profile,
    )


def smooth_gain(
    grid: Design, change: np.ndarray, bends: tuple[int, ...], found: Scan, widths: range
) -> float:
    """Return the largest gain in squares of a bend whose slope turns over so many checkpoints as `widths`."""
    n, p = len(change), len(found.phi)
    index = np.arange(n)
    turns = [
        grid.clock * np.clip((index - a + 1) / width, 0.0, 1.0)
        for width in widths
        for a in range(LEAST_SEGMENT - width // 2, n - LEAST_SEGMENT - width // 2 + 1)
    ]

    def white(rows: np.ndarray) -> np.ndarray:
        rows = rows / found.sigma
        return rows[:, p:] - sum(found.phi[j] * rows[:, p - 1 - j : n - 1 - j] for j in range(p))

    basis = _orthonormal(np.ascontiguousarray(white(with_bends(grid, change, bends))))
    rows, series = white(np.array(turns)), white(change[None])[0]
    left = rows - (rows @ basis.T) @ basis
    room = np.einsum("ij,ij->i", left, left)
    good = room > _TINY * np.einsum("ij,ij->i", rows, rows)
    return float(np.max((left[good] @ series) ** 2 / room[good], initial=0.0))
