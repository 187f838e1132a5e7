"""Runs larger or smaller than all siblings: errors of the same extrapolation among the siblings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toposcope.logs.curve import Curve

LEAST = 3
"""The fewest siblings for the test of an extrapolation."""


def outward(seen: Curve, siblings: Sequence[Curve]) -> list[tuple[Curve, list[Curve]]]:
    """Return each sibling with those to forecast it from, if `seen` lies beyond all of their sizes.

    For a larger run, each sibling comes with all smaller ones, at least three; for a smaller run, with all
    larger ones. Empty if the run lies between its siblings, or a size is unknown.

    >>> import numpy as np
    >>> step = np.arange(1.0, 4.0)
    >>> sized = [Curve(str(n), step, 1 / step, step, 3, parameters=n) for n in (40, 10, 20, 80, 160, 320)]
    >>> [(one.run, [other.run for other in others]) for one, others in outward(sized[-1], sized[:-1])]
    [('80', ['10', '20', '40']), ('160', ['10', '20', '40', '80'])]
    >>> outward(sized[0], sized[1:])
    []
    """
    sizes = [curve.parameters for curve in siblings]
    if not sizes or min(*sizes, seen.parameters) <= 0 or min(sizes) <= seen.parameters <= max(sizes):
        return []
    larger = seen.parameters > max(sizes)
    order = sorted(siblings, key=lambda curve: curve.parameters if larger else -curve.parameters)
    return [(order[i], order[:i]) for i in range(LEAST, len(order))]


def distance(curve: Curve, others: Sequence[Curve]) -> float:
    """Return the distance in log size from a run to the nearest of the others."""
    return min(abs(math.log(curve.parameters / other.parameters)) for other in others)


def term(tests: Sequence[tuple[float, float]], ahead: float) -> float:
    """Return the squared term that a run at distance `ahead` adds to the half-width of its log loss.

    It is the squared log errors of the tests, per distance in log size, times the run's own distance, as for
    a random walk in log size. 0 if all tests are at the siblings' own size.

    >>> round(term([(0.01, 0.5), (-0.01, 0.5)], 1.0), 4)
    0.0141
    """
    far = sum(distance for _, distance in tests)
    return math.sqrt(sum(error**2 for error, _ in tests) / far * ahead) if far > 0 else 0.0


def said(seen: Curve, siblings: Sequence[Curve]) -> str:
    """Return the note for a row whose interval has this term."""
    larger = seen.parameters > max(curve.parameters for curve in siblings)
    of, rest = ("larger", "smaller") if larger else ("smaller", "larger")
    by = f"by a factor of {math.exp(distance(seen, siblings)):.3g}"
    return (
        f"the run is {of} than all its siblings {by}, so its interval is wider, "
        f"by the error of forecasting {of} siblings from {rest} ones"
    )
