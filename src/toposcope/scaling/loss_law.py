"""The law of a loss in model size, f(N) = a N^b + E with a floor E >= 0, and the case without one."""

from __future__ import annotations

import math

import numpy as np
import scipy  # optimize loads on first use: it costs a quarter of a second

from toposcope.core.distributions import f_quantile
from toposcope.scaling.power_law import LEAST_SIZES_FOR_FLOOR, PowerLaw, failed_law, spearman_exact

WIDEST = 2.0
"""If E = 0 is admissible, exponents may differ by this factor; beyond it, E is not identified."""

_STEEPEST = 6.0
"""Exponents beyond this are reported as "this or steeper"."""
_EXPONENTS = -np.geomspace(_STEEPEST, 1e-3, 400)


def fit_loss_law(sizes: np.ndarray, values: np.ndarray, *, level: float = 0.95) -> PowerLaw:
    """Fit f(N) = a N^b + E, a > 0, b < 0, E >= 0, to a loss that falls with size.

    Least squares on f. The interval of b is that of the profile likelihood, {b : SSE(b) <= SSE_min (1 +
    F_{1, n-3}(level) / (n-3))} with the best a and E >= 0 for every b. A loss has a floor above 0, and
    without it b is too shallow. So if the sizes do not identify E, there is no exponent: the status is
    "degenerate", the exponent NaN, `low` and `high` are the exponents for the largest and the smallest
    admissible E, and `reason` explains. This happens if the interval has no end, or if E = 0 is admissible
    and the ends differ by more than a factor of `WIDEST`.

    Parameters
    ----------
    sizes, values : arrays of shape (n,)
        N and the loss. Pairs with a non-finite member or a size that is not positive are left out.
    level : float
        Confidence of the interval, in (0, 1).

    Returns
    -------
    PowerLaw
        "failed" with its reason if nothing can be fitted; never an exception.

    Examples
    --------
    >>> sizes = np.geomspace(1e5, 1e9, 7)
    >>> law = fit_loss_law(sizes, 400.0 * sizes**-0.34 + 1.69 + 0.001 * np.array([1, -1, 0, 1, -1, 1, 0]))
    >>> law.status, bool(law.low < -0.34 < law.high), round(law.offset, 1)
    ('ok', True, 1.7)
    """
    x, y = np.asarray(sizes, float).ravel(), np.asarray(values, float).ravel()
    if len(x) != len(y):
        return failed_law(0, 0, level, f"{len(x):,} sizes but {len(y):,} values")
    keep = np.isfinite(x) & np.isfinite(y) & (x > 0)
    x, y = x[keep], y[keep]
    n, n_sizes = len(x), len(np.unique(x))
    if n_sizes < 3:
        return failed_law(n, n_sizes, level, f"{n_sizes} distinct sizes; a law needs at least 3")
    if np.any(y <= 0):
        return failed_law(n, n_sizes, level, "the loss has values <= 0, so it has no floor at 0 or above")
    rho, p = spearman_exact(x, y)
    if np.ptp(y) == 0 or not rho < 0:
        return failed_law(n, n_sizes, level, "the loss does not fall with size")
    if n_sizes < LEAST_SIZES_FOR_FLOOR:
        needed = f"a law with a floor E, which needs {LEAST_SIZES_FOR_FLOOR}"
        reason = f"{n_sizes} distinct sizes are too few for {needed}"
        return failed_law(n, n_sizes, level, f"{reason}; without a floor, b would be {_plain(x, y):+.3f}")
    return _fitted(x, y, n_sizes, level, (rho, p))


def _fitted(x: np.ndarray, y: np.ndarray, n_sizes: int, level: float, rank: tuple[float, float]) -> PowerLaw:
    centre = float(np.exp(np.log(x).mean()))
    z, free = x / centre, len(x) - 3
    squares = np.array([_best(z, y, b)[2] for b in _EXPONENTS])
    at = int(np.argmin(squares))
    b, least = float(_EXPONENTS[at]), float(squares[at])
    bound = least * (1.0 + float(f_quantile(level, 1, free)) / free)
    inside = squares <= max(bound, least)
    first, last = int(np.argmax(inside)), len(inside) - 1 - int(np.argmax(inside[::-1]))
    low, high = _edge(z, y, first, -1, bound), _edge(z, y, last, 1, bound)
    a, offset, _ = _best(z, y, b)
    r2 = 1.0 - least / float(np.sum((y - y.mean()) ** 2))
    sigma = math.sqrt(least / free)
    floors = [_best(z, y, float(e))[1] for e in _EXPONENTS[inside]]
    ended = math.isfinite(low) and math.isfinite(high)
    if ended and (min(floors) > 0 or low / high <= WIDEST):
        return PowerLaw(
            a * centre**-b, b, offset, low, high, level, r2, *rank, len(x), n_sizes, sigma,
            "least squares with E >= 0, profile likelihood",
        )  # fmt: skip
    steep = f"{low:+.3g}" if math.isfinite(low) else f"{-_STEEPEST:+.0f} or steeper"
    shallow = f"{high:+.3g}" if math.isfinite(high) else "0"
    reason = (
        f"E is not identified by {n_sizes} sizes: E from {min(floors):.3g} to {max(floors):.3g} goes with "
        f"exponents from {shallow} to {steep}; no exponent is given"
    )
    nan = math.nan
    return PowerLaw(
        nan, nan, nan, low, high, level, nan, *rank, len(x), n_sizes, nan,
        "least squares with E >= 0, profile likelihood", "degenerate", reason,
    )  # fmt: skip


def _best(z: np.ndarray, y: np.ndarray, b: float) -> tuple[float, float, float]:
    """Return (a, E, SSE) of the best y = a z^b + E with E >= 0 at a fixed b."""
    p = z**b
    pc, yc = p - p.mean(), y - y.mean()
    a = float(pc @ yc / (pc @ pc))
    offset = float(y.mean() - a * p.mean())
    if offset < 0:
        a, offset = float(p @ y / (p @ p)), 0.0
    left = y - a * p - offset
    return a, offset, float(left @ left)


def _edge(z: np.ndarray, y: np.ndarray, inner: int, direction: int, bound: float) -> float:
    """Return where the profile crosses `bound` beyond the index `inner`; infinite beyond the grid."""
    outer = inner + direction
    if not 0 <= outer < len(_EXPONENTS):
        return direction * math.inf
    ends = float(_EXPONENTS[inner]), float(_EXPONENTS[outer])
    if _best(z, y, ends[0])[2] >= bound:
        return ends[0]
    return float(scipy.optimize.brentq(lambda b: _best(z, y, b)[2] - bound, *sorted(ends), xtol=1e-10))


def _plain(x: np.ndarray, y: np.ndarray) -> float:
    u = np.log(x) - np.log(x).mean()
    return float(u @ np.log(y) / (u @ u))
