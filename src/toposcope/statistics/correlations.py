"""Correlations of many pairs of series at once: one column per pair, arrays of shape (n, pairs)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from toposcope.core.seeding import rng

COLLINEAR = 1e-8
"""A smaller share of rank residuals is rounding error: the control explains the whole series."""


def ranks(values: np.ndarray) -> np.ndarray:
    """Return mid-ranks down each column, float64, as `scipy.stats.rankdata` does; NaN where one is NaN.

    >>> ranks(np.array([[3.0], [1.0], [3.0]])).ravel().tolist()
    [2.5, 1.0, 2.5]
    """
    rows = np.moveaxis(values, 0, -1)
    order = np.argsort(rows, axis=-1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=-1)
    first = np.ones(rows.shape, bool)  # where a value differs from the previous one
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ties = np.diff(np.flatnonzero(first), append=rows.size)
    places = np.broadcast_to(np.arange(1.0, rows.shape[-1] + 1), rows.shape)[first]
    ranked = np.empty(rows.shape)
    middle = np.repeat(places + (ties - 1) / 2, ties).reshape(rows.shape)
    np.put_along_axis(ranked, order, middle, axis=-1)
    ranked[np.isnan(rows).any(axis=-1)] = np.nan
    return np.moveaxis(ranked, -1, 0)


def correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Pearson's r of each column of `x` with the same column of `y`; NaN where one is constant."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    product = np.einsum("ij,ij->j", x, y)
    scale = np.sqrt(np.einsum("ij,ij->j", x, x) * np.einsum("ij,ij->j", y, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0, np.clip(product / scale, -1.0, 1.0), np.nan)


def t_p_value(r: np.ndarray, degrees: np.ndarray | float) -> np.ndarray:
    """Return the two-sided p of a correlation, Student's t with `degrees` degrees of freedom.

    >>> float(t_p_value(np.array([-0.5898642533936651]), 49)[0].round(7))
    5.2e-06
    """
    degrees = np.asarray(degrees, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(r) * np.sqrt(degrees / np.maximum(1.0 - r * r, 0.0))
        p = 2.0 * special.stdtr(degrees, -t)
    return np.where(np.isfinite(r) & (degrees > 0), np.where(np.isinf(t), 0.0, p), np.nan)


def autocorrelations(x: np.ndarray, lags: int) -> np.ndarray:
    """Return the autocorrelations at lags 1..`lags`, shape (lags, columns)."""
    x = x - x.mean(axis=0)
    n = len(x)
    whole = np.einsum("ij,ij->j", x, x)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([np.einsum("ij,ij->j", x[: n - k], x[k:]) / whole for k in range(1, lags + 1)])


def effective_size(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return n / (1 + 2 sum_k (1 - k/n) rho_x(k) rho_y(k)) of each pair, between 2 and n.

    The sum runs over the lags k < n // 4, whose autocorrelations can still be estimated. Pass ranks for
    Spearman's rho. If both series share a trend, the result is too large to be safe.
    """
    n = len(x)
    lags = max(n // 4 - 1, 1)
    k = np.arange(1, lags + 1)[:, None]
    inflation = 1.0 + 2.0 * np.sum(
        (1.0 - k / n) * autocorrelations(x, lags) * autocorrelations(y, lags), axis=0
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where(inflation > 0, n / inflation, float(n))
    return np.where(np.isfinite(inflation), np.clip(size, 2.0, n), np.nan)


def partial_correlation(x: np.ndarray, y: np.ndarray, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlation of each pair given `controls` (n, c), and the degrees of freedom n - 2 - c.

    Both series are regressed on the controls with an intercept, and the residuals are correlated; with ranks
    throughout, this is the partial Spearman correlation. c counts the linearly independent controls. A
    residual that is only rounding error (the control explains the series) gives NaN.
    """
    design = np.column_stack([np.ones(len(x)), controls])
    left, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis = left[:, sizes > sizes[0] * 1e-10]
    rest_x, rest_y = x - basis @ (basis.T @ x), y - basis @ (basis.T @ y)
    r = correlation(rest_x, rest_y)
    dust = np.minimum(_share_left(rest_x, x), _share_left(rest_y, y)) < COLLINEAR
    degrees = np.full(x.shape[1], float(len(x) - 1 - basis.shape[1]))
    return np.where(dust, np.nan, r), degrees


def _share_left(rest: np.ndarray, whole: np.ndarray) -> np.ndarray:
    whole = whole - whole.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.einsum("ij,ij->j", rest, rest) / np.einsum("ij,ij->j", whole, whole)
    return np.nan_to_num(part)


def holm(p: np.ndarray) -> np.ndarray:
    """Return Holm's adjusted p-values over the finite entries of `p` (family-wise error).

    >>> holm(np.array([0.01, 0.04, 0.03, np.nan])).round(6).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    return _step(p, lambda order, m: (m - order, np.maximum.accumulate))


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Return Benjamini and Hochberg's adjusted p-values over the finite entries (false discovery rate).

    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.04, 0.04]
    """
    return _step(p, lambda order, m: (m / (order + 1.0), lambda q: np.minimum.accumulate(q[::-1])[::-1]))


def _step(p: np.ndarray, rule) -> np.ndarray:  # type: ignore[no-untyped-def]
    p = np.asarray(p, float)
    out = np.full(p.shape, np.nan)
    finite = np.flatnonzero(np.isfinite(p))
    if len(finite):
        order = finite[np.argsort(p[finite], kind="stable")]
        factor, running = rule(np.arange(len(order)), len(order))
        out[order] = np.minimum(running(p[order] * factor), 1.0)
    return out


@lru_cache(maxsize=16)
def signs(draws: int, n: int) -> np.ndarray:
    """Return random signs, int8 (draws, n)."""
    return (2 * rng(name="sign flips", n=n, draw=draws).integers(0, 2, (draws, n)) - 1).astype(np.int8)
