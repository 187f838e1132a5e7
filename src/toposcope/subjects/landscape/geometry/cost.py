"""The cost of measuring curvature: stated before it starts, and refused above a limit."""

from __future__ import annotations

from dataclasses import dataclass

from toposcope.core.errors import InputError

FORWARDS = {"gradient": 3.0, "hessian": 9.0}
"""Cost in forward passes: a backward pass costs two, differentiating it again six."""
MOST_FLOP = 1e17
"""More FLOP than this are refused: about twenty minutes on a GPU, a month on two cores."""


@dataclass(frozen=True, slots=True)
class ComputeCost:
    """Forward passes over the whole batch, and the arithmetic in them."""

    forwards: float
    flop: float

    def sentence(self) -> str:
        """Return the cost in words.

        >>> ComputeCost(900, 2.5e12).sentence()
        '900 forward passes of the batch (2.5e+12 FLOP)'
        """
        return f"{self.forwards:,.0f} forward passes of the batch ({self.flop:.1e} FLOP)"


def refuse_above(cost: ComputeCost, limit: float = MOST_FLOP) -> None:
    """Refuse a measurement that would cost more than `limit` FLOP.

    Raises
    ------
    InputError
        With the cost, and cheaper alternatives.
    """
    if cost.flop > limit:
        raise InputError(
            f"the measurement costs {cost.sentence()}, but the limit is {limit:.0e}: use fewer "
            "tokens, places or products, or the critical sharpness, which needs at most 8 forward passes"
        )
