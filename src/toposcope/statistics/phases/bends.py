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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.statistics.phases.curves import LEAST_SEGMENT, Design, Span, shape_rows
from toposcope.statistics.phases.noise import (
    PERSISTENCE,
    VARIANCE,
    Fit,
    calmed,
    exponentials,
    fitted,
    logarithms,
    part,
    sizes,
    subtract,
    total,
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
_AT_ONCE = 200_000
"""Values of waves and shapes under several noise models that are whitened together, a megabyte or two."""
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
    trend, gentle, factor, log_det = grid[0], grid[2], noise[0][_EVEN], noise[1][_EVEN]
    fit = fitted(np.concatenate((given, trend, change[None])), factor, log_det)
    _, table = _beside(fit, np.concatenate((gentle, shapes)), len(gentle), factor, VARIANCE[_EVEN])
    return int(np.argmax(_likelihoods(exponentials(table - table.max()))))


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
    rough = fitted(
        np.concatenate((trend, given, waves / sigma, shared / sigma, z[None])), factor, log_det
    )
    weight = rough.likelihoods
    likeliest = int(weight.argmax())
    variance, best = rough.variance(likeliest), factor[likeliest]
    z = calmed(z, rough.left[likeliest], best)
    count, remainder = _needed(
        whitened(trend, best), whitened(curves / sigma * reach, best), _NEGLIGIBLE * variance
    )
    mean = np.concatenate((given, trend[:count]))
    fit, added = fitted(np.concatenate((mean, z[None])), factor, log_det), np.concatenate((gentle, shapes))
    plain = fit.likelihoods
    models = ((plain > plain.max() - _LIKELY) | (weight > weight.max() - _LIKELY)).nonzero()[0]
    without, table = _beside(fit.under(models), added, len(gentle), factor[models], VARIANCE[models])
    gain, bare, likely, profile = _mixture(without, table)
    place, model = int(profile.argmax()), int(models[likely.argmax()])
    beyond = np.concatenate((mean, gentle[:_FIRST_WAVES], shapes[place : place + 1], z[None]))
    spread = fitted(beyond, factor[model : model + 1], log_det[model : model + 1]).variance(0)
    persistence = total(likely * PERSISTENCE[models])
    return gain, bare, place, persistence, count, remainder / variance, sigma, model, spread, profile


def _mixture(without: np.ndarray, table: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return T, T without waves, the weight of each noise model, and the profile."""
    top, (models, _, shapes) = table.max(), table.shape
    relative = exponentials(table - top)
    likely = relative.reshape(models, -1).cumsum(axis=1)[:, -1]
    profile = top + logarithms(_likelihoods(relative))
    gain = top + math.log(total(relative)) - math.log(shapes) - _log_sum(without)
    bare = _log_sum(table[:, :1]) - math.log(shapes) - _log_sum(without[:, :1])
    return gain, bare, likely / total(likely), profile


def _log_sum(table: np.ndarray) -> float:
    """Return the log of the summed likelihoods."""
    top = table.max()
    return float(top + math.log(total(exponentials(table - top))))


def _likelihoods(relative: np.ndarray) -> np.ndarray:
    """Return the summed likelihoods of each shape."""
    return np.asarray(relative.reshape(-1, relative.shape[2]).sum(axis=0))


def _spread_of_logs(sigma: np.ndarray) -> float:
    """Return the standard deviation of the logarithms."""
    logs = logarithms(sigma)
    apart = logs - total(logs) / len(logs)
    return math.sqrt(total(apart * apart) / len(logs))


def _beside(
    fit: Fit, added: np.ndarray, count: int, factor: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log likelihoods of the series given the means, and given each shape as well.

    The first `count` rows of `added` are gentle waves, the others the shapes. The first table is (models,
    amplitudes), the second (models, amplitudes, shapes). The rise of a shape has a normal prior with `_RISE`
    standard deviations of a change.
    """
    at_once = max(_AT_ONCE // added.size, 1)
    blocks = [slice(first, first + at_once) for first in range(0, len(factor), at_once)]
    tables = [_beside_some(fit.under(block), added, count, factor[block], variance[block]) for block in blocks]
    return np.concatenate([plain for plain, _ in tables]), np.concatenate([table for _, table in tables])


def _beside_some(
    fit: Fit, added: np.ndarray, count: int, factor: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of some models, all at once."""
    both = whitened(added, factor)
    both -= (both @ fit.basis.swapaxes(1, 2)) @ fit.basis
    waves, rows, left = both[:, :count], both[:, count:], fit.left[:, :, None]
    power, turn = np.linalg.eigh(waves @ waves.copy().swapaxes(1, 2))
    power = np.maximum(power, _TINY)
    unit = (turn.swapaxes(1, 2) @ waves) / np.sqrt(power)[:, :, None]
    along, dot, across = unit @ left, rows @ left, rows @ unit.swapaxes(1, 2)
    room = (rows * rows).cumsum(axis=2)[:, :, -1]
    size = 1.0 + (AMPLITUDES**2 * variance[:, None])[:, :, None] * power[:, None]
    taken = 1.0 - 1.0 / size
    turned = taken * along[:, None, :, 0]
    gone = (turned * along[:, None, :, 0]).cumsum(axis=2)[:, :, -1]
    base = fit.volume[:, None] + logarithms(size).cumsum(axis=2)[:, :, -1]
    least = _LEAST * fit.squares[:, None]
    less = np.maximum(fit.squares[:, None] - gone, least)
    free = fit.free[:, None, None]
    plain = -0.5 * (base + free[:, 0] * logarithms(np.maximum(less, 1e-300)))
    own_room = np.maximum(room[:, None] - ((across * across)[:, None] @ taken[..., None])[..., 0], 0.0)
    towards = dot[:, None, :, 0] - (across[:, None] @ turned[..., None])[..., 0]
    weight = (_RISE * _RISE * variance)[:, None, None] * own_room
    gone_too = towards * towards / np.maximum(own_room, 1e-300) * weight / (1.0 + weight)
    squares = np.maximum(np.maximum(less[..., None] - gone_too, least[..., None]), 1e-300)
    return plain, -0.5 * (base[..., None] + logarithms(1.0 + weight) + free * logarithms(squares))


def _needed(trend: np.ndarray, powers: np.ndarray, bound: float) -> tuple[int, float]:
    """Return how many trends (at least two) leave at most `bound` of every power law, and what they leave.

    Both are changed in place.
    """
    part(trend[None], len(trend))
    count, most = _count_needed(trend, powers, bound)
    return int(count), float(most)


@kernel
def _count_needed(basis, left, bound):  # type: ignore[no-untyped-def]
    count, most = 0, 0.0
    for j in range(len(basis)):
        count, most = j + 1, 0.0
        for p in range(len(left)):
            subtract(basis[j], left[p])
            most = max(most, np.dot(left[p], left[p]))
        if most <= bound and count > 1:
            break
    return count, most
