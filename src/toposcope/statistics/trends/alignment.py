"""The second part of the verdict's test: whether two series have large innovations at the same checkpoints.

Sign flips cannot detect a single shared spike: it is one product, whose sign is one bit. A permutation of the
checkpoints can. The innovations of each series are divided by their own scale along the run (a line for log
|e| in the checkpoint and its logarithm). Then sum e f is compared with its values when the checkpoints of one
series are shuffled. Because of the projections, and of persistence left in both series, true products vary
more than shuffled ones, by 1 / mean h; so the sum is divided by the root of that. One shared checkpoint of n
has a p of about 1/n; several have less. Several runs with the same steps are shuffled in the same order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.seeding import rng

ORDERS = 4999
"""The number of random orders of the checkpoints; the smallest p is 1/5,000."""
_HALVINGS = 12
"""The number of bisections of the interval that contains a bound, down to 1/4,096 of it."""


def standardised(e: np.ndarray) -> np.ndarray:
    """Divide each column (n, pairs) by its `scales`, then by its power."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = e / scales(e)
        return np.asarray(scaled / np.sqrt(np.mean(scaled * scaled, axis=0)))


def scales(e: np.ndarray) -> np.ndarray:
    """Return the size of each column (n, pairs) along the run: log |e| on a line in n and log n.

    NaN if more than half of a column is 0, because that does not determine a size.
    """
    n = len(e)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(np.abs(e) + 0.1 * np.median(np.abs(e), axis=0))
    places = np.arange(1.0, n + 1.0)
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), places, np.log(places)]))
    finite = np.isfinite(logs).all(axis=0)
    return np.where(finite, np.exp(basis @ (basis.T @ np.where(finite, logs, 0.0))), np.nan)


def alignment_tail(e: np.ndarray, f: np.ndarray, left: float) -> tuple[float, float]:
    """Return the p of sum e f (runs, n) among random orders of f, and the smallest p that they can reach.

    `left` is the mean share of a product that the projections left, over the excess of its variance.

    >>> spike = np.r_[np.zeros(20), 9.0, np.zeros(29)] + np.random.default_rng(0).standard_normal(50)
    >>> p, _ = alignment_tail(spike[None], spike[None], 1.0)
    >>> p < 0.01
    True
    """
    short = np.sqrt(left) * (1.0 - 1e-9)
    most = sum(float(np.sort(np.abs(a)) @ np.sort(np.abs(b))) for a, b in zip(e, f, strict=True))
    total = abs(float(np.sum(e * f)))
    drawn = np.abs(_sums(np.ascontiguousarray(e), np.ascontiguousarray(f), _orders(e.shape[1])))
    hits = [np.count_nonzero(drawn >= bar * short) for bar in (total, most)]
    return float((hits[0] + 1) / (ORDERS + 1)), float((hits[1] + 1) / (ORDERS + 1))


def alignment_interval(e: np.ndarray, f: np.ndarray, left: float, level: float) -> tuple[float, float, float]:
    """Return r = sum e f / sum (e^2 + f^2) / 2 and the b that random orders do not reject at `level`.

    The statistic is sum (e f - b (e^2 + f^2) / 2), of another order sum (e f' - b (e e' + f f') / 2).

    >>> e = np.random.default_rng(0).standard_normal((1, 50))
    >>> r, low, high = alignment_interval(e, 0.8 * e + 0.6 * np.roll(e, 7), 1.0, 0.01)
    >>> 0.0 < low < r < high < 1.0
    True
    """
    product, power = float(np.sum(e * f)), float(np.sum(e * e + f * f)) / 2.0
    orders = _orders(e.shape[1])
    crossed, within = (_sums(np.ascontiguousarray(a), np.ascontiguousarray(b), orders)
                    for a, b in ((e, f), (np.vstack([e, f]), np.vstack([e, f]))))  # fmt: skip
    short, r = np.sqrt(left) * (1.0 - 1e-9), product / power

    def rejected(b: float) -> bool:
        hits = np.count_nonzero(np.abs(crossed - b * within / 2.0) >= abs(product - b * power) * short)
        return bool((hits + 1) / (ORDERS + 1) <= level)

    ends = []
    for outside in (-1.0, 1.0):
        inside, middle = r, 0.0 if r * outside < 0.0 else (r + outside) / 2.0
        for _ in range(_HALVINGS):
            inside, outside = (inside, middle) if rejected(middle) else (middle, outside)
            middle = (inside + outside) / 2.0
        ends.append(inside)
    return r, ends[0], ends[1]


@lru_cache(maxsize=8)
def _orders(n: int) -> np.ndarray:
    g = rng(name="alignment", n=n)
    return g.permuted(np.tile(np.arange(n, dtype=np.int16), (ORDERS, 1)), axis=1)


@kernel
def _sums(e, f, orders):  # type: ignore[no-untyped-def]
    """Return sum e f for every order of f."""
    out = np.zeros(len(orders))
    for i in range(len(orders)):
        for r in range(len(e)):
            for t in range(e.shape[1]):
                out[i] += e[r, t] * f[r, orders[i, t]]
    return out
