"""Whether two logs are of the same run: the steps up to which they agree, and the difference afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_MOST_DECIMALS = 17
"""A double has no more significant digits."""
STRETCH = 0.1
"""The share of common steps at the end over which the difference is averaged, as for seeds."""
_FEWEST = 3
"""The fewest steps of that stretch."""


@dataclass(frozen=True, slots=True)
class Parting:
    """How far two logs of losses agree at their common steps.

    `last_equal` and `first_apart` are steps (None if there is none). `exact` says that the equal losses agree
    bit for bit; otherwise they agree to `decimals`, the decimals of the log that has fewer. `difference` is
    the mean of second minus first over the last tenth, `scatter` the step-to-step standard deviation of one
    log's losses there.
    """

    common: int
    equal: int
    last_equal: float | None
    first_apart: float | None
    exact: bool
    decimals: int
    difference: float
    scatter: float

    @property
    def same(self) -> bool:
        """Whether the two are equal at every common step."""
        return self.first_apart is None


def parting(steps: np.ndarray, first: np.ndarray, second: np.ndarray) -> Parting:
    """Compare two logs at their common steps; NaN equals NaN.

    Parameters
    ----------
    steps
        (n,) rising, n at least 1.
    first, second
        (n,) losses.

    Examples
    --------
    >>> steps = np.arange(1, 6)
    >>> found = parting(steps, np.array([5.0, 4.0, 3.5, 3.2, 3.0]), np.array([5.0, 4.0, 3.5, 3.4, 3.1]))
    >>> found.equal, found.last_equal, found.first_apart, found.exact
    (3, 3.0, 4.0, True)
    >>> rounded = parting(steps[:2], np.array([4.12345, 4.0]), np.array([4.12, 4.0]))
    >>> rounded.same, rounded.exact, rounded.decimals
    (True, False, 2)
    """
    left, other = np.asarray(first, float), np.asarray(second, float)
    both_nan = np.isnan(left) & np.isnan(other)
    bits = (left == other) | both_nan
    decimals = min(_decimals(left), _decimals(other))
    # half a unit in the last digit of the coarser log, plus a little for binary fractions
    with np.errstate(invalid="ignore"):
        alike = bits | (np.abs(left - other) <= 0.5000001 * 10.0**-decimals)
    differing = np.flatnonzero(~alike)
    equal = int(differing[0]) if len(differing) else len(steps)
    tail = max(int(STRETCH * len(steps)), min(_FEWEST, len(steps)))
    gap = (other - left)[-tail:]
    gap = gap[np.isfinite(gap)]
    return Parting(
        len(steps), equal,
        float(steps[equal - 1]) if equal else None,
        float(steps[equal]) if len(differing) else None,
        bool(bits[:equal].all()), decimals,
        float(gap.mean()) if len(gap) else float("nan"), _scatter(left, other, tail),
    )  # fmt: skip


def _scatter(left: np.ndarray, other: np.ndarray, tail: int) -> float:
    """Return the step-to-step standard deviation at the end: that of neighbours' differences over root 2."""
    moves = np.concatenate([np.diff(values[-max(tail, 4) :]) for values in (left, other)])
    moves = moves[np.isfinite(moves)]
    return float(np.sqrt(np.mean(moves**2) / 2)) if len(moves) else float("nan")


def _decimals(values: Iterable[float]) -> int:
    """Return the largest number of decimals in a log.

    >>> _decimals([2.5, 3.1234]), _decimals([float("nan")])
    (4, 0)
    """
    decimals = 0
    for value in values:
        if np.isfinite(value):
            digits = np.format_float_positional(value, trim="-").partition(".")[2]
            decimals = max(decimals, min(len(digits), _MOST_DECIMALS))
    return decimals
