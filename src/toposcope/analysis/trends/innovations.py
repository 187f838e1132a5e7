"""The test behind the verdict: what two series share beyond their trends and their own persistence.

Two curves that drift correlate whether or not they are related. What a relation leaves, and a common
drift does not, is agreement between their *innovations*. The test has five steps.

1. Trend. Both series are projected off a constant, a straight line in the step and the leading principal
   functions of the family {t^-b, log t}, b in [0.05, 2], t = (step - first) / smallest spacing + 1: those
   whose singular value exceeds a thousandth of the first (4 at 51 even checkpoints).
2. Spectrum. What remains is expressed in the basis of that complement that makes the covariance of a
   random walk diagonal. White noise is diagonal in every orthonormal basis, so the coefficients of a
   random walk, of white noise and of any sum of the two are exactly uncorrelated, and those of an
   autoregression nearly so.
3. Whitening. Coefficients are divided by their own smooth spectrum, exp of a parabola fitted to
   log z^2 on log eigenvalue. It depends on |z| alone, so it cannot create a correlation.
4. Innovations. Back in time: e (n,) and f (n,). r = sum e f / sqrt(sum e^2 sum f^2).
5. Reference. Under independence the sign of each product e_t f_t is arbitrary. The null distribution is
   that of sum s_t q_t over random signs s_t, q_t = e_t f_t / h_t^(3/8), where h_t, the part of the unit
   vector t that step 1 left, undoes what the projection took from the products (the exponent lies between
   1/4, slightly liberal, and 1/2, slightly conservative at small n); its variance and kurtosis are matched
   by a scaled beta distribution. Because the products stand for themselves, noise whose size changes
   along training needs no model.

Sign flips as a reference are classical; no part of the test is fitted to the runs it judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special
from scipy.linalg import null_space

TREND_TOLERANCE = 1e-3
LEVERAGE_POWER = 0.375
LEAST_LENGTH = 12
TAIL = 0.01
_EXPONENTS = np.linspace(0.05, 2.0, 40)
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Filter:
    """What a grid of steps makes of a series: `basis` (n, m), log-eigenvalues (m,), leverage h (n,)."""

    basis: np.ndarray
    log_variance: np.ndarray
    left: np.ndarray


@dataclass(frozen=True, slots=True)
class Innovations:
    """The result per pair: `r`, its interval [`low`, `high`] and the two-sided `p`; NaN where undefined."""

    r: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray


def trend_basis(steps: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis (n, k) of the trends that are removed, for distinct rising `steps`."""
    steps = np.asarray(steps, float)
    t = (steps - steps[0]) / np.diff(steps).min() + 1.0
    family = np.stack([*(t**-b for b in _EXPONENTS), np.log(t)])
    family = family - family.mean(axis=1, keepdims=True)
    family /= np.linalg.norm(family, axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(family.T, full_matrices=False)
    keep = left[:, size > TREND_TOLERANCE * size[0]]
    basis, _ = np.linalg.qr(np.column_stack([np.ones_like(t), keep, t - t.mean()]))
    return basis


def innovation_filter(steps: np.ndarray) -> Filter:
    """Return the filter of a grid of distinct rising steps (cached)."""
    return _filter(tuple(float(step) for step in steps))


@lru_cache(maxsize=64)
def _filter(steps: tuple[float, ...]) -> Filter:
    trend = trend_basis(np.array(steps))
    rest = null_space(trend.T)
    index = np.arange(len(steps), dtype=float)
    walk = np.minimum.outer(index, index)
    variance, vectors = np.linalg.eigh(rest.T @ walk @ rest)
    left = np.maximum(1.0 - np.einsum("ij,ij->i", trend, trend), 1e-6)
    return Filter(rest @ vectors, np.log(np.maximum(variance, _TINY)), left)


def innovations(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the innovations of each column of `values` (n, columns): steps 1 to 4 of the module.

    A column that its trend explains to rounding has none: NaN.
    """
    filt = innovation_filter(steps)
    values = values - values.mean(axis=0)
    z = filt.basis.T @ values
    whole = np.einsum("ij,ij->j", values, values)
    dust = np.einsum("ij,ij->j", z, z) <= 1e-20 * whole
    log_power = np.log(np.maximum(z * z, np.finfo(float).tiny))
    powers = np.vander(filt.log_variance, 3)
    coefficients, *_ = np.linalg.lstsq(powers, log_power, rcond=None)
    white = filt.basis @ (z * np.exp(-0.5 * (powers @ coefficients)))
    white[:, dust | ~(whole > 0)] = np.nan
    return white


def innovation_test(e: np.ndarray, f: np.ndarray, left: np.ndarray, *, level: float = 0.95) -> Innovations:
    """Test each pair of innovation columns (n, pairs) for correlation: step 5 of the module.

    `left` (n,) is the filter's leverage complement. The interval inverts the test around r.

    Examples
    --------
    >>> steps = np.arange(51) * 100.0
    >>> noise = np.random.default_rng(0).standard_normal((51, 2))
    >>> x = (steps + 100) ** -0.5 + 0.01 * noise[:, [0]]
    >>> y = -((steps + 100) ** -0.3) + 0.01 * (noise[:, [0]] + noise[:, [1]])
    >>> filt = innovation_filter(steps)
    >>> result = innovation_test(innovations(x, steps), innovations(y, steps), filt.left)
    >>> bool(result.p[0] < 0.001), bool(result.r[0] > 0.5)
    (True, True)
    """
    product = e * f
    total = product.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = total / np.sqrt(np.einsum("ij,ij->j", e, e) * np.einsum("ij,ij->j", f, f))
        square = (product / left[:, None] ** LEVERAGE_POWER) ** 2
        variance = square.sum(axis=0)
        equal = 3.0 * variance**2 / np.einsum("ij,ij->j", square, square) - 2.0
        equal = np.maximum(equal, 2.0)  # the number of equal terms with the same kurtosis
        z = total / np.sqrt(variance)
        p = beta_tail(z, equal)
        half = beta_quantile(level, equal) * np.abs(r / z)
    return Innovations(r, np.maximum(r - half, -1.0), np.minimum(r + half, 1.0), p)


def beta_tail(z: np.ndarray, equal: np.ndarray) -> np.ndarray:
    """Return P(|Z| >= |z|) where Z^2 / m has the beta distribution (1/2, (m - 1)/2), m = `equal`.

    Below 1% the normal tail, which is the larger, stands in: the beta distribution ends too soon there.
    """
    part = np.clip(z * z / equal, 0.0, 1.0)
    p = 1.0 - special.betainc(0.5, (equal - 1.0) / 2.0, part)
    return np.maximum(p, np.minimum(2.0 * special.ndtr(-np.abs(z)), TAIL))


def beta_quantile(level: float, equal: np.ndarray) -> np.ndarray:
    """Return the value that |Z| of `beta_tail` stays below with probability `level`."""
    return np.sqrt(equal * special.betaincinv(0.5, (equal - 1.0) / 2.0, level))
