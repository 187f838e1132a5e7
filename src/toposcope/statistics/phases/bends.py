"""Where a series departs from every gentle curve: the statistic behind segments and the online detector.

A series v at steps s > 0 is a smooth trend plus gentle waves plus noise, and perhaps a change: a bend at
tau, from which its slope in log(step) differs, max(log s - log tau, 0); or a ramp, a logistic move to
another level over a range of steps. All computations use the changes between checkpoints.

1. Noise. Its persistence is unknown, and a slow ramp resembles a random walk. So no single estimate is used:
   every model of `phases.noise` counts by its likelihood. A single extreme step is clipped, because
   heavy-tailed walks make such steps, too, not only jumps.
2. Trend. A line in the step and the leading principal functions of falling curves (powers, exponentials,
   moving means of powers). Their number is chosen so that the rest of a falling curve with the range of the
   series adds at most the noise of one value to the squares. For this, the noise is estimated from the
   residual after trends and waves of at least twelve checkpoints.
3. Waves. Up to three periods over the checkpoints, any phase, with a normal prior and seven amplitudes from
   none to 1,024 standard deviations of one change. Both hypotheses include them, so a wave is not a change.
4. Gain. T = log (sum over noises, amplitudes and changes of the likelihood / sum over noises and amplitudes
   of that without a change), with the trend and the scale of the noise integrated out. The prior is equal for
   all noises, amplitudes and changes; the rise of a change is normal with sixty standard deviations of one
   step. Of all tests of this mixture against that one, T has the most power on average (Neyman and Pearson
   1933).
5. Twice. A sharp change resembles a burst of noise. So the likeliest change is found twice: for noise of
   constant size, and for the sizes that the series suggests. The sizes, the extreme steps and the trend are
   estimated again with each of them in the model, T is computed again with more candidate changes nearby, and
   the larger T counts. So the noise estimate does not depend on the size of the change. A move within fewer
   than five changes is tested once, because with it in the model, a single extreme step would go unnoticed.

The distribution of T without a change is simulated: `phases.reference`.

The constants here and in `phases.curves` were set on 51 even steps, while looking at the first table of
"Noises and power on five grids" (docs/statistics-evidence.md). So that table is no blind test of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.statistics.phases.curves import LEAST_SEGMENT, Design, Span, shape_rows
from toposcope.statistics.phases.noise import (
    PERSISTENCE,
    VARIANCE,
    calmed,
    orthonormal,
    rest,
    sizes,
    subtract,
    weights,
    whitened,
)

LEAST_POINTS = 16
"""The fewest changes of a series from which trends, waves and a bend can be distinguished."""
AMPLITUDES = np.array([0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0])
"""Amplitudes of gentle waves, in standard deviations of one change; the first means no wave."""
_FIRST_TRENDS, _FIRST_WAVES = 4, 6
"""The trends and waves removed before the noise is measured; more would leave too little at the ends."""
_ONCE = 5
"""Moves within fewer changes than this are tested once."""
_RISE = 60.0
"""Standard deviations of one change."""
_NEGLIGIBLE = 1.0
"""In variances of one change: a smaller rest of a curve after its trends is hidden by the noise."""
_TOO_MUCH = 10.0
"""If all trends together leave more than this of a falling curve, a series is too smooth to test."""
_LIKELY = 7.0
"""Noise models this far below the best in log likelihood, with and without a change, are left out."""
_EVEN = np.array([0, 3, 7, 10])
"""Noise models, a few of each kind, for the first placement of a change."""
_MOST_STILL = 0.8
"""If more than this share of changes is exactly zero, there is no noise to compare with."""
_TINY, _LEAST = 1e-12, 1e-14
"""Smallest powers and shares, so that logarithms and quotients stay finite."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The evidence of a series for changes: its `gain` T, and the log likelihood of each, `profile` (d,).

    `span` is the likeliest of the design's, or `place` of the given rows. `bare` is T without any waves.
    `persistence` is the correlation of neighbouring changes, a weighted mean over the noise models; `trends`
    is the number of trends that the series needs, `remainder` what they leave of a falling curve, in
    variances of the noise; `sigma` (n,) are the sizes, `model` is the likeliest noise given that change, and
    `variance` its variance.
    """

    gain: float
    bare: float
    span: Span
    place: int
    persistence: float
    trends: int
    remainder: float
    sigma: np.ndarray
    model: int
    variance: float
    profile: np.ndarray

    @property
    def unevenness(self) -> float:
        """The standard deviation of the logarithm of the sizes."""
        return float(np.log(self.sigma).std())


def scan(
    grid: Design,
    change: np.ndarray,
    given: Sequence[Span] = (),
    rows: np.ndarray | None = None,
    beside: Sequence[Span] = (),
) -> Scan:
    """Return what a series' changes (n,) say about the design's spans, given the changes `given`.

    `rows` (d, n) are tested instead of the spans, with the noise that the rows `beside` leave.
    """
    change = np.ascontiguousarray(change, float)
    if rows is None:
        judged = _scan(change, grid.rows(given), *grid.given)
    else:
        _, parts, noise = grid.given
        tested = grid.rows(given), grid.rows(beside), np.ascontiguousarray(rows)
        judged = ((0, 0), *_judged(change, *tested, parts, noise))
    (first, end), gain, bare, place, persistence, trends, remainder, sigma, model, variance, profile = judged
    return Scan(
        float(gain), float(bare), (int(first), int(end)), int(place), float(persistence), int(trends),
        float(remainder), sigma, int(model), float(variance), profile,
    )  # fmt: skip


def why_not_short(count: int) -> str:
    """Return the reason why a series with too few checkpoints cannot be tested."""
    return f"{count:,} checkpoints after step 0: at least {LEAST_POINTS + 1} are needed"


def why_not(change: np.ndarray, found: Scan) -> str:
    """Return why a series with these changes (n,) cannot be tested, or nothing.

    No finite family contains every trend exactly: the rest of a noiseless power law resembles a bend. With
    noise of .01% of the range it does not (docs/statistics-evidence.md).
    """
    if np.mean(change == 0) > _MOST_STILL:
        return "the feature hardly ever changes, so there is no noise to compare with"
    if found.remainder > _TOO_MUCH:
        return "too smooth to test: its noise is smaller than what the trend models leave"
    return ""


def scans(grid: Design, changes: np.ndarray) -> np.ndarray:
    """Return gain, persistence and unevenness of many series' changes (series, n): (series, 3)."""
    changes = np.ascontiguousarray(changes, float)
    blocks = [changes[start:stop] for start, stop in row_blocks(len(changes))]
    return np.concatenate(run_blocks(lambda block: _scans(block, *grid.given), blocks))


def _scans(changes: np.ndarray, *design: Any) -> np.ndarray:
    out, nothing = np.empty((len(changes), 3)), np.empty((0, changes.shape[1]))
    for row, change in zip(out, changes, strict=True):
        _, gain, _, _, persistence, _, _, sigma, *_ = _scan(change, nothing, *design)
        row[:] = gain, persistence, _spread_of_logs(sigma)
    return out


def _scan(
    change: np.ndarray, given: np.ndarray, spans: np.ndarray, grid: tuple[Any, ...], noise: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the likeliest span, and the result of `_judged` given that span (for a jump, given none)."""
    n, shapes = len(change), grid[4]
    best = _judged(change, given, shapes[:0], shapes, grid, noise)
    chosen = spans[best[2]]
    judged_once = True
    for place in dict.fromkeys((_placed_evenly(change, given, shapes, grid, noise), best[2])):
        first, end = spans[place]
        if end < n and end - first < _ONCE:
            continue
        near = near_spans(first, end, n)
        more = np.concatenate((shapes, shape_rows(near, grid[5], grid[6])))
        judged = _judged(change, given, shapes[place : place + 1], more, grid, noise)
        if judged_once or judged[0] > best[0]:
            judged_once, best = False, judged
            chosen = spans[best[2]] if best[2] < len(spans) else near[best[2] - len(spans)]
    return chosen, *best


def _placed_evenly(
    change: np.ndarray, given: np.ndarray, shapes: np.ndarray, grid: tuple[Any, ...], noise: tuple[Any, ...]
) -> int:
    """Return the likeliest shape, given all trends, for noise of constant size without clipping."""
    trend, gentle, (factor, log_det) = grid[0], grid[2], noise
    mean = np.concatenate((given, trend))
    rows, added = np.concatenate((mean, change[None])), np.concatenate((gentle, shapes))
    _, table = _beside(rows, added, len(gentle), factor, log_det, _EVEN)
    return int(np.argmax(_likelihoods(table, table.max())))


def near_spans(first: int, end: int, n: int) -> np.ndarray:
    """Return the spans around one, (k, 2): bends, or ramps of other lengths and positions."""
    reach = 3 if end >= n else max((end - first) // 4, 1)
    stride = max(reach // 3, 1)
    a, b = (np.arange(at - reach, at + reach + 1, stride) for at in (first, end))
    if end >= n:
        b = b[b == end]
    wide = b - a[:, None] >= LEAST_SEGMENT if end < n else np.ones((len(a), len(b)), bool)
    inside = (a >= LEAST_SEGMENT) & (a <= n - LEAST_SEGMENT)
    before = b <= (n - LEAST_SEGMENT if end < n else end)
    at = np.nonzero(inside[:, None] & before & wide)
    return np.stack((a[at[0]], b[at[1]]), axis=1)


def _judged(
    change: np.ndarray,
    given: np.ndarray,
    shared: np.ndarray,
    shapes: np.ndarray,
    grid: tuple[Any, ...],
    noise: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Return the content of `Scan` except the span; the noise is estimated given the rows `shared`.

    This is Python between short kernels: compiled as a whole, each kernel would be compiled again in it.
    """
    trend, waves, gentle, curves, _, clock, _, logs = grid
    factor, log_det = noise
    sigma = sizes(
        change, np.concatenate((trend[:_FIRST_TRENDS], gentle[:_FIRST_WAVES], given, shared)), clock, logs
    )
    z, level = change / sigma, change.cumsum()
    reach = max(level.max(), 0.0) - min(level.min(), 0.0)
    trend, given, shapes, gentle = trend / sigma, given / sigma, shapes / sigma, gentle / sigma
    smooth = np.concatenate((trend, given, waves / sigma, shared / sigma, z[None]))
    rough = weights(smooth, factor, log_det)
    best = factor[rough.argmax()]
    left, variance = _left(smooth, best)
    z = calmed(z, left, best)
    count, remainder = _needed(
        whitened(trend, best), whitened(curves / sigma * reach, best), _NEGLIGIBLE * variance
    )
    mean = np.concatenate((given, trend[:count]))
    rows, added = np.concatenate((mean, z[None])), np.concatenate((gentle, shapes))
    plain = weights(rows, factor, log_det)
    wanted = (plain > plain.max() - _LIKELY) | (rough > rough.max() - _LIKELY)
    without, table = _beside(rows, added, len(gentle), factor, log_det, wanted.nonzero()[0])
    gain, bare, likely, profile, persistence = _mixture(without, table, table.max())
    place, model = int(profile.argmax()), int(likely.argmax())
    beyond = np.concatenate((mean, gentle[:_FIRST_WAVES], shapes[place : place + 1], z[None]))
    _, spread = _left(beyond, factor[model])
    return gain, bare, place, persistence, count, remainder / variance, sigma, model, spread, profile


@kernel
def _mixture(without, table, top):  # type: ignore[no-untyped-def]
    """Return T, T without waves, the weight of each noise model, the profile, and the mean persistence."""
    likely, shapes = np.zeros(len(table)), table.shape[2]
    for g in range(len(table)):
        for k in range(table.shape[1]):
            for d in range(shapes):
                likely[g] += np.exp(table[g, k, d] - top)
    whole = persistence = 0.0
    for g in range(len(table)):
        whole += likely[g]
    for g in range(len(table)):
        likely[g] /= whole
        persistence += likely[g] * PERSISTENCE[g]
    profile = _likelihoods(table, top)
    for d in range(shapes):
        profile[d] = top + np.log(profile[d])
    pair = np.empty(2)
    for i in range(2):
        count = table.shape[1] if i == 0 else 1
        pair[i] = _log_sum(table, count) - np.log(np.float64(shapes)) - _log_sum(without, count)
    return pair[0], pair[1], likely, profile, persistence


@inner_kernel
def _log_sum(table, count):  # type: ignore[no-untyped-def]
    """Return the log of the summed likelihoods of the first `count` amplitudes."""
    top, whole = -np.inf, 0.0
    for g in range(len(table)):
        for k in range(count):
            for d in range(table.shape[2]):
                top = max(top, table[g, k, d])
    for g in range(len(table)):
        for k in range(count):
            for d in range(table.shape[2]):
                whole += np.exp(table[g, k, d] - top)
    return top + np.log(whole)


@kernel
def _likelihoods(table, top):  # type: ignore[no-untyped-def]
    """Return the summed likelihoods of each shape, relative to that of `top`."""
    out = np.zeros(table.shape[2])
    for d in range(len(out)):
        for g in range(len(table)):
            for k in range(table.shape[1]):
                out[d] += np.exp(table[g, k, d] - top)
    return out


@kernel
def _spread_of_logs(sigma):  # type: ignore[no-untyped-def]
    """Return the standard deviation of the logarithms."""
    mean = squares = 0.0
    for i in range(len(sigma)):
        mean += np.log(sigma[i])
    mean /= len(sigma)
    for i in range(len(sigma)):
        squares += (np.log(sigma[i]) - mean) ** 2
    return np.sqrt(squares / len(sigma))


@kernel
def _left(rows, factor):  # type: ignore[no-untyped-def]
    """Return the residual of the last row on the others, whitened, and its variance."""
    white = whitened(rows, factor)
    basis, left = white[:-1], white[-1]
    free = rows.shape[1] - orthonormal(basis)[0]
    rest(left, basis)
    return left, max(np.dot(left, left) / max(free, 1), 1e-300)


@kernel
def _beside(mean, added, count, factor, log_det, models):  # type: ignore[no-untyped-def]
    """Return the log likelihoods of the series given the means, and given each shape as well.

    The last row of `mean` is the series, the first `count` rows of `added` are gentle waves, the others the
    shapes. The first table is (models, amplitudes, 1), the second (models, amplitudes, shapes); both are -inf
    for noise that is not in `models`. The rise of a shape has a normal prior with `_RISE` standard deviations
    of a change.
    """
    n = mean.shape[1]
    plain = np.full((len(factor), len(AMPLITUDES), 1), -np.inf)
    out = np.full((len(factor), len(AMPLITUDES), len(added) - count), -np.inf)
    for g in models:
        variance = VARIANCE[g]
        white = whitened(mean, factor[g])
        basis, left = white[:-1], white[-1]
        rank, volume = orthonormal(basis)
        rest(left, basis)
        both = whitened(added, factor[g])
        both -= (both @ basis.T) @ basis
        waves, rows = both[:count], both[count:]
        power, turn = np.linalg.eigh(waves @ waves.T)
        unit = turn.T @ waves
        for i in range(count):
            power[i] = max(power[i], _TINY)
            root = np.sqrt(power[i])
            for t in range(n):
                unit[i, t] /= root
        whole, free, along = np.dot(left, left), n - rank, unit @ left
        room, dot, part = np.zeros(len(rows)), rows @ left, rows @ unit.T
        squared = part * part
        for d in range(len(rows)):
            for t in range(n):
                room[d] += rows[d, t] * rows[d, t]
        taken, turned = np.empty(count), np.empty(count)
        for k in range(len(AMPLITUDES)):
            logs = gone = 0.0
            for i in range(count):
                size = 1.0 + AMPLITUDES[k] ** 2 * variance * power[i]
                taken[i] = 1.0 - 1.0 / size
                turned[i] = taken[i] * along[i]
                logs += np.log(size)
                gone += turned[i] * along[i]
            base = log_det[g] + volume + logs
            less = max(whole - gone, _LEAST * whole)
            plain[g, k, 0] = -0.5 * (base + free * np.log(max(less, 1e-300)))
            hidden, moved = squared @ taken, part @ turned
            for d in range(len(rows)):
                own_room, towards = max(room[d] - hidden[d], 0.0), dot[d] - moved[d]
                weight = _RISE * _RISE * variance * own_room
                gone = towards * towards / max(own_room, 1e-300) * weight / (1.0 + weight)
                squares = max(less - gone, _LEAST * whole)
                out[g, k, d] = -0.5 * (base + np.log(1.0 + weight) + free * np.log(max(squares, 1e-300)))
    return plain, out


@kernel
def _needed(trend, powers, bound):  # type: ignore[no-untyped-def]
    """Return how many trends (at least two) leave at most `bound` of every power law, and what they leave."""
    basis, left = trend.copy(), powers.copy()
    orthonormal(basis)
    count, most = 0, 0.0
    for j in range(len(basis)):
        count, most = j + 1, 0.0
        for p in range(len(left)):
            subtract(basis[j], left[p])
            most = max(most, np.dot(left[p], left[p]))
        if most <= bound and count > 1:
            break
    return count, most
