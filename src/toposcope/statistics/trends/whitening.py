"""Removes the smooth trend and the persistence of each series, before two of them are compared.

The correlation of two persistent series says little. The correlation of the parts that their own past does
not explain says much (Box and Jenkins 1970; Haugh 1976). For every series separately:

1. Trend. The core is a constant, a line in the step, the leading principal functions of {t^-b, log t} and, if
   known, the learning rate, its integral and its lagged value. Beyond the core, there is a nested family of
   smooth functions: the principal functions of exponentials in the step and of sigmoids in the step and its
   logarithm.
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

At uneven steps a series may have been smoothed row by row. Then the trends are smoothed, too, by the running
mean that makes the series most likely (`row_means`).

If checkpoints are missing from an even grid, a persistence counted in checkpoints would be wrong. So the
series is placed on the full grid, and every hole has its own regressor: least squares with missing values.

The results are the standardised innovations e (n,) and h (n,), the share of each that the projection left.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from toposcope.core.threads import row_blocks, run_blocks
from toposcope.statistics.trends._autoregressions import HOLE, PENALTY, fitted, orthonormal, whitened_rows
from toposcope.statistics.trends.basis import trend_family
from toposcope.statistics.trends.grids import even_steps, full_steps
from toposcope.statistics.trends.row_means import RowMean, likeliest

MOST_ORDER = 12
"""The largest order of an autoregression from 60 checkpoints on; with fewer, a fifth of their number."""
SHORT = 40
"""With fewer checkpoints, the order of an autoregression is poorly determined."""
_MOST_CACHED = 2048
"""More than the series of a store; simulations would fill the memory."""
_CACHE: dict[bytes, tuple[np.ndarray, ...]] = {}
"""Recently whitened series, by the digest of their values and of the trends."""


@dataclass(frozen=True, slots=True)
class Whitened:
    """Innovations `e` and what the projection `left` of each, both (n, columns).

    `trace` (lags, columns) is the autocorrelation that the projection alone gives white series. n counts the
    positions of `steps`, holes included, and `count` the existing ones. `e` is in standard deviations of the
    series. Per column there are the number of `trends`, the `order`, and whether the family of trends was
    `exhausted`; `choices` is the number of trend sizes to choose from.
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
    design = _design(steps, rate)
    sizes = design.sizes
    centred = values - values.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    whole = np.zeros((values.shape[1], len(design.there)))
    whole[:, design.there] = (centred / np.where(scale > 0, scale, 1.0)).T
    e, left, trace, place, order, power = _known(whole, design)
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


@dataclass(frozen=True, slots=True)
class _Design:
    """What a series at some steps is whitened by.

    `there` says which of the full steps exist; `trends` are orthonormal rows on the existing steps, the core
    first, and `sizes` the numbers of them to choose from; `basis` has one row per hole, then the trends.
    """

    there: np.ndarray
    trends: np.ndarray
    sizes: np.ndarray
    basis: np.ndarray
    even: bool

    @property
    def holes(self) -> int:
        """The number of missing checkpoints."""
        return len(self.basis) - len(self.trends)

    @property
    def order(self) -> int:
        """The largest order of an autoregression."""
        return most_order(self.trends.shape[1])


def _design(steps: np.ndarray, rate: np.ndarray | None) -> _Design:
    full = full_steps(steps)
    trends, sizes = trend_family(steps, rate)
    there = np.isin(full, steps)
    holes = np.flatnonzero(~there)
    basis = trends
    if len(holes):
        basis = np.zeros((len(holes) + len(trends), len(there)))
        basis[np.arange(len(holes)), holes] = 1.0
        basis[len(holes) :, there] = trends
    return _Design(there, trends, sizes, basis, even_steps(steps))


def _known(whole: np.ndarray, design: _Design) -> list[np.ndarray]:
    """Return the result of `_by_rows`, computed once per series.

    Each feature is compared with several targets, and in several tables.
    """
    if len(whole) > _MOST_CACHED:  # a simulation: no series comes again
        return _by_rows(whole, design)
    fixed = hashlib.blake2b(
        design.basis.tobytes() + design.sizes.tobytes() + repr((design.holes, design.even)).encode(),
        digest_size=16,
    )
    keys = []
    for row in whole:
        series = fixed.copy()
        series.update(row.tobytes())
        keys.append(series.digest())
    cached = {key: rows_cached for key in keys if (rows_cached := _CACHE.get(key)) is not None}
    new = [j for j, key in enumerate(keys) if key not in cached]
    rows = np.ascontiguousarray(whole[new])
    parts = run_blocks(lambda at: _by_rows(rows[at[0] : at[1]], design), row_blocks(len(rows)))
    whitened_parts = [np.concatenate(part) for part in zip(*parts, strict=True)]
    for i, j in enumerate(new):
        cached[keys[j]] = tuple(part[i].copy() for part in whitened_parts)
    for key in dict.fromkeys(keys):
        _CACHE.pop(key, None)
        _CACHE[key] = cached[key]  # move to the end: the least recently used go first
    while len(_CACHE) > _MOST_CACHED:
        _CACHE.pop(next(iter(_CACHE)), None)
    return [np.array(column) for column in zip(*(cached[key] for key in keys), strict=True)]


def _by_rows(whole: np.ndarray, design: _Design) -> list[np.ndarray]:
    """Whiten each row; at uneven steps by smoothed trends where the row is a running mean."""
    holes = design.holes
    whitened_parts = list(
        whitened_rows(whole, design.basis, design.sizes + holes, design.order, holes, holes == 0)
    )
    if design.even:
        return whitened_parts
    for j in range(len(whole)):
        row = whole[j, design.there]
        mean = _mean_of(row, design)
        if mean is not None:
            _replace(whitened_parts, j, row, orthonormal(mean.of(design.trends)), design)
    return whitened_parts


def _mean_of(row: np.ndarray, design: _Design) -> RowMean | None:
    """Return the running mean over rows that a series most likely is; None if it likely is none."""
    core = design.trends[: design.sizes[0]]

    def score(mean: RowMean) -> float:
        basis = orthonormal(mean.of(core))
        return float(fitted(row, basis, design.order, 0, len(basis), 0)[0])

    return likeliest(score, len(row), PENALTY)


def _replace(
    whitened_parts: list[np.ndarray], j: int, row: np.ndarray, basis: np.ndarray, design: _Design
) -> None:
    """Put series j, whitened by other trends and counted in rows, in its place."""
    e, left, trace, place, order, _ = whitened_rows(row[None], basis, design.sizes, design.order, 0, True)
    whitened_parts[0][j], whitened_parts[1][j] = 0.0, HOLE
    whitened_parts[0][j, design.there], whitened_parts[1][j, design.there] = e[0], left[0]
    whitened_parts[2][j], whitened_parts[3][j], whitened_parts[4][j] = trace[0], place[0], order[0]


def most_order(n: int) -> int:
    """Return the largest autoregressive order tried: n // 5, at most 12."""
    return min(n // 5, MOST_ORDER)
