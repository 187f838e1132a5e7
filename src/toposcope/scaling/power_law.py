"""The power law f(N) = a N^b (+ c) of a quantity in model size, with the uncertainty of its exponent."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load on first use: optimize costs a quarter of a second

from toposcope.core.distributions import f_quantile, student_quantile, student_two_sided
from toposcope.statistics.correlations import ranks

LEAST_SIZES_FOR_POWER, LEAST_SIZES_FOR_FLOOR = 3, 4
"""The fewest sizes for a N^b, and for a N^b + E with a floor E: one more than parameters, or there is no
interval."""
_EXPONENTS = np.concatenate([-np.geomspace(6.0, 1e-3, 240), np.geomspace(1e-3, 6.0, 240)])
"""The profile of a law with an offset is evaluated at these exponents before refinement."""

_EXACT_SPEARMAN_UP_TO = 8
"""Permutations of up to this many points are enumerated (8! = 40,320) for an exact p-value."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A fitted law f(N) = scale * N**exponent + offset.

    `low` and `high` bound the exponent at confidence `level`; they are infinite if the data set no bound.
    `r2` is measured in log-log for a law without an offset, and on the values themselves for one with an
    offset. `n_sizes` counts distinct N, the number of points that determine the exponent. If `status` is
    "failed", every number is NaN and `reason` says why; "degenerate" numbers are usable, but leave no degree
    of freedom for an interval.
    """

    scale: float
    exponent: float
    offset: float
    low: float
    high: float
    level: float
    r2: float
    spearman: float
    spearman_p: float
    n: int
    n_sizes: int
    sigma: float
    method: str
    status: str = "ok"
    reason: str = ""

    def predict(self, sizes: np.ndarray | float) -> np.ndarray:
        """Return scale * N**exponent + offset for each N in `sizes`, float64."""
        return self.scale * np.asarray(sizes, dtype=float) ** self.exponent + self.offset


def fit_power_law(
    sizes: np.ndarray, values: np.ndarray, *, offset: bool = False, level: float = 0.95
) -> PowerLaw:
    """Fit f(N) = a N^b, or a N^b + c with `offset=True`.

    Without an offset: least squares of log f on log N, interval from Student's t. With an offset: least
    squares on f, where for each b the best (a, c) is linear, and a profile-likelihood interval of b,
    {b : SSE(b) <= SSE_min (1 + F_{1, n-3}(level) / (n-3))}.

    Parameters
    ----------
    sizes, values : arrays of shape (n,)
        N (parameters, tokens or FLOP) and the quantity. Pairs with a non-finite member are left out.
    offset : bool
        Whether to fit the irreducible part c.
    level : float
        Confidence of the interval, in (0, 1).

    Returns
    -------
    PowerLaw
        Bad input gives a law with status "failed" and its reason, never an exception.

    Examples
    --------
    >>> law = fit_power_law(np.array([1e3, 1e4, 1e5, 1e6]), np.array([8.0, 4.1, 2.0, 0.99]))
    >>> round(law.exponent, 2), law.n_sizes, bool(law.low < law.exponent < law.high)
    (-0.3, 4, True)
    """
    x, y = np.asarray(sizes, dtype=float).ravel(), np.asarray(values, dtype=float).ravel()
    if len(x) != len(y):
        return failed_law(0, 0, level, f"{len(x):,} sizes but {len(y):,} values")
    keep = np.isfinite(x) & np.isfinite(y) & (x > 0)
    x, y = x[keep], y[keep]
    n_sizes = len(np.unique(x))
    needed = LEAST_SIZES_FOR_FLOOR if offset else LEAST_SIZES_FOR_POWER
    if n_sizes < needed:
        return failed_law(
            len(x), n_sizes, level, f"{n_sizes} distinct sizes; the law needs at least {needed}"
        )
    if np.ptp(y) == 0:
        return failed_law(len(x), n_sizes, level, "the quantity is constant across sizes")
    if offset:
        return _with_offset(x, y, n_sizes, level)
    if np.any(y <= 0):
        return failed_law(len(x), n_sizes, level, "the quantity has values <= 0; fit it with an offset")
    return _log_log(x, y, n_sizes, level)


def _log_log(x: np.ndarray, y: np.ndarray, n_sizes: int, level: float) -> PowerLaw:
    u, v = np.log(x), np.log(y)
    centred = u - u.mean()
    b = float(centred @ v / (centred @ centred))
    intercept = float(v.mean() - b * u.mean())
    residual = v - intercept - b * u
    free = len(x) - 2
    sse = float(residual @ residual)
    sigma = math.sqrt(sse / free) if free > 0 else math.nan
    half = (
        float(student_quantile(0.5 + level / 2, free)) * sigma / math.sqrt(centred @ centred)
        if free > 0
        else math.inf
    )
    r2 = 1.0 - sse / float(np.sum((v - v.mean()) ** 2))
    rho, p = spearman_exact(x, y)
    return PowerLaw(
        math.exp(intercept), b, 0.0, b - half, b + half, level, r2, rho, p, len(x), n_sizes, sigma,
        "least squares in log-log, Student t", *_freedom(free),
    )  # fmt: skip


def _with_offset(x: np.ndarray, y: np.ndarray, n_sizes: int, level: float) -> PowerLaw:
    centre = float(np.exp(np.mean(np.log(x))))
    z = x / centre  # keeps N**b near 1
    sse = np.array([_linear_part(z, y, b)[2] for b in _EXPONENTS])
    best = int(np.argmin(sse))
    b, least = _refine(z, y, best)
    a, c, _ = _linear_part(z, y, b)
    free = len(x) - 3
    low, high = -math.inf, math.inf
    if free > 0:
        bound = least * (1.0 + f_quantile(level, 1, free) / free)
        low, high = _crossing(z, y, b, bound, -1), _crossing(z, y, b, bound, +1)
    rho, p = spearman_exact(x, y)
    status, reason = _freedom(free)
    if best in (0, len(_EXPONENTS) - 1):
        status, reason = (
            "degenerate",
            "the exponent is at the end of its range, so the offset is not identified",
        )
    return PowerLaw(
        a * centre**-b, b, c, low, high, level, 1.0 - least / float(np.sum((y - y.mean()) ** 2)), rho, p,
        len(x), n_sizes, math.sqrt(least / free) if free > 0 else math.nan,
        "least squares with an offset, profile likelihood", status, reason,
    )  # fmt: skip


def _linear_part(z: np.ndarray, y: np.ndarray, b: float) -> tuple[float, float, float]:
    """Return (a, c, SSE) of the best y = a z**b + c at a fixed b."""
    p = z**b
    pc, yc = p - p.mean(), y - y.mean()
    a = float(pc @ yc / (pc @ pc))
    residual = yc - a * pc
    return a, float(y.mean() - a * p.mean()), float(residual @ residual)


def _refine(z: np.ndarray, y: np.ndarray, best: int) -> tuple[float, float]:
    left, right = _EXPONENTS[max(best - 1, 0)], _EXPONENTS[min(best + 1, len(_EXPONENTS) - 1)]
    optimum = scipy.optimize.minimize_scalar(
        lambda b: _linear_part(z, y, b if b else 1e-6)[2], bounds=(left, right), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    return float(optimum.x), float(optimum.fun)


def _crossing(z: np.ndarray, y: np.ndarray, b: float, bound: float, direction: int) -> float:
    """Return the exponent where the profile leaves the confidence set; infinite if it never does."""
    ahead = (_EXPONENTS - b) * direction > 0
    inside = b
    for outside in _EXPONENTS[ahead][::direction]:
        if _linear_part(z, y, outside)[2] > bound:
            return float(
                scipy.optimize.brentq(lambda e: _linear_part(z, y, e)[2] - bound, inside, outside, xtol=1e-10)
            )
        inside = outside
    return direction * math.inf


def _freedom(free: int) -> tuple[str, str]:
    if free > 0:
        return "ok", ""
    return "degenerate", "as many parameters as points, so there is no interval"


def failed_law(n: int, n_sizes: int, level: float, reason: str) -> PowerLaw:
    """Return a law that could not be fitted, with its reason."""
    nan = math.nan
    return PowerLaw(
        nan, nan, nan, nan, nan, level, nan, nan, nan, n, n_sizes, nan, "none", "failed", reason
    )  # fmt: skip


def _smallest_p(u: np.ndarray, v: np.ndarray) -> float:
    """Return 2 over the number of distinct arrangements; ties within u or v do not count as distinct."""
    ties = sum(float(scipy.special.gammaln(np.unique(x, return_counts=True)[1] + 1.0).sum()) for x in (u, v))
    return min(1.0, 2.0 * math.exp(ties - float(scipy.special.gammaln(len(u) + 1.0))))


def spearman_exact(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return Spearman's rho and its two-sided p-value, exact by enumeration up to eight points.

    With more, Student's approximation, but never below the smallest p of a permutation. With five points, no
    two-sided p below 2/120 = 0.0167 exists, whatever the t approximation gives.

    >>> rho, p = spearman_exact(np.arange(5.0), -np.arange(5.0))
    >>> round(rho, 6), round(p, 4)
    (-1.0, 0.0167)
    """
    if len(x) < 2:
        return math.nan, math.nan
    u, v = ranks(x), ranks(y)
    u, v = u - u.mean(), v - v.mean()
    norm = math.sqrt(float(u @ u) * float(v @ v))
    if norm == 0:
        return math.nan, math.nan
    rho = float(u @ v) / norm
    if len(u) > _EXACT_SPEARMAN_UP_TO:
        t = rho * math.sqrt((len(u) - 2) / max(1 - rho * rho, 1e-300))
        return rho, max(float(student_two_sided(t, len(u) - 2)), _smallest_p(u, v))
    permuted = v[np.array(list(itertools.permutations(range(len(v)))))]
    return rho, float(np.mean(np.abs(permuted @ u) >= abs(float(u @ v)) - 1e-9 * norm))
