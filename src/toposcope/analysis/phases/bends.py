"""Where a series leaves every smooth trend: the statistic behind segments and the online detector.

A series v at steps s > 0 is a smooth trend plus noise, and perhaps a change: a bend at tau, from which its
slope on log(step) differs, max(log s - log tau, 0); or a ramp, a move to another level within a stretch of
steps. Everything is done on the changes between checkpoints.

1. Noise. Which persistence it has is not known, and a slow ramp looks like a walk. So nothing is estimated
   and then believed: every model of `phases.noise` counts by its likelihood. A single wild step is cut, for a
   walk with heavy tails makes the same as a jump.
2. Trend. A line in the step and so many of the leading principal functions of t^-b and log t, and where steps
   grow of (u + c)^-b, power laws that begin late, that what they
   leave of a power law with the range of the series adds at most the noise of one value to the squares. The
   noise is judged for this by what trends and waves of twelve checkpoints and more leave.
3. Gain. T = log (sum over noises and changes of the likelihood / sum over noises of that without a change),
   with the trend and the scale of the noise integrated out, all noises and all changes alike before the
   data, what a change rises by normal with sixty standard deviations of one step. Of all tests of this
   mixture against that one, T has the most power on average (Neyman and Pearson 1933).

What T would be without a change is simulated: `phases.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numba import njit

from toposcope.analysis.phases.noise import (
    MODELS,
    PERSISTENCE,
    VARIANCE,
    calmed,
    factors,
    orthonormal,
    rest,
    sizes,
    subtract,
    weights,
    whitened,
)
from toposcope.analysis.trends.basis import TREND_TOLERANCE, core_trends
from toposcope.kernels.threads import row_blocks, run_blocks

LEAST_SEGMENT = 3
LEAST_POINTS = 16
Span = tuple[int, int]
"""First change of a bend or ramp, and its end: the number of changes for a bend, which lasts."""
_WIDTHS = (3, 6, 11, 20)
"""Of the ramps that are tried, at 51 checkpoints."""
_MOST_PLACES = 24
_CHECKPOINTS_PER_WAVE = 6
_MOST_WAVES = 12
_POWERS = np.array([0.05, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0])
_LATE = np.geomspace(0.002, 1.0, 8)
"""How late a power law (u + c)^-b in the share u of the run may begin, where steps grow."""
_GROWING = 10.0
"""Steps grow where the largest gap is more than so many of the smallest."""
_RISE = 60.0
"""Standard deviations of one change."""
_HIDDEN = 1.0
_TOO_MUCH = 10.0
"""What all trends together may leave of a power law before a series is too smooth to test."""
_LIKELY = 7.0
"""Models of the noise so far below the best in log likelihood, with a change and without, are left out."""
_MOST_STILL = 0.8


@dataclass(frozen=True, slots=True)
class Design:
    """A grid of steps, everything on its n changes: `clock` (n,) of log step, `logs` (n + 1,) themselves.

    `trend` (k, n) has the changes of the trends, the line first; `waves` (j, n) what else is smooth;
    `powers` (p, n) power laws of range 1; `shapes` (d, n) the bends and ramps at `spans`; `factor` and
    `log_det` whiten by each model of the noise.
    """

    steps: np.ndarray
    clock: np.ndarray
    logs: np.ndarray
    trend: np.ndarray
    waves: np.ndarray
    powers: np.ndarray
    spans: tuple[Span, ...]
    shapes: np.ndarray
    factor: np.ndarray
    log_det: np.ndarray

    def rows(self, spans: Sequence[Span]) -> np.ndarray:
        """Return the changes of bends and ramps that rise by 1 at `spans`, (spans, n)."""
        n, index = len(self.clock), np.arange(len(self.clock))
        first, end = np.array(spans, int).reshape(-1, 2).T[:, :, None]
        rows = np.where(end >= n, self.clock, np.diff(self.steps))
        rows[(index < first) | (index >= end)] = 0.0
        return rows / rows.sum(axis=1, keepdims=True)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a series says of changes: its `gain` T, and the log likelihood of each, `profile` (d,).

    `place` is the likeliest. `persistence` is the correlation of neighbouring changes under the models of the
    noise, by their weight; `trends` how many the series needs, `hidden` what they leave of a power law, in
    variances of the noise;
    `sigma` (n,) the sizes, `model` the likeliest noise beside that change, `variance` its variance.
    """

    gain: float
    place: int
    persistence: float
    trends: int
    hidden: float
    sigma: np.ndarray
    model: int
    variance: float
    profile: np.ndarray

    @property
    def unevenness(self) -> float:
        """The standard deviation of the logarithm of the sizes."""
        return float(np.log(self.sigma).std())


def design(steps: np.ndarray) -> Design:
    """Return the design of rising positive `steps` (n + 1,), cached."""
    return _design(tuple(float(step) for step in steps))


@lru_cache(maxsize=128)
def _design(at: tuple[float, ...]) -> Design:
    steps = np.array(at)
    logs, gaps, n = np.log(steps), np.diff(steps), len(steps) - 1
    t = (steps - steps[0]) / gaps.min() + 1.0
    curves = np.stack([np.log(t), *(t**-b for b in _POWERS)])
    if gaps.max() > _GROWING * gaps.min():
        share = (steps - steps[0]) / np.ptp(steps)
        curves = np.vstack([curves, *((share + c) ** -_POWERS[1::3, None] for c in _LATE)])
        smooth = _principal(curves)
    else:
        smooth = core_trends(steps)[:, 1:-1]
    trend = np.vstack([gaps / np.ptp(steps), np.diff(smooth, axis=0).T])
    powers = np.diff(curves / np.ptp(curves, axis=1)[:, None], axis=1)
    count = min(max(n // _CHECKPOINTS_PER_WAVE, 1), _MOST_WAVES)
    waves = np.cos(np.pi * np.arange(1, count + 1)[:, None] * (np.arange(n) + 0.5) / n)
    empty = Design(
        steps, np.diff(logs), logs, np.ascontiguousarray(trend), waves, np.ascontiguousarray(powers), (),
        np.empty((0, n)), *factors(n, MODELS),
    )  # fmt: skip
    stride = max((n - 2 * LEAST_SEGMENT) // _MOST_PLACES + 1, 1)
    spans = all_spans(n, stride, [round(width * max(n / 50, 1)) for width in _WIDTHS])
    return replace(empty, spans=tuple(spans), shapes=empty.rows(spans))


def _principal(curves: np.ndarray) -> np.ndarray:
    """Return the leading principal functions (n + 1, k) of curves, as `basis.core_trends` takes them."""
    centred = curves - curves.mean(axis=1, keepdims=True)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(centred.T, full_matrices=False)
    return np.asarray(left[:, size > TREND_TOLERANCE * size[0]])


def all_spans(n: int, stride: int, widths: Sequence[int]) -> list[Span]:
    """Return every `stride`-th bend, and the ramps of these widths, three changes or more from either end."""
    places = range(LEAST_SEGMENT, n - LEAST_SEGMENT + 1, stride)
    ramps = [(a, a + w) for w in widths for a in places if a + w <= n - LEAST_SEGMENT]
    return [*((a, n) for a in places), *ramps]


def scan(grid: Design, change: np.ndarray, bends: Sequence[int] = (), rows: np.ndarray | None = None) -> Scan:
    """Return what a series' changes (n,) say of `rows` (d, n), or the design's, beside given `bends`."""
    found = _scan(
        np.ascontiguousarray(change, float), grid.trend, grid.waves,
        grid.rows([(place, len(grid.clock)) for place in bends]), grid.powers,
        grid.shapes if rows is None else rows, grid.clock, grid.logs, grid.factor, grid.log_det,
    )  # fmt: skip
    gain, place, persistence, trends, hidden, sigma, model, variance, profile = found
    return Scan(
        float(gain), int(place), float(persistence), int(trends), float(hidden), sigma, int(model),
        float(variance), profile,
    )  # fmt: skip


def why_not_short(count: int) -> str:
    """Return why so few checkpoints cannot be tested."""
    return f"{count} checkpoints after step 0: at least {LEAST_POINTS + 1} are needed"


def why_not(change: np.ndarray, found: Scan) -> str:
    """Return why a series with these changes (n,) cannot be tested, or nothing.

    A trend that noise hardly hides is no member of any finite family: what the basis leaves of a noiseless
    power law looks like a bend. Up to noise of .01% of the range it does not (docs/statistics.md).
    """
    if np.mean(change == 0) > _MOST_STILL:
        return "the feature hardly ever changes: no noise level to judge by"
    if found.hidden > _TOO_MUCH:
        return "too smooth to test: its noise is so small that no family of trends leaves less"
    return ""


def scans(grid: Design, changes: np.ndarray) -> np.ndarray:
    """Return gain, persistence and unevenness of many series' changes (series, n): (series, 3)."""
    changes = np.ascontiguousarray(changes, float)
    given = (
        grid.trend, grid.waves, grid.rows([]), grid.powers, grid.shapes, grid.clock, grid.logs, grid.factor,
        grid.log_det,
    )  # fmt: skip
    blocks = [changes[start:stop] for start, stop in row_blocks(len(changes))]
    return np.concatenate(run_blocks(lambda block: _scans(block, *given), blocks))


@njit(cache=True, nogil=True)
def _scans(changes, trend, waves, given, powers, shapes, clock, logs, factor, log_det):  # type: ignore[no-untyped-def]
    out = np.empty((len(changes), 3))
    for d in range(len(changes)):
        found = _scan(changes[d], trend, waves, given, powers, shapes, clock, logs, factor, log_det)
        out[d, 0], out[d, 1], out[d, 2] = found[0], found[2], np.std(np.log(found[5]))
    return out


@njit(cache=True, nogil=True)
def _scan(change, trend, waves, given, powers, shapes, clock, logs, factor, log_det):  # type: ignore[no-untyped-def]
    n = len(change)
    sigma = sizes(change, np.concatenate((trend, given)), clock, logs)
    z, level = change / sigma, np.cumsum(change)
    reach = max(level.max(), 0.0) - min(level.min(), 0.0)
    trend, given, powers, shapes = trend / sigma, given / sigma, powers / sigma * reach, shapes / sigma
    smooth = np.concatenate((trend, given, waves / sigma))
    rough = weights(z, smooth, factor, log_det)
    model = np.argmax(rough)
    basis = whitened(smooth, factor[model])
    free = n - orthonormal(basis)[0]
    left = rest(whitened(z[None], factor[model])[0], basis)
    variance = max(np.dot(left, left) / free, 1e-300)
    z = calmed(z, left, factor[model])
    count, hidden = _needed(
        whitened(trend, factor[model]), whitened(powers, factor[model]), _HIDDEN * variance
    )
    hidden /= variance
    mean = np.concatenate((given, trend[:count]))
    plain = weights(z, mean, factor, log_det)
    table = np.full((len(factor), len(shapes)), -np.inf)
    for g in range(len(factor)):
        if plain[g] > plain.max() - _LIKELY or rough[g] > rough.max() - _LIKELY:
            _beside(z, mean, shapes, factor[g], log_det[g], VARIANCE[g], table[g])
    top, likely = table.max(), np.empty(len(factor))
    for g in range(len(factor)):
        likely[g] = np.sum(np.exp(table[g] - top)) / max(len(shapes), 1)
    profile = np.empty(len(shapes))
    for d in range(len(shapes)):
        profile[d] = top + np.log(np.sum(np.exp(table[:, d] - top)))
    gain = top + np.log(np.sum(likely)) - plain.max() - np.log(np.sum(np.exp(plain - plain.max())))
    likely /= np.sum(likely)
    place, model = np.argmax(profile), np.argmax(likely)
    basis = whitened(np.concatenate((mean, shapes[place : place + 1])), factor[model])
    free = n - orthonormal(basis)[0]
    left = rest(whitened(z[None], factor[model])[0], basis)
    variance = np.dot(left, left) / free
    return gain, place, np.sum(likely * PERSISTENCE), count, hidden, sigma, model, variance, profile


@njit(cache=True)
def _beside(z, mean, shapes, factor, log_det, variance, out):  # type: ignore[no-untyped-def]
    """Write the log of the likelihood of one model of the noise beside the means and each shape.

    What a shape rises by is normal before the data, with `_RISE` standard deviations of a change.
    """
    made, rows = whitened(np.concatenate((mean, z[None])), factor), whitened(shapes, factor)
    basis = made[:-1]
    count, volume = orthonormal(basis)
    left = rest(made[-1], basis)
    whole, free = np.dot(left, left), len(z) - count
    for d in range(len(rows)):
        row = rest(rows[d], basis)
        room = np.dot(row, row)
        known = _RISE * _RISE * variance * room
        less = max(whole - np.dot(row, left) ** 2 / max(room, 1e-300) * known / (1.0 + known), 1e-14 * whole)
        out[d] = -0.5 * (log_det + volume + np.log(1.0 + known) + free * np.log(max(less, 1e-300)))


@njit(cache=True)
def _needed(trend, powers, hidden):  # type: ignore[no-untyped-def]
    """Return how many trends leave no power law more than `hidden`, at least two, and what they leave."""
    basis, left = trend.copy(), powers.copy()
    orthonormal(basis)
    count, most = 0, 0.0
    for j in range(len(basis)):
        count, most = j + 1, 0.0
        for p in range(len(left)):
            subtract(basis[j], left[p])
            most = max(most, np.dot(left[p], left[p]))
        if most <= hidden and count > 1:
            break
    return count, most
