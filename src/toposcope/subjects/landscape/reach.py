"""The range of a surface, by a rule that is fixed before any loss of the run is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import InputError
from toposcope.subjects.landscape.options import RISE

_SMALLEST, _LARGEST = 2.0**-8, 2.0**4
"""The ranges that are tried; each is twice the last."""
_BISECTIONS = 4
"""Bisections of the last doubling, on the logarithm: they determine the range to 4%."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The range of an axis in its direction's unit, the target loss, and whether the loss reaches it.

    Without a target, the range was given.
    """

    value: float
    target: float | None = None
    reached: bool = False

    @property
    def note(self) -> str:
        """Describe the range."""
        if self.target is None:
            return f"range {self.value:.4g}, as given"
        how = "reaches" if self.reached else "does not reach"
        return f"range {self.value:.4g}, where the loss {how} {self.target:.4g}"


def reach_by_rule(loss_at: Callable[[float], float], centre: float, first: float) -> Reach:
    """Return the distance at which the mean loss of both ends of an axis first reaches the target.

    The target is the larger of the first checkpoint's loss `first` and `centre` plus 0.1. The distance
    doubles from 1/256 to 16 units, followed by four bisections on its logarithm. A loss that is not finite
    counts as above the target.

    >>> reach_by_rule(lambda s: 1.0 + s**2, 1.0, 5.0).value
    2.0
    """
    target = max(first, centre + RISE)

    def above(step: float) -> bool:
        ends = 0.5 * (loss_at(step) + loss_at(-step))
        return not ends < target

    high = _SMALLEST
    while not above(high):
        if high >= _LARGEST:
            return Reach(high, target, False)
        high *= 2.0
    low = high / 2.0
    for _ in range(_BISECTIONS if high > _SMALLEST else 0):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if above(middle) else (middle, high)
    return Reach(high, target, True)


def check_reach(finite: np.ndarray, reach: float) -> None:
    """Refuse a surface that has a loss only at its centre.

    Raises
    ------
    InputError
        Naming the range and the remedy.
    """
    if finite.sum() <= 1:
        raise InputError(
            f"the loss is finite at {int(finite.sum())} of {finite.size} grid points",
            argument="range",
            value=reach,
            remedy="give a smaller one, or leave it out for the default rule",
        )
