"""The lag at which the innovations of two series agree best, tested as the best of all lags."""

from __future__ import annotations

import numpy as np

from toposcope.statistics.correlations import signs
from toposcope.statistics.trends.refusals import untestable
from toposcope.statistics.trends.signs import LEVERAGE_POWER, pair_products, sign_test
from toposcope.statistics.trends.whitening import whiten

FLIPS = 999
"""The number of sign flips for the maximum over the lags; the smallest p is 1/1,000."""
TAIL = 0.01
"""Below this p there are few draws, and the bound over the lags is used if it is smaller."""
_PAIRS = 16
"""The number of pairs flipped together; affects only memory and speed."""


def most_lags(n: int) -> int:
    """Return the largest lead or lag tried, in checkpoints: n // 8, at most 10.

    >>> most_lags(51)
    6
    """
    return max(1, min(10, n // 8))


def lag_statistics(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return, per pair of columns (n, pairs): the best lag, its r, its p over all lags, and the p of a lead.

    A positive lag means that the feature x moves that many checkpoints before y. Each lag has the statistic
    of the verdict's test. The largest of all K lags is compared with the largest after flipping the signs of
    x's innovations at random, with the same flips for every lag (999 draws). Below 1%, where draws are few,
    1 - (1 - p)^K of the smallest p is used if it is smaller. The last value is for positive lags only.
    """
    first, last = whiten(x, steps, rate), whiten(y, steps, rate)
    e, f, why = first.e, last.e, untestable(first, last)
    n, reach = len(e), most_lags(len(steps))
    lags = np.arange(-reach, reach + 1)
    r, p = np.empty((len(lags), x.shape[1])), np.empty((len(lags), x.shape[1]))
    products, z = np.zeros((len(lags), n, x.shape[1])), np.empty((len(lags), x.shape[1]))
    for i, lag in enumerate(lags):
        a, b = (slice(0, n - lag), slice(lag, n)) if lag >= 0 else (slice(-lag, n), slice(0, n + lag))
        left = np.sqrt(first.left[a] * last.left[b])
        r[i], p[i] = _each(pair_products(e, f, a, b, left), why)
        products[i, a] = e[a] * f[b] / left**LEVERAGE_POWER
        size = np.sqrt(np.sum(products[i] ** 2, axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            products[i] /= size
            z[i] = np.abs(np.sum(e[a] * f[b], axis=0)) / size
    safe = np.where(np.isfinite(p), p, 1.0)
    best = safe.argmin(axis=0)
    pick = np.arange(x.shape[1])
    finite = np.isfinite(p).all(axis=0)
    after = lags > 0
    scan, lead = np.full(x.shape[1], np.nan), np.full(x.shape[1], np.nan)
    if finite.any():
        scan[finite], lead[finite] = _largest(products[:, :, finite], z[:, finite], safe[:, finite], after)
    return lags[best], r[best, pick], scan, lead


def _each(parts: tuple[np.ndarray, ...], why: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return r and p of each pair of columns; p is NaN if `why` gives a reason."""
    r, p = (np.full(len(why), np.nan) for _ in range(2))
    for j in np.flatnonzero(np.isfinite(parts[0]).all(axis=0)):
        test = sign_test(*(part[:, j] for part in parts), intervals=False)
        r[j], p[j] = test.r, test.p if why[j] == "" else np.nan
    return r, p


def _largest(
    products: np.ndarray, z: np.ndarray, p: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the p of the largest |z| (lags, pairs) over all lags, and over those `after` zero."""
    lags, n, pairs = products.shape
    flips = signs(FLIPS, n).astype(np.float32)
    hits, leads = np.ones(pairs), np.ones(pairs)
    for start in range(0, pairs, _PAIRS):
        part = slice(start, start + _PAIRS)
        some = np.moveaxis(products[:, :, part], 1, 0).reshape(n, -1).astype(np.float32)
        drawn = np.abs(flips @ some).reshape(FLIPS, lags, -1)
        hits[part] += np.sum(drawn.max(axis=1) >= z[:, part].max(axis=0), axis=0)
        leads[part] += np.sum(drawn[:, after].max(axis=1) >= z[after][:, part].max(axis=0), axis=0)
    out = []
    for count, p_values in ((hits, p), (leads, p[after])):
        share = count / (FLIPS + 1)
        bound = 1.0 - (1.0 - p_values.min(axis=0)) ** len(p_values)
        out.append(np.where(share > TAIL, share, np.minimum(share, bound)))
    return out[0], out[1]
