"""Scales values by powers of two, so that their squares stay within the float range."""

from __future__ import annotations

import numpy as np

from toposcope.kernels.selection import largest_magnitude

COMFORTABLE = 2.0**-64, 2.0**64
"""The range of largest magnitudes that are not scaled: sums of their fourth powers do not overflow."""


def binary_exponent(values: np.ndarray, comfortable: tuple[float, float] = COMFORTABLE) -> int:
    """Return e such that the largest |value| / 2^e is from 1/2 to 1; 0 where values are `comfortable`.

    >>> binary_exponent(np.array([1e-310])), binary_exponent(np.array([3.0, -1.0]))
    (-1029, 0)
    """
    top = largest_magnitude(values)
    if top == 0 or comfortable[0] < top < comfortable[1]:
        return 0
    return int(np.frexp(top)[1])


def scaled(values: np.ndarray, exponent: int) -> np.ndarray:
    """Return values * 2^exponent in float64 (as they are for 0): exact up to the ends of the float range.

    Beyond them infinite, or 0, as IEEE rounds.

    >>> float(scaled(np.array([3.0]), -1)[0])
    1.5
    """
    if exponent == 0:
        return values
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(np.asarray(values, np.float64), exponent))
