"""What a measurement of curvature costs, said before it starts, and refused above a stated size."""

from __future__ import annotations

from dataclasses import dataclass

from toposcope.core.errors import InputError
from toposcope.models.objective import Objective

FORWARDS = {"loss": 1.0, "gradient": 3.0, "hessian": 9.0, "gauss_newton": 9.0}
"""Forward passes' worth of arithmetic: a backward pass is two, differentiating it again six."""
MOST_FLOP = 1e17
"""Above this much arithmetic a measurement is refused: some twenty minutes on a GPU, a month on two cores."""


@dataclass(frozen=True, slots=True)
class ComputeCost:
    """Forward passes over the whole batch, and the arithmetic in them."""

    forwards: float
    flop: float

    def sentence(self) -> str:
        """Return the cost in words.

        >>> ComputeCost(900, 2.5e12).sentence()
        '900 forward passes of the batch, 2.5e+12 FLOP'
        """
        return f"{self.forwards:,.0f} forward passes of the batch, {self.flop:.1e} FLOP"


def cost_of(objective: Objective, **evaluations: int) -> ComputeCost:
    """Return what so many evaluations of each kind in `FORWARDS` cost: 2 FLOP per parameter and token a pass.

    Attention's own products and the recomputing of graphs that do not fit into memory are left out.
    """
    forwards = sum(FORWARDS[kind] * count for kind, count in evaluations.items())
    tokens = sum(len(row) for row in objective.batch.rows)
    parameters = sum(value.numel() for value in objective.model.module.parameters())
    return ComputeCost(forwards, 2.0 * parameters * tokens * forwards)


def refuse_above(cost: ComputeCost, limit: float = MOST_FLOP) -> None:
    """Refuse what would cost more than `limit` FLOP.

    Raises
    ------
    InputError
        With the cost, and the cheap way.
    """
    if cost.flop > limit:
        raise InputError(
            f"the measurement costs {cost.sentence()}, but the limit is {limit:.0e}: use fewer "
            "tokens, places or products, or the critical sharpness, which needs at most 8 forward passes"
        )
