"""Resampled and simulated Spearman correlations: bootstraps of a pair, and nulls of drifting series."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit, prange
from scipy.stats import rankdata

from toposcope.analysis.statistics import autocorrelations
from toposcope.seeding import rng

PHIS = np.array([*np.arange(0.0, 0.9, 0.05), 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 1.0])
"""Autoregressive coefficients are rounded to these, so that series share their null distributions."""
WALK = len(PHIS) - 1
_CHUNK = 512


def block_length(n: int) -> int:
    """Return the block length of the moving-block bootstrap: round(2.16 n^(1/3)), 8 at n = 51.

    Blocks that grow with the cube root of the length are the usual rate for a variance; the factor
    makes 8 of 51 checkpoints.

    >>> block_length(51), block_length(25), block_length(100)
    (8, 6, 10)
    """
    return max(1, min(n, round(2.16 * n ** (1 / 3))))


def iid_indices(n: int, draws: int) -> np.ndarray:
    """Return (draws, n) indices of an ordinary bootstrap, which takes checkpoints for independent."""
    return rng(name="iid bootstrap", n=n, draw=draws).integers(0, n, (draws, n), dtype=np.int32)


def block_indices(n: int, draws: int, length: int) -> np.ndarray:
    """Return (draws, n) indices of a moving-block bootstrap: blocks start anywhere, none wraps around."""
    blocks = -(-n // length)
    starts = rng(name="block bootstrap", n=n, draw=draws, length=length).integers(
        0, n - length + 1, (draws, blocks), dtype=np.int32
    )
    indices = starts[:, :, None] + np.arange(length, dtype=np.int32)
    return np.ascontiguousarray(indices.reshape(draws, -1)[:, :n])


def bootstrap_interval(
    x: np.ndarray, y: np.ndarray, indices: np.ndarray, *, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return the percentile interval of each pair's Spearman correlation over the resamples.

    `x`, `y` (n, pairs); `indices` (draws, n). Resamples in which a series is constant are left out.
    """
    low, high = np.full(x.shape[1], np.nan), np.full(x.shape[1], np.nan)
    tails = [50 * (1 - level), 50 * (1 + level)]
    for start in range(0, x.shape[1], _CHUNK):
        part = slice(start, start + _CHUNK)
        rho = _resampled(_levels(x[:, part]), _levels(y[:, part]), indices)
        known = np.isfinite(rho)
        whole = known.all(axis=1)
        low[start:][: len(rho)][whole], high[start:][: len(rho)][whole] = np.percentile(
            rho[whole], tails, axis=1
        )
        for j in np.flatnonzero(~whole & known.any(axis=1)):
            low[start + j], high[start + j] = np.percentile(rho[j, known[j]], tails)
    return low, high


def _levels(values: np.ndarray) -> np.ndarray:
    """Return each column's dense ranks (ties share one), as rows of int32."""
    return np.ascontiguousarray(rankdata(values, method="dense", axis=0).T - 1).astype(np.int32)


@njit(parallel=True, cache=True)
def _resampled(x, y, indices):  # type: ignore[no-untyped-def]
    """Spearman's rho of rows x[p], y[p] under every resample; ranks by counting levels."""
    pairs, n = x.shape
    draws = indices.shape[0]
    out = np.empty((pairs, draws))
    for p in prange(pairs):
        rank_x, rank_y = np.empty(n), np.empty(n)
        count = np.empty(n, np.int32)
        for d in range(draws):
            _counted_ranks(x[p], indices[d], count, rank_x)
            _counted_ranks(y[p], indices[d], count, rank_y)
            xy = xx = yy = 0.0
            for i in range(n):
                xy += rank_x[i] * rank_y[i]
                xx += rank_x[i] * rank_x[i]
                yy += rank_y[i] * rank_y[i]
            out[p, d] = xy / np.sqrt(xx * yy) if xx > 0 and yy > 0 else np.nan
    return out


@njit(cache=True)
def _counted_ranks(levels, index, count, out):  # type: ignore[no-untyped-def]
    """Write the centred mid-ranks of levels[index] to `out`, without sorting."""
    n = len(index)
    count[:] = 0
    for i in range(n):
        count[levels[index[i]]] += 1
    seen = 0
    middle = 0.5 * (n - 1)
    for level in range(n):
        here = count[level]
        count[level] = 2 * seen + here - 1  # twice the mid-rank, from 0
        seen += here
    for i in range(n):
        out[i] = 0.5 * count[levels[index[i]]] - middle


@njit(parallel=True, cache=True)
def _autoregressive_ranks(noise, phi):  # type: ignore[no-untyped-def]
    """Centred ranks of stationary AR(1) series driven by the rows of `noise` (draws, n)."""
    draws, n = noise.shape
    out = np.empty((draws, n), np.float32)
    for d in prange(draws):
        series = np.empty(n)
        series[0] = noise[d, 0] / np.sqrt(1.0 - phi * phi) if phi < 1.0 else noise[d, 0]
        for i in range(1, n):
            series[i] = phi * series[i - 1] + noise[d, i]
        order = np.argsort(series)
        for i in range(n):
            out[d, order[i]] = i - 0.5 * (n - 1)
    return out


@lru_cache(maxsize=8)
def _noise(n: int, draws: int, side: str) -> np.ndarray:
    return rng(name="surrogate", n=n, draw=draws, side=side).standard_normal((draws, n))


@lru_cache(maxsize=64)
def _surrogate_ranks(n: int, draws: int, side: str, phi: int) -> np.ndarray:
    return _autoregressive_ranks(_noise(n, draws, side), PHIS[phi])


@lru_cache(maxsize=4096)
def null_correlations(n: int, draws: int, phi_x: int, phi_y: int) -> np.ndarray:
    """Return |Spearman's rho| of `draws` pairs of independent AR(1) series of length n, sorted.

    `phi_x`, `phi_y` are indices into `PHIS`, whose last entry, `WALK`, means random walks.
    """
    x, y = _surrogate_ranks(n, draws, "x", phi_x), _surrogate_ranks(n, draws, "y", phi_y)
    rho = np.einsum("ij,ij->i", x, y, dtype=np.float64) / (n * (n * n - 1) / 12.0)
    return np.sort(np.abs(rho))


def null_p_value(rho: np.ndarray, null: np.ndarray) -> np.ndarray:
    """Return (1 + the number of |null| >= |rho|) / (draws + 1)."""
    above = len(null) - np.searchsorted(null, np.abs(rho) - 1e-12)
    return np.where(np.isfinite(rho), (1.0 + above) / (len(null) + 1.0), np.nan)


def walk_p_value(rho: np.ndarray, n: int, draws: int) -> np.ndarray:
    """Return how often two independent random walks of length n correlate as strongly.

    >>> p = walk_p_value(np.array([-0.5898642533936651]), 51, 10_000)
    >>> bool(0.24 < p[0] < 0.29)
    True
    """
    return null_p_value(rho, null_correlations(n, draws, WALK, WALK))


def nearest_phi(values: np.ndarray) -> np.ndarray:
    """Return each column's AR(1) coefficient as an index into `PHIS`, corrected for its small-sample bias.

    phi + (1 + 3 phi) / n, from 0 to .995.
    """
    phi = autocorrelations(values, 1)[0]
    phi = np.nan_to_num(phi + (1.0 + 3.0 * phi) / len(values))
    return np.abs(phi[:, None] - PHIS[None, :WALK]).argmin(axis=1)


def surrogate_p_value(x: np.ndarray, y: np.ndarray, rho: np.ndarray, draws: int) -> np.ndarray:
    """Return how often independent AR(1) surrogates of each pair correlate as strongly as `rho`."""
    n = len(x)
    phis_x, phis_y = nearest_phi(x), nearest_phi(y)
    out = np.full(len(rho), np.nan)
    for key in set(zip(phis_x.tolist(), phis_y.tolist(), strict=True)):
        here = (phis_x == key[0]) & (phis_y == key[1])
        out[here] = null_p_value(rho[here], null_correlations(n, draws, *key))
    return out
