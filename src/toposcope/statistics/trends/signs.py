"""The tail of a sum of products under random signs, its interval, and the correlation it can detect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.core.seeding import rng

LEVERAGE_POWER = 0.375
"""Set on simulated nulls (docs/statistics-evidence.md, Constants)."""
ALPHA = 0.05
"""The level of the test and of its intervals."""
LAGS = (0, 1, -1, 2, -2)
"""The lags, in checkpoints, by which the first of a pair leads the second."""
LAG_SHARE, SPIKE_SHARE = 0.03, 0.2
"""The shares of the level for each lag other than 0, and for shared spikes.

The rest, .68 of the level, goes to lag 0. With .6, r = .7 at 26 checkpoints lost six points of power
compared with a test without lags."""
OWN_SHARE = 1.0 - SPIKE_SHARE - LAG_SHARE * (len(LAGS) - 1)
_SIMULATED = 400
"""The number of pairs of white series for finding the detectable correlation."""
_MANY, _FAR = 100, 6.0
"""With at least this many innovations, a sum this many standard deviations out has a tail below 1e-7."""
_TAKEN = 1e-3
"""A checkpoint with a smaller residual has its own regressor, and no product."""


@dataclass(frozen=True, slots=True)
class SignTest:
    """Correlation `r` of a pair, its interval [`low`, `high`], the two-sided `p`, the smallest p in reach."""

    r: float
    low: float
    high: float
    p: float
    least: float


def pair_products(
    e: np.ndarray, f: np.ndarray, a: slice, b: slice, left: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return e f, (e^2 + f^2) / 2 and h^(-3/8) of e (n, ...) at `a` and f at `b`, scaled to power 1."""
    return products_of(at_power_one(e)[a], at_power_one(f)[b], left)


def at_power_one(e: np.ndarray) -> np.ndarray:
    """Return each column of e (n, ...) divided by the root of its mean square."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(e / np.sqrt(np.mean(e * e, axis=0)))


def products_of(e: np.ndarray, f: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return e f, (e^2 + f^2) / 2 and h^(-3/8) of series with power 1."""
    return e * f, (e * e + f * f) / 2.0, np.where(left > _TAKEN, left, 1.0) ** -LEVERAGE_POWER


def sign_test(
    product: np.ndarray,
    square: np.ndarray,
    weight: np.ndarray,
    *,
    short: float = 1.0,
    alpha: float = ALPHA,
    intervals: bool = True,
) -> SignTest:
    """Test sum e f, `product` (n,), against random signs; r = sum e f / sum (e^2 + f^2) / 2.

    `square` is (e^2 + f^2) / 2. A value b is inside the interval of r if sum (e f - b (e^2 + f^2) / 2) is not
    rejected at `alpha`. `short` scales the sum down: one over the root of the result of `persistence_left`.

    >>> sign_test(np.ones(8), np.ones(8), np.ones(8)).p
    0.0078125
    """
    product, square, weight = (np.ascontiguousarray(part) for part in (product, square, weight))
    q, total = product * weight, product.sum()
    r = float(total / square.sum())
    p, least = (float(sign_tail(q, size * short)) for size in (total, np.abs(product).sum()))
    low = high = float("nan")
    if intervals:
        low, high = _interval(product, square, weight, r, alpha, short)
    return SignTest(r, float(low), float(high), p, least)


@kernel
def sign_tail(q, total):  # type: ignore[no-untyped-def]
    """Return P(|sum s_t q_t| >= |total|) over random signs, by Lugannani and Rice's formula."""
    sizes = np.empty(len(q))
    squares = far = 0.0
    for i in range(len(q)):
        sizes[i] = abs(q[i])
        squares += q[i] * q[i]
        far += sizes[i]
    size, total, signs = np.sqrt(squares), abs(total), 0
    for i in range(len(q)):
        signs += sizes[i] > 1e-9 * size
    floor = 2.0 * 0.5**signs
    if not total > 1e-6 * size:
        return 1.0
    if total >= far * (1.0 - 1e-9):
        return floor
    u = _saddle(sizes, total, total / size**2)
    bend, log_cosh = 0.0, 0.0
    for value in sizes:
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


@inner_kernel
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


@kernel
def _interval(product, square, weight, r, alpha, short):  # type: ignore[no-untyped-def]
    """Return the smallest and largest value that the test does not reject at `alpha`; 0 is tried first."""
    ends, q = np.empty(2), np.empty(len(product))
    for side in range(2):
        inside, outside = r, -1.0 if side == 0 else 1.0
        for halving in range(13):
            middle = 0.5 * (inside + outside)
            if halving == 0:
                if r * outside >= 0.0:
                    continue
                middle = 0.0
            total = 0.0
            for i in range(len(q)):
                rest = product[i] - middle * square[i]
                q[i] = rest * weight[i]
                total += rest
            if sign_tail(q, total * short) > alpha:
                inside = middle
            else:
                outside = middle
        ends[side] = inside
    return ends[0], ends[1]


@lru_cache(maxsize=256)
def detectable_r(free: int, family: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the r that is found with this power from `free` innovations, corrected for `family` rows.

    It is simulated with 400 pairs of white normal innovations, using only signs at lag 0, at their share of
    alpha / family; NaN if even r = .99 is found less often.

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
        if _found(e, other, grid[middle], OWN_SHARE * alpha / family, power):
            high = middle
        else:
            low = middle + 1
    return float(grid[low]) if low < len(grid) else float("nan")


@kernel
def _found(e, other, r, alpha, power):  # type: ignore[no-untyped-def]
    """Return whether at least `power` of the pairs with correlation r have p <= alpha; stop once certain."""
    rows, within_count, rest, row = len(e), 0, np.sqrt(1.0 - r * r), np.empty(e.shape[1])
    for i in range(rows):
        for t in range(len(row)):
            row[t] = e[i, t] * (r * e[i, t] + rest * other[i, t])
        within_count += _within(row, alpha)
        if within_count / rows >= power or (within_count + rows - 1 - i) / rows < power:
            break
    return within_count / rows >= power


@inner_kernel
def _within(q, alpha):  # type: ignore[no-untyped-def]
    """Return whether `sign_tail` of q is at most alpha; for a sum far out, skip the saddle point."""
    total = squares = 0.0
    for value in q:
        total += value
        squares += value * value
    z = abs(total) / np.sqrt(squares)
    if len(q) >= _MANY and z > _FAR and alpha > 1e-6:
        return True  # the tail is below 2 exp(-z^2 / 2) (Hoeffding)
    return sign_tail(q, total) <= alpha
