"""`toposcope forecast --advise`: continue, stop or scale up, and what each would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from toposcope.cli.forecast_lines import broken, listed, say, show_problems, symptoms_of
from toposcope.cli.output import print_json
from toposcope.errors import InputError
from toposcope.tabular import of_cells

if TYPE_CHECKING:
    from toposcope.analysis.decision.advice import Advice
    from toposcope.analysis.forecast import Curve
    from toposcope.analysis.forecast.gather import Problem


@dataclass(frozen=True, slots=True)
class Asked:
    """What --advise was asked with: FLOP, size of the larger model, tokens in a step, confidence."""

    budget: float
    larger: int | None
    tokens_per_step: float | None
    level: float


def show_advice(
    begun: Sequence[Curve], finished: Sequence[Curve], own: Sequence[Curve], problems: Sequence[Problem],
    asked: Asked, *, as_json: bool,
) -> int:  # fmt: skip
    """Print advice for every unfinished run, and for every one whose log shows it ill; return the exit code.

    What is wrong with a run needs no forecast: where the options cannot be weighed, it is advice enough.
    """
    names = {curve.run for curve in begun}
    ended = [curve for curve in own if curve.symptoms and curve.run not in names]
    ill = broken(ended) if begun else ended
    if not begun and not ill:
        raise InputError(
            "--advise: every run is finished; give one that is not, or --horizon beyond its last step"
        )
    advices = [_advice(curve, finished, asked, forecast=curve.run in names) for curve in [*ill, *begun]]
    symptoms = symptoms_of([*ill, *begun])
    if as_json:
        reasons = [{"run": p.run, "reason": p.reason} for p in problems]
        print_json(
            {"advice": [asdict(advice) for advice in advices], "problems": [*reasons, *listed(symptoms)]}
        )
    else:
        _show(advices, asked.level)
        show_problems(problems, [*begun, *finished])
    return 1 if problems or symptoms else 0


def _advice(curve: Curve, finished: Sequence[Curve], asked: Asked, *, forecast: bool) -> Advice:
    from toposcope.analysis.decision.advice import Advice, advise, by_health

    try:
        if not forecast:
            raise InputError(f"run {curve.run} ends where its log does")
        budget, larger = _budget(curve, asked)
        others = [other for other in finished if other.run != curve.run]
        return advise(curve, others, budget=budget, larger=larger, level=asked.level)
    except InputError:
        if (first := by_health((), curve)) is None:
            raise
        return Advice(curve.run, *first, ())


def _budget(curve: Curve, asked: Asked) -> tuple[float, int]:
    """Return the budget in parameters x steps, and the larger model's size."""
    if curve.endless:
        raise InputError(f"run {curve.run}: {curve.endless}")
    tokens = asked.tokens_per_step or curve.covariates.get("tokens_per_step")
    if not tokens or curve.parameters <= 0:
        missing = "tokens per step (--tokens-per-step)" if curve.parameters > 0 else "number of parameters"
        raise InputError(f"run {curve.run}: its {missing} is unknown, so FLOP cannot be counted")
    larger = asked.larger or 2 * curve.parameters
    if larger <= curve.parameters:
        raise InputError(
            f"--larger {larger}: run {curve.run} has {curve.parameters} parameters; give more than that"
        )
    return asked.budget / (6.0 * tokens), larger


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
