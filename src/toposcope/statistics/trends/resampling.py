"""Resampled and simulated Spearman correlations: bootstraps of a pair, and nulls of drifting series."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.seeding import rng
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.statistics.correlations import autocorrelations

PHIS = np.array([*np.arange(0.0, 0.9, 0.05), 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 1.0])
"""Autoregressive coefficients are rounded to these, so that series share their null distributions."""
WALK = len(PHIS) - 1
_CHUNK = 512
"""The number of columns resampled together; affects only memory and speed."""


def block_length(n: int) -> int:
    """Return the block length of the moving-block bootstrap: round(2.16 n^(1/3)), 8 at n = 51.

    Growth with the cube root of the length is usual for a variance; the factor gives 8 at 51 checkpoints.

    >>> block_length(51), block_length(25), block_length(100)
    (8, 6, 10)
    """
    return max(1, min(n, round(2.16 * n ** (1 / 3))))


def iid_indices(n: int, draws: int) -> np.ndarray:
    """Return (draws, n) indices of an ordinary bootstrap, which assumes independent checkpoints."""
    return rng(name="iid bootstrap", n=n, draw=draws).integers(0, n, (draws, n), dtype=np.int32)


def block_indices(n: int, draws: int, length: int) -> np.ndarray:
    """Return (draws, n) indices of a moving-block bootstrap: blocks start anywhere and do not wrap around."""
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
        rho = _correlations(x[:, part], y[:, part], indices)
        finite = np.isfinite(rho)
        whole = finite.all(axis=1)
        low[start:][: len(rho)][whole], high[start:][: len(rho)][whole] = np.percentile(
            rho[whole], tails, axis=1
        )
        for j in np.flatnonzero(~whole & finite.any(axis=1)):
            low[start + j], high[start + j] = np.percentile(rho[j, finite[j]], tails)
    return low, high


def _correlations(x: np.ndarray, y: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return (pairs, draws) rank correlations; a series y shared by several pairs is ranked once."""
    shared, of = np.unique(y, axis=1, return_inverse=True)
    beside = np.argsort(of, kind="stable")
    rho = np.empty((len(beside), len(indices)))
    ordered = (*_sorted(x[:, beside]), *_sorted(shared), of[beside])
    blocks = [indices[start:stop] for start, stop in row_blocks(len(indices))]
    rho[beside] = np.concatenate(run_blocks(lambda block: _resampled(*ordered, block), blocks)).T
    return rho


def _sorted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of each column, as rows, and the position of the last of equal values in it."""
    rows = np.ascontiguousarray(values.T)
    order = np.argsort(rows, axis=1, kind="stable")
    along = np.take_along_axis(rows, order, axis=1)
    last = np.ones(rows.shape, bool)
    last[:, :-1] = along[:, 1:] != along[:, :-1]
    return order.astype(np.int32), last


@kernel
def _resampled(order, last, order_y, last_y, of, indices):  # type: ignore[no-untyped-def]
    """Spearman's rho (draws, pairs) of pair p, rows p and of[p]; pairs with the same y are adjacent.

    A resample is a count for each checkpoint, made once for all pairs. Sums are of integers.
    """
    pairs, n = order.shape
    out = np.empty((len(indices), pairs))
    for d in range(len(indices)):
        times, weighted = np.zeros(n, np.int64), np.empty(n, np.int64)
        for i in range(n):
            times[indices[d, i]] += 1
        yy = 0
        for p in range(pairs):
            if p == 0 or of[p] != of[p - 1]:
                yy = _weighted_ranks(order_y[of[p]], last_y[of[p]], times, weighted)
            xx = xy = seen = here = total = 0
            for k in range(n):
                here += times[order[p, k]]
                total += weighted[order[p, k]]
                if last[p, k]:
                    rank = 2 * seen + here - n
                    xx += here * rank * rank
                    xy += total * rank
                    seen += here
                    here = total = 0
            out[d, p] = xy / np.sqrt(float(xx) * float(yy)) if xx > 0 and yy > 0 else np.nan
    return out


@kernel
def _weighted_ranks(order, last, times, out):  # type: ignore[no-untyped-def]
    """Write each checkpoint's count x twice its centred mid-rank to `out`; return the sum of count rank^2."""
    n = len(order)
    seen = here = first = squares = 0
    for k in range(n):
        here += times[order[k]]
        if last[k]:
            rank = 2 * seen + here - n
            for j in range(first, k + 1):
                out[order[j]] = times[order[j]] * rank
            squares += here * rank * rank
            seen += here
            first = k + 1
            here = 0
    return squares


def _autoregressive_ranks(noise: np.ndarray, phi: float) -> np.ndarray:
    """Centred ranks of stationary AR(1) series driven by the rows of `noise` (draws, n)."""
    series = noise.T.copy()
    series[0] /= np.sqrt(1.0 - phi * phi) if phi < 1.0 else 1.0
    for i in range(1, len(series)):
        series[i] += phi * series[i - 1]
    ranks = np.arange(len(series), dtype=np.float32) - np.float32(0.5 * (len(series) - 1))
    out = np.empty(noise.shape, np.float32)
    np.put_along_axis(out, np.argsort(series.T, axis=1), ranks[None], axis=1)
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

    `phi_x` and `phi_y` are indices into `PHIS`, whose last entry, `WALK`, means random walks.
    """
    x, y = _surrogate_ranks(n, draws, "x", phi_x), _surrogate_ranks(n, draws, "y", phi_y)
    rho = np.einsum("ij,ij->i", x, y, dtype=np.float64) / (n * (n * n - 1) / 12.0)
    return np.sort(np.abs(rho))


def null_p_value(rho: np.ndarray, null: np.ndarray) -> np.ndarray:
    """Return (1 + the number of |null| >= |rho|) / (draws + 1)."""
    above = len(null) - np.searchsorted(null, np.abs(rho) - 1e-12)
    return np.where(np.isfinite(rho), (1.0 + above) / (len(null) + 1.0), np.nan)


def walk_p_value(rho: np.ndarray, n: int, draws: int) -> np.ndarray:
    """Return how often two independent random walks of length n correlate at least as strongly.

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
    """Return how often independent AR(1) surrogates of each pair correlate at least as strongly as `rho`."""
    n = len(x)
    phis_x, phis_y = nearest_phi(x), nearest_phi(y)
    out = np.full(len(rho), np.nan)
    for key in set(zip(phis_x.tolist(), phis_y.tolist(), strict=True)):
        here = (phis_x == key[0]) & (phis_y == key[1])
        out[here] = null_p_value(rho[here], null_correlations(n, draws, *key))
    return out
