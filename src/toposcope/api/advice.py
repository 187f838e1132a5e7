"""Continue, stop or scale up: advice for each unfinished run and for each run whose log shows a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.answered import Tables, answered
from toposcope.core.errors import InputError
from toposcope.core.wording import option

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.forecasting import Curve
    from toposcope.forecasting.decision.advice import Advice
    from toposcope.logs.remarks import Remark
    from toposcope.rules.judgement import Judgement
    from toposcope.study.findings import Finding


@dataclass(frozen=True)
class Advices:
    """Advice on runs, printed as a line for each: `table` has a row for each run and option.

    `grounds` say why runs need a look or should stop.
    """

    advice: tuple[Advice, ...]
    grounds: dict[str, list[Remark]]

    @property
    def table(self) -> pd.DataFrame:
        """The options of every run: loss, its interval, share of the budget spent, cost (lower is better)."""
        import pandas as pd

        return pd.DataFrame(
            [{"run": advice.run, **asdict(o)} for advice in self.advice for o in advice.options]
        )

    @property
    def tables(self) -> Tables:
        """`table`, under the name "options"."""
        return Tables(options=lambda: self.table)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The advice for each run, its reason, and the expected loss of every option."""
        from toposcope.study.findings import Finding

        return tuple(
            Finding(
                "on",
                advice.action,
                {"run": advice.run, "why": advice.why, "options": [*map(asdict, advice.options)]},
            )
            for advice in self.advice
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the expected loss of each option of every run, and return the axes."""
        from toposcope.study.figure import draw_intervals

        options = [(advice.run, option) for advice in self.advice for option in advice.options]
        values = np.array([(option.loss, option.low, option.high) for _, option in options])
        return draw_intervals([f"{run}: {option.action}" for run, option in options], values, ax)

    def __repr__(self) -> str:
        """Return one line for each run."""
        return "\n".join(f"{advice.run}: {advice.action} ({advice.why})" for advice in self.advice)

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table, self.plot)


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """FLOP that are left, parameters of the larger model (None: twice its own), tokens per step, coverage."""

    budget: float
    larger: int | None
    tokens_per_step: float | None
    level: float


def advices_on(
    unfinished: Sequence[Curve], finished: Sequence[Curve], own: Sequence[Curve],
    judgements: Mapping[str, Judgement], options: AdviceOptions,
) -> Advices:  # fmt: skip
    """Advise on every unfinished run, and on every run of `own` whose log shows a fault.

    A run whose log shows a grave fault gets its advice without a forecast, even if the options cannot be
    compared.
    """
    from toposcope.forecasting.decision.advice import of_remarks

    names = {curve.run for curve in unfinished}
    judged = {curve.run: judgements.get(curve.run) or of_remarks(curve) for curve in own}
    ended = [curve for curve in own if judged[curve.run].grounds and curve.run not in names]
    broken = [curve for curve in ended if curve.broke] if unfinished else ended
    if not unfinished and not broken:
        raise InputError(
            "every run is finished",
            argument="advise",
            remedy=f"give one that is not, or a {option('horizon')} beyond its last step",
        )
    chosen = [*broken, *unfinished]
    advice = tuple(
        _advice(curve, finished, options, judged[curve.run], forecast=curve.run in names) for curve in chosen
    )
    grounds = {curve.run: list(judged[curve.run].grounds) for curve in chosen}
    return Advices(advice, {run: judgement for run, judgement in grounds.items() if judgement})


def _advice(
    curve: Curve, finished: Sequence[Curve], options: AdviceOptions, judgement: Judgement, *, forecast: bool
) -> Advice:
    from toposcope.forecasting.decision.advice import Advice, advise, by_health

    try:
        if not forecast:
            raise InputError(f"run {curve.run} is finished: its log reaches its last step")
        budget, larger = _budget(curve, options)
        others = [other for other in finished if other.run != curve.run and other.akin(curve)]
        return advise(curve, others, budget=budget, larger=larger, level=options.level, judgement=judgement)
    except InputError:
        if (first := by_health(judgement)) is None:
            raise
        return Advice(curve.run, *first, ())


def _budget(curve: Curve, options: AdviceOptions) -> tuple[float, int]:
    """Return the budget in parameters x steps, and the larger model's size."""
    if curve.endless:
        raise InputError(f"run {curve.run}: {curve.endless}")
    tokens = options.tokens_per_step or curve.covariates.get("tokens_per_step")
    if not tokens or curve.parameters <= 0:
        unknown = {
            f"its number of parameters ({option('parameters')})": curve.parameters > 0,
            f"the number of tokens in a step ({option('tokens_per_step')})": bool(tokens),
        }
        missing = [what for what, is_stated in unknown.items() if not is_stated]
        are = "is" if len(missing) == 1 else "are"
        raise InputError(
            f"run {curve.run}: {' and '.join(missing)} {are} not stated, so FLOP cannot be counted; give "
            f"{'it' if len(missing) == 1 else 'them'}"
        )
    larger = options.larger or 2 * curve.parameters
    if larger <= curve.parameters:
        raise InputError(
            f"run {curve.run} has {curve.parameters:,} parameters",
            argument="larger",
            value=larger,
            remedy="give more than that",
        )
    return options.budget / (6.0 * tokens), larger
