"""`--advise` of `toposcope forecast`: continue, stop or scale up, and what each would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from toposcope.cli.forecast_lines import listed, show_problems
from toposcope.cli.output import print_json, say
from toposcope.core.tabular import of_cells

if TYPE_CHECKING:
    from toposcope.api import Forecasts
    from toposcope.api.advice import Advices
    from toposcope.forecasting.decision.advice import Advice


def show_advice(found: Advices, made: Forecasts, *, as_json: bool) -> int:
    """Print advice for every run that is unfinished or whose log shows a fault; return the exit code."""
    if as_json:
        reasons = [{"run": p.run, "reason": p.reason} for p in made.faults]
        print_json(
            {
                "advice": [asdict(advice) for advice in found.advice],
                "verdict": made.verdict,  # a sound run may be stopped, too, where that costs least
                "problems": [*reasons, *listed(found.grounds)],
            }
        )
    else:
        if made.apart:
            say(made.apart)
        _show(found.advice, made.level)
        show_problems(made.faults, [*made.unfinished, *made.ended])
    return 1 if made.faults or found.grounds else 0


def _show(advices: Sequence[Advice], level: float) -> None:
    for advice in advices:
        say(f"{advice.run}: {advice.action} ({advice.why})")
    for advice in advices:
        rows = [
            (
                o.action, f"{o.parameters:,}", f"{o.steps:,.0f}" if o.steps == o.steps else "", o.loss, o.low,
                o.high, f"{o.spent:.1%}" if o.spent == o.spent else "", o.cost,
            )
            for o in advice.options
        ]  # fmt: skip
        names = ("option", "parameters", "steps", "loss", "low", "high", "spent", "cost")
        if rows:
            title = "" if len(advices) == 1 else advice.run
            of_cells(title, names, rows).show(compact=True)
        for option in advice.options:
            if option.reason:
                say(f"{option.action}: {option.reason}", "  ")
    if any(advice.options for advice in advices):
        say(
            f"loss: expected, with its {level:.0%} interval; spent: share of the budget; "
            "cost: loss x (1 + 0.01 x spent), lower is better: the whole budget is worth 1% of the loss."
        )
