"""Quantiles and tails from `scipy.special`: importing `scipy.stats` alone takes a second.

`scipy.special` takes a quarter of one, so it is imported at the first call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def student_quantile(p: float, degrees: ArrayLike) -> np.ndarray:
    """Return the `p`-quantile of Student's t with these degrees of freedom.

    NaN where the degrees are not positive.

    >>> float(student_quantile(0.975, 4).round(3))
    2.776
    """
    from scipy import special

    return np.asarray(special.stdtrit(degrees, p))


def student_two_sided(t: ArrayLike, degrees: ArrayLike) -> np.ndarray:
    """Return the probability that Student's t is further from 0 than `t`.

    >>> float(student_two_sided(2.776445, 4).round(4))
    0.05
    """
    from scipy import special

    return np.asarray(2 * special.stdtr(degrees, -np.abs(t)))


def normal_quantile(p: ArrayLike) -> np.ndarray:
    """Return the `p`-quantile of the standard normal.

    >>> float(normal_quantile(0.975).round(3))
    1.96
    """
    from scipy import special

    return np.asarray(special.ndtri(p))


def normal_below(z: ArrayLike) -> np.ndarray:
    """Return the probability that a standard normal is below `z`.

    >>> float(normal_below(0.0))
    0.5
    """
    from scipy import special

    return np.asarray(special.ndtr(z))


def f_quantile(p: float, above: float, below: float) -> float:
    """Return the `p`-quantile of F with (above, below) degrees of freedom.

    >>> round(f_quantile(0.95, 1, 4), 3)
    7.709
    """
    from scipy import special

    return float(special.fdtri(above, below, p))


def binomial_interval(count: int, number: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of Clopper and Pearson for a share of `count` in `number`.

    >>> low, high = binomial_interval(0, 100)
    >>> low, round(high, 3)
    (0.0, 0.036)

    Without any trial nothing is known.

    >>> binomial_interval(0, 0)
    (0.0, 1.0)
    """
    from scipy import special

    if number == 0:
        return 0.0, 1.0
    tail = (1.0 - level) / 2.0
    low = float(special.betaincinv(count, number - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, number - count, 1.0 - tail)) if count < number else 1.0
    return low, high
