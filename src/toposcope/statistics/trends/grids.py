"""The steps of a series: whether they are even, and the even grid from which some of them are missing."""

from __future__ import annotations

import numpy as np

UNEVEN = 2.0
"""Steps are very uneven if the largest gap exceeds the smallest by this factor."""


def full_steps(steps: np.ndarray) -> np.ndarray:
    """Return the steps, filled up to an even grid if it has at most twice as many.

    >>> full_steps(np.array([0.0, 100.0, 300.0])).tolist()
    [0.0, 100.0, 200.0, 300.0]
    """
    gap = np.diff(steps).min()
    place = (steps - steps[0]) / gap
    whole = np.rint(place)
    if np.abs(place - whole).max() > 1e-6 or whole[-1] + 1 > 2 * len(steps):
        return steps
    full = steps[0] + gap * np.arange(int(whole[-1]) + 1)
    full[whole.astype(int)] = steps
    return full


def uneven_steps(steps: np.ndarray) -> bool:
    """Return whether the largest gap between these steps is more than `UNEVEN` times the smallest.

    >>> uneven_steps(np.arange(5)), uneven_steps(2.0 ** np.arange(5))
    (False, True)
    """
    gaps = np.diff(steps)
    return bool(gaps.max() > UNEVEN * gaps.min())


def even_steps(steps: np.ndarray) -> bool:
    """Return whether all gaps between these steps are equal, up to rounding.

    >>> even_steps(np.arange(5)), even_steps(np.array([0.0, 100.0, 300.0]))
    (True, False)
    """
    gaps = np.diff(steps)
    return bool(np.ptp(gaps) <= 1e-6 * gaps.max())
