"""The cost of a measurement of the loss surface, from the shapes of the matrices alone."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.subjects.landscape.geometry.cost import FORWARDS, ComputeCost
from toposcope.subjects.landscape.options import LandscapeOptions

_FLOP_PER_SECOND = 4e9
_SECONDS_PER_PASS = 2e-3
"""Rough speed of one core, and the fixed cost of a pass. They predict how long a model's passes take that
cannot be timed first: one on the hub, or one whose pass takes long itself."""


def cost_of_shapes(
    shapes: Sequence[tuple[int, int]], options: LandscapeOptions, forwards: float
) -> ComputeCost:
    """Return the cost of `forwards` forward passes of one batch: 2 FLOP per matrix entry and token.

    >>> cost_of_shapes([(10, 10)], LandscapeOptions(sequences=4, length=8), 3)
    ComputeCost(forwards=3, flop=19200.0)
    """
    entries = sum(rows * columns for rows, columns in shapes)
    return ComputeCost(forwards, 2.0 * entries * options.tokens * forwards)


def seconds_of(cost: ComputeCost) -> float:
    """Return a rough time on two cores, right to within a factor of three."""
    return cost.forwards * _SECONDS_PER_PASS + cost.flop / _FLOP_PER_SECOND


def seconds_with_products(
    shapes: Sequence[tuple[int, int]],
    options: LandscapeOptions,
    cost: ComputeCost,
    products: int,
    each: float | None,
    slowness: float = 1.0,
) -> float:
    """Return the rough time of work with `products` Hessian products; `each` is their time if measured.

    `slowness` is the time of a pass over the time that its size predicts.
    """
    seconds = slowness * seconds_of(cost)
    if each is None:
        return seconds
    predicted = slowness * seconds_of(cost_of_shapes(shapes, options, FORWARDS["hessian"]))
    return seconds + products * (each - predicted)
