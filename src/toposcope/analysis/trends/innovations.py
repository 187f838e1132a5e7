"""The test behind the verdict: what two series share beyond their trends and their own persistence.

`whitening` makes the innovations of the two series, each alone; e and f are their normal scores, which keep
sign and rank, so that a few large ones do not decide alone. Under independence the sign of
every product e_t f_t is arbitrary, so the null distribution of sum e_t f_t is that of sum s_t q_t over
random signs s_t, with q_t = e_t f_t / h_t^(3/8), where h_t, the part that the projections left of place t,
undoes what they took from the products. Its tail is the saddlepoint approximation of Lugannani and Rice
(1980) with the exact cumulant function K(u) = sum log cosh(q_t u). Because the products stand for
themselves, noise whose size changes along training needs no model. Several runs are one test: their products
are added checkpoint by checkpoint, and one sign flips all runs of a checkpoint, so that runs which saw the
same batches need not be independent of one another.

Sign flips take one of the two to be white. Persistence that both have kept multiplies the variance of
sum e f by 1 + 2 sum_k rho_e(k) rho_f(k) (Bartlett 1935); where that exceeds what white series make by more
than its standard error, the sum is shortened by its root.

A fifth of the level goes to a second test, of shared spikes and transitions (`alignment`). The interval of r
inverts the first at the rest of the level; where only the second finds the pair, r and its interval are the
second's. So an interval excludes 0 where p is at most 5%, and only there.

Which pairs are not tested is said in `refusals`; what is one coincidence is left out first (`coincidences`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numba import njit

from toposcope.analysis import statistics as stat
from toposcope.analysis.trends.alignment import (
    SHARE,
    alignment_interval,
    alignment_tail,
    combined,
    scales,
    standardised,
)
from toposcope.analysis.trends.coincidences import freed
from toposcope.analysis.trends.refusals import SAME, differing, untestable
from toposcope.analysis.trends.whitening import SHORT, Whitened
from toposcope.distributions import normal_quantile
from toposcope.seeding import rng

LEVERAGE_POWER = 0.375
LEAST_LENGTH = 12
ALPHA = 0.05
"""The level of intervals, and of `spikes`."""
WANING = 5.0
WIDER = 1.5
"""Where both series persist, or are too short to tell, the interval reaches so many times as far away from 0:
a misjudged persistence pulls a strong r towards 0. Set on autoregressions and walks with r up to .85."""
_SIMULATED = 400
_MANY, _FAR = 100, 6.0
"""From so many innovations on, a sum so many standard deviations out has a tail below 1e-7."""
_TAKEN = 1e-3
"""A checkpoint of which less is left has a regressor of its own, and no product."""


@dataclass(frozen=True, slots=True)
class Innovations:
    """Per pair: `r`, its interval [`low`, `high`] and the two-sided `p`.

    `least` is the p that innovations of these sizes can reach. `why` says why a pair is not tested (p is then
    NaN), `note` what was left out of it; both are empty elsewhere. `spikes`: only the alignment finds it.
    """

    r: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    least: np.ndarray
    why: np.ndarray
    note: np.ndarray
    spikes: np.ndarray


def innovation_test(x: Whitened, y: Whitened, *, intervals: bool = True) -> Innovations:
    """Test each pair of whitened columns for correlation; the interval of r inverts the test.

    Examples
    --------
    >>> from toposcope.analysis.trends.whitening import whiten
    >>> steps = np.arange(51) * 100.0
    >>> noise = np.random.default_rng(0).standard_normal((51, 2))
    >>> x = (steps + 100) ** -0.5 + 0.01 * noise[:, 0]
    >>> y = -((steps + 100) ** -0.3) + 0.01 * (noise[:, 0] + noise[:, 1])
    >>> result = innovation_test(whiten(x[:, None], steps), whiten(y[:, None], steps))
    >>> bool(result.p[0] < 0.001), bool(result.low[0] > 0.3)
    (True, True)
    """
    why = untestable(x, y)
    x, y, note = freed(x, y)
    left = np.sqrt(x.left * y.left)
    e, f, steady = compared(x, y)
    excess = persistence_left(e, f, x.trace * y.trace)
    products = pair_products(e, f, left)
    e, f = standardised(x.e), standardised(y.e)
    alignable = steady & np.isfinite(e).all(axis=0) & np.isfinite(f).all(axis=0)
    alpha = np.where(alignable, 1.0 - SHARE, 1.0) * ALPHA
    signs = product_test(*products, why, excess=excess, alpha=alpha, intervals=intervals)
    tails, ends = np.full((2, len(why)), np.nan), np.full((3, len(why)), np.nan)
    for j in np.flatnonzero(np.isfinite(signs.p) & alignable):
        pair = e[None, :, j], f[None, :, j], left[:, j].mean() / excess[j]
        tails[:, j] = alignment_tail(*pair)
        if intervals and only_aligned(signs.p[j], tails[0, j]):
            ends[:, j] = alignment_interval(*pair, SHARE * ALPHA)
    found = widened(with_alignment(signs, tails, ends), persisting(x, y))
    return replace(found, note=np.where(why == "", note, ""))


def persisting(x: Whitened, y: Whitened) -> np.ndarray:
    """Say of each pair whether both persist, or are too short for that to be told."""
    return ((x.order > 0) & (y.order > 0)) | (x.count < SHORT)


def widened(found: Innovations, persist: np.ndarray) -> Innovations:
    """Move the end of each interval that is further from 0 `WIDER` times as far out, where both `persist`.

    What the interval says of 0 stays as it is.
    """
    further = np.where(persist, WIDER, 1.0)
    high = np.where(found.r > 0, np.minimum(found.r + further * (found.high - found.r), 1.0), found.high)
    low = np.where(found.r < 0, np.maximum(found.r - further * (found.r - found.low), -1.0), found.low)
    return replace(found, low=low, high=high)


def persistence_left(e: np.ndarray, f: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """Return by how much persistence kept by both columns (n, pairs) multiplies the variance of sum e f.

    1 + 2 sum_k (rho_e(k) rho_f(k) - trace_k - (1 - k/n) r^2 / n), k up to the largest order of autoregression
    tried; 1 where it does not exceed 1 by 2 sqrt(lags) / n, the standard error for white series. `trace`
    (lags, pairs) is the part of rho_e rho_f that the two projections make: h has seen to it. Innovations that
    are the same have no excess: what persists in both is then what they share.

    >>> walks = np.cumsum(np.random.default_rng(0).standard_normal((50, 2)), axis=0)
    >>> bool(persistence_left(walks[:, :1], walks[:, 1:], np.zeros((10, 1)))[0] > 2.0)
    True
    """
    n, lags = len(e), len(trace)
    with np.errstate(invalid="ignore", divide="ignore"):
        e, f = (z / np.sqrt(np.sum(z * z, axis=0)) for z in (e, f))
        own = np.sum(e * f, axis=0) ** 2 / n
        excess = np.zeros(e.shape[1])
        for k in range(1, lags + 1):
            both = np.sum(e[k:] * e[:-k], axis=0) * np.sum(f[k:] * f[:-k], axis=0)
            excess += 2.0 * (both - trace[k - 1] - (1.0 - k / n) * own)
        kept = (excess > 2.0 * np.sqrt(lags) / n) & (own * n < SAME**2)
        return np.where(kept, 1.0 + excess, 1.0)


def scores(e: np.ndarray) -> np.ndarray:
    """Return the normal scores of each column, by the rank of |e|, with the sign of e.

    >>> scores(np.array([[9.0], [-0.1], [0.2]])).round(2).ravel().tolist()
    [1.15, -0.32, 0.67]
    """
    return np.sign(e) * normal_quantile(0.5 + stat.ranks(np.abs(e)) / (len(e) + 1) / 2.0)


def only_aligned(signs: np.ndarray, aligned: np.ndarray) -> np.ndarray:
    """Say where the alignment finds at `ALPHA` what the signs do not, given the p of both."""
    return np.asarray((aligned <= SHARE * ALPHA) & (signs > (1.0 - SHARE) * ALPHA))


def with_alignment(signs: Innovations, tails: np.ndarray, ends: np.ndarray) -> Innovations:
    """Join the test by signs and that by order.

    `tails` (2, pairs): p of the second, and the least within reach; `ends` (3, pairs): its r and interval,
    which stand where it alone finds the pair.
    """
    spikes = only_aligned(signs.p, tails[0])
    p, least = combined(signs.p, tails[0]), combined(signs.least, tails[1])
    there = spikes & np.isfinite(ends[0])
    r, low, high = (
        np.where(there, new, old) for new, old in zip(ends, (signs.r, signs.low, signs.high), strict=True)
    )
    return replace(signs, r=r, low=low, high=high, p=p, least=least, spikes=spikes)


def compared(x: Whitened, y: Whitened) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return e and f of each pair, and whether they are `steady`: scores, or what is as it is.

    Where both sizes vary more than `WANING`-fold along the run, a few large innovations leave their mark on
    the others of both series; those then stand as they are, and are not put in other orders.
    """
    with np.errstate(invalid="ignore"):
        folds = np.minimum(*(np.ptp(np.log(scales(z.e)), axis=0) for z in (x, y)))
        steady = ~((folds > np.log(WANING)) & differing(x, y))
    e, f = (np.where(steady, scores(z.e), z.e) for z in (x, y))
    return e, f, steady


def pair_products(
    e: np.ndarray, f: np.ndarray, left: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return e f, (e^2 + f^2) / 2 and the weights h^(-3/8), each (n, pairs), e and f scaled to power 1."""
    with np.errstate(invalid="ignore", divide="ignore"):
        e = e / np.sqrt(np.mean(e * e, axis=0))
        f = f / np.sqrt(np.mean(f * f, axis=0))
    return e * f, (e * e + f * f) / 2.0, np.where(left > _TAKEN, left, 1.0) ** -LEVERAGE_POWER


def product_test(
    product: np.ndarray,
    square: np.ndarray,
    weight: np.ndarray,
    why: np.ndarray,
    *,
    excess: np.ndarray | None = None,
    alpha: np.ndarray | None = None,
    intervals: bool = True,
) -> Innovations:
    """Test sum e f (n, pairs) against random signs; r = sum e f / sum (e^2 + f^2) / 2.

    A pair is tested where `why` is empty. A value b is inside the interval of r where
    sum (e f - b (e^2 + f^2) / 2) is not rejected at `alpha`, by default 5%. `excess` is what
    `persistence_left` returns.
    """
    pairs = product.shape[1]
    r = product.sum(axis=0) / square.sum(axis=0)
    short = np.ones(pairs) if excess is None else 1.0 / np.sqrt(excess)
    alpha = np.full(pairs, ALPHA) if alpha is None else alpha
    p, least, low, high = (np.full(pairs, np.nan) for _ in range(4))
    for j in np.flatnonzero(np.isfinite(r) & (why == "")):
        q = np.ascontiguousarray(product[:, j] * weight[:, j])
        p[j] = sign_tail(q, product[:, j].sum() * short[j])
        least[j] = sign_tail(q, np.abs(product[:, j]).sum() * short[j])
        if intervals:
            mine, power, scale = (np.ascontiguousarray(part[:, j]) for part in (product, square, weight))
            low[j], high[j] = _interval(mine, power, scale, r[j], alpha[j], short[j])
    none = np.full(pairs, "", dtype=object)
    return Innovations(r, low, high, p, least, why, none, np.zeros(pairs, bool))


@njit(cache=True)
def sign_tail(q, total):  # type: ignore[no-untyped-def]
    """Return P(|sum s_t q_t| >= |total|) over random signs, by Lugannani and Rice's formula."""
    q = np.abs(q)
    size, far = np.sqrt(np.sum(q * q)), np.sum(q)
    total = abs(total)
    floor = 2.0 * 0.5 ** np.sum(q > 1e-9 * size)
    if not total > 1e-6 * size:
        return 1.0
    if total >= far * (1.0 - 1e-9):
        return floor
    u = _saddle(q, total, total / size**2)
    bend, log_cosh = 0.0, 0.0
    for value in q:
        y = value * u
        tanh = math.tanh(y)
        bend += value * value * (1.0 - tanh * tanh)
        log_cosh += y + math.log1p(math.exp(-2.0 * y)) - math.log(2.0)
    deviance = max(2.0 * (u * total - log_cosh), 0.0)
    w, v = math.sqrt(deviance), u * math.sqrt(bend)
    if w < 1e-3 or v <= 0.0:
        return max(min(math.erfc(w / math.sqrt(2.0)), 1.0), floor)
    density = math.exp(-0.5 * deviance) / math.sqrt(2.0 * math.pi)
    p = math.erfc(w / math.sqrt(2.0)) + 2.0 * density * (1.0 / v - 1.0 / w)
    return max(min(p, 1.0), floor)


@njit(cache=True)
def _saddle(q, total, u):  # type: ignore[no-untyped-def]
    """Return the u at which the derivative of sum log cosh(q u) is `total`: Newton's method within bounds."""
    low, high = 0.0, np.inf
    for _ in range(200):
        slope, bend = 0.0, 0.0
        for value in q:
            tanh = math.tanh(value * u)
            slope += value * tanh
            bend += value * value * (1.0 - tanh * tanh)
        gap = total - slope
        if abs(gap) < 1e-10 * total:
            break
        if gap > 0:
            low = u
        else:
            high = u
        u = u + gap / bend if bend > 0.0 else high
        if not low < u < high:
            u = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return u


@njit(cache=True)
def _interval(product, square, weight, r, alpha, short):  # type: ignore[no-untyped-def]
    """Return the least and the largest value that the test does not reject at `alpha`; 0 is tried first."""
    ends = np.empty(2)
    for side in range(2):
        inside, outside = r, -1.0 if side == 0 else 1.0
        for halving in range(13):
            middle = 0.5 * (inside + outside)
            if halving == 0:
                if r * outside >= 0.0:
                    continue
                middle = 0.0
            rest = product - middle * square
            if sign_tail(rest * weight, rest.sum() * short) > alpha:
                inside = middle
            else:
                outside = middle
        ends[side] = inside
    return ends[0], ends[1]


@lru_cache(maxsize=256)
def detectable_r(free: int, family: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the r found with this power from `free` innovations with `family` rows corrected for.

    Simulated, 400 pairs of white normal innovations, by signs alone at .8 alpha / family; NaN where even
    r = .99 is not found so often.

    >>> 0.3 < detectable_r(45, 1) < 0.5 < detectable_r(45, 60) < 0.8
    True
    """
    if free < 3:
        return float("nan")
    g = rng(name="detectable", n=free)
    e, other = g.standard_normal((2, _SIMULATED, free))
    grid = np.arange(0.05, 1.0, 0.02)
    low, high = 0, len(grid)
    while low < high:
        middle = (low + high) // 2
        if _found(e, other, grid[middle], (1.0 - SHARE) * alpha / family, power):
            high = middle
        else:
            low = middle + 1
    return float(grid[low]) if low < len(grid) else float("nan")


@njit(cache=True, nogil=True)
def _found(e, other, r, alpha, power):  # type: ignore[no-untyped-def]
    """Say whether `power` of the pairs of correlation r, or more, have p <= alpha; stop when it is sure."""
    rows, found, rest = len(e), 0, np.sqrt(1.0 - r * r)
    for i in range(rows):
        row = e[i] * (r * e[i] + rest * other[i])
        found += _within(row, alpha)
        if found / rows >= power or (found + rows - 1 - i) / rows < power:
            break
    return found / rows >= power


@njit(cache=True)
def _within(q, alpha):  # type: ignore[no-untyped-def]
    """Say whether `sign_tail` of q is at most alpha; a sum far out is not searched for its saddle point."""
    total = q.sum()
    z = abs(total) / np.sqrt(np.sum(q * q))
    if len(q) >= _MANY and z > _FAR and alpha > 1e-6:
        return True  # the tail is below 2 exp(-z^2 / 2) (Hoeffding)
    return sign_tail(q, total) <= alpha
