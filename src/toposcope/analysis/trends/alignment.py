"""The second half of the verdict's test: whether two series stand out at the same checkpoints.

A sign flip cannot see one shared spike: it is one product, and its sign one bit. An order of the checkpoints
can. The innovations of each series are divided by a scale of their own that follows the run (log |e| on a
line in the checkpoint and in its logarithm), and sum e f is held against its values when the checkpoints of
one series are put in random order. What the projections took makes true products vary more than shuffled
ones, by 1 / mean h; the sum is shortened by the root of that. One shared checkpoint of n has a p of about
1/n; several, less. Of several runs with the same steps all are put in the same order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from toposcope.seeding import rng

ORDERS = 4999
SHARE = 0.2
"""The part of the level that this half may spend."""


def combined(signs: np.ndarray, aligned: np.ndarray) -> np.ndarray:
    """Return the p of both halves, the lesser of signs / .8 and aligned / .2; without the second, signs.

    >>> combined(np.array([0.04, 0.04, 0.5]), np.array([0.001, np.nan, 1.0])).tolist()
    [0.005, 0.04, 0.625]
    """
    both = np.minimum(np.minimum(signs / (1.0 - SHARE), aligned / SHARE), 1.0)
    return np.where(np.isfinite(aligned), both, signs)


def standardised(e: np.ndarray) -> np.ndarray:
    """Divide each column (n, pairs) by its `scales`, and by its power then."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = e / scales(e)
        return np.asarray(scaled / np.sqrt(np.mean(scaled * scaled, axis=0)))


def scales(e: np.ndarray) -> np.ndarray:
    """Return the size of each column (n, pairs) along the run: log |e| on a line in n and log n."""
    n = len(e)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(np.abs(e) + 0.1 * np.median(np.abs(e), axis=0))
    places = np.arange(1.0, n + 1.0)
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), places, np.log(places)]))
    known = np.isfinite(logs).all(axis=0)
    return np.where(known, np.exp(basis @ (basis.T @ np.where(known, logs, 0.0))), np.nan)


def alignment_tail(e: np.ndarray, f: np.ndarray, left: float) -> tuple[float, float]:
    """Return the p of sum e f (runs, n) among random orders of f, and the least p that they can reach.

    `left` is the mean part that the projections left of a product.

    >>> spike = np.r_[np.zeros(20), 9.0, np.zeros(29)] + np.random.default_rng(0).standard_normal(50)
    >>> p, _ = alignment_tail(spike[None], spike[None], 1.0)
    >>> p < 0.01
    True
    """
    short = np.sqrt(left) * (1.0 - 1e-9)
    most = sum(float(np.sort(np.abs(a)) @ np.sort(np.abs(b))) for a, b in zip(e, f, strict=True))
    total = abs(float(np.sum(e * f)))
    hits = _counts(np.ascontiguousarray(e), np.ascontiguousarray(f), _orders(e.shape[1]),
                   np.array([total * short, most * short]))  # fmt: skip
    return float((hits[0] + 1) / (ORDERS + 1)), float((hits[1] + 1) / (ORDERS + 1))


@lru_cache(maxsize=8)
def _orders(n: int) -> np.ndarray:
    g = rng(name="alignment", n=n)
    return g.permuted(np.tile(np.arange(n, dtype=np.int16), (ORDERS, 1)), axis=1)


@njit(cache=True)
def _counts(e, f, orders, bars):  # type: ignore[no-untyped-def]
    """Return in how many orders |sum e f| reaches each bar."""
    hits = np.zeros(len(bars), np.int64)
    for order in orders:
        total = 0.0
        for r in range(len(e)):
            for t in range(len(order)):
                total += e[r, t] * f[r, order[t]]
        for i in range(len(bars)):
            hits[i] += abs(total) >= bars[i]
    return hits
