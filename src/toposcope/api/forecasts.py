"""The answer of a forecast: a line for each run, the tables behind it, its errors, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.answered import Tables, answered
from toposcope.core.errors import InputError
from toposcope.core.wording import option

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.api.advice import Advices
    from toposcope.forecasting import Curve, Forecast, Forecaster, Schedule
    from toposcope.logs.belonging import Group
    from toposcope.logs.remarks import Remark
    from toposcope.rules.judgement import Judgement
    from toposcope.runs.curves import Problem
    from toposcope.study.findings import Finding

LEAST_SCORED = 3
"""The fewest finished runs to score forecasts: each is forecast from the others, so it has two siblings."""
_COLUMNS = ("run", "method", "share_seen", "final_loss", "low", "high", "level", "status", "reason")


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of final losses, printed as a line for each run; everything is computed on first use.

    `unfinished` has the loss curves of runs that go on, `ended` those of the finished runs that they are
    forecast from, and `own` all curves of the sources. `faults` are the problems of the logs, and `notes` say
    how they were read. `judgements` have the verdict of `check` on each own run. `everything` is true if all
    methods were requested. `planned` are the forecasts of the run that `schedule` plans.
    `groups` are groups of runs that do not belong together; it is empty if all do. No run is forecast or
    scored from another group (`parts` has the forecasts of each group). `trendless` are runs whose loss has
    no trend, such as that of a policy: a forecast does not apply to them. `damaged` are the runs of which the
    audit of their checkpoints found a fault. `all_finished` is true if the reader says that every run ended.
    """

    unfinished: tuple[Curve, ...]
    ended: tuple[Curve, ...]
    own: tuple[Curve, ...]
    faults: tuple[Problem, ...]
    notes: tuple[str, ...]
    methods: tuple[Forecaster, ...]
    everything: bool
    cuts: tuple[float, ...]
    level: float
    quiet: bool = True
    planned: tuple[Forecast, ...] = ()
    schedule: Schedule | None = None
    groups: tuple[Group, ...] = ()
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    trendless: tuple[Problem, ...] = ()
    damaged: frozenset[str] = frozenset()
    all_finished: bool = False

    @property
    def apart(self) -> str:
        """The line that says which runs do not belong together; "" where all do."""
        from toposcope.logs.belonging import said

        return said(self.groups, "no run is forecast from another group")

    @cached_property
    def parts(self) -> dict[str, Forecasts]:
        """The forecasts of each group by its label; of all runs under "" where they belong together."""
        if not self.groups:
            return {"": self}
        return {group.label: self._of(group) for group in self.groups}

    def _of(self, group: Group) -> Forecasts:
        unfinished, ended, scored = (
            tuple(curve for curve in curves if curve.run in group.runs)
            for curves in (self.unfinished, self.ended, self.own)
        )
        runs = {curve.run for curve in (*unfinished, *ended, *scored)}
        first = group == self.groups[0]
        names = {name for group in self.groups for name in group.runs}
        faults = tuple(f for f in self.faults if f.run in runs or (first and f.run not in names))
        return replace(self, unfinished=unfinished, ended=ended, own=scored, faults=faults, groups=())

    def _tabled(self, name: str) -> pd.DataFrame:
        """Return a table of every group that has it below one another, the group in a first column."""
        import pandas as pd

        part_tables = {label: getattr(part, name) for label, part in self.parts.items() if not part.too_few}
        tables = [table.assign(group=label) for label, table in part_tables.items() if table is not None]
        both = pd.concat(tables, ignore_index=True)
        return both[["group", *both.columns.drop("group")]]

    @cached_property
    def made(self) -> tuple[Forecast, ...]:
        """The forecasts, run by run and method by method."""
        from toposcope.core.progress import Progress
        from toposcope.forecasting import forecast as forecast_one

        forecasts = []
        total = len(self.unfinished) * len(self.methods)
        with Progress("forecasting", total, quiet=self.quiet or not total) as progress:
            for curve in self.unfinished:
                for method in self.methods:
                    forecasts.append(forecast_one(method, curve, self.ended, level=self.level))
                    progress.advance(note=curve.run)
        return (*self.planned, *forecasts, *self.not_applicable)

    @property
    def not_applicable(self) -> tuple[Forecast, ...]:
        """The forecasts of the runs whose loss has no trend: a status and a reason."""
        from toposcope.forecasting.one_run import not_applicable

        return tuple(not_applicable(fault.run, fault.reason, self.level) for fault in self.trendless)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each run and method."""
        import pandas as pd

        rows = [
            (o.run, o.method, o.share, o.final, o.low, o.high, o.level, o.status, o.reason) for o in self.made
        ]
        return pd.DataFrame(rows, columns=list(_COLUMNS))

    @property
    def tables(self) -> Tables:
        """The forecasts, and how finished runs were forecast from the others where enough are finished."""
        scored = {} if self.too_few else {"scores": lambda: self.scores, "summary": lambda: self.summary}
        return Tables(forecasts=lambda: self.table, **scored)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Where each run will end: the first method's forecast with its interval, or why there is none."""
        from toposcope.study.findings import Finding

        rows = self.table.drop_duplicates("run").to_dict("records")
        return tuple(
            Finding(
                "end",
                row["status"],
                {name: row[name] for name in _COLUMNS[:7]},
                left_out=(row["reason"],) if row["reason"] else (),
            )
            for row in rows
        )

    @property
    def _leading(self) -> dict[str, Forecast]:
        """The first method's forecast of each run."""
        leading: dict[str, Forecast] = {}
        for forecast in self.made:
            leading.setdefault(forecast.run, forecast)
        return leading

    @property
    def problems(self) -> tuple[str, ...]:
        """The parts of the logs that were left out or repaired, and how the logs were read."""
        return (*(f"{fault.run}: {fault.reason}" for fault in self.faults), *self.notes)

    @property
    def grounds(self) -> dict[str, list[Remark]]:
        """Why runs need a look or should stop; for finished runs only where one broke."""
        judgements = {curve.run: self.judgements.get(curve.run) for curve in self._shown}
        return {
            run: list(judgement.grounds)
            for run, judgement in judgements.items()
            if judgement is not None and judgement.grounds
        }

    @property
    def verdict(self) -> str:
        """What to do about the worst run: "all right", "look" or "stop", as in `check`."""
        from toposcope.rules.judgement import worst

        return worst(ground.level for grounds in self.grounds.values() for ground in grounds)

    @property
    def at_end(self) -> tuple[Curve, ...]:
        """The runs, if each has reached its stated end; else none."""
        return self.own if all(curve.ended for curve in self.own) else ()

    @property
    def all_ended(self) -> str:
        """Why no run is forecast: each has ended, or is taken as ended because its last step is unknown."""
        unstated = sum(not curve.stated for curve in self.ended)
        if self.all_finished or not unstated:
            return "every run has ended"
        who = "1 run is" if unstated == 1 else f"{unstated:,} runs are"
        end = "its log ends, because its" if unstated == 1 else "their logs end, because their"
        goes_on = "it goes on" if unstated == 1 else "they go on"
        return (
            f"{who} taken as ended where {end} last step is unknown; "
            f"give {option('horizon')} STEP if {goes_on}"
        )

    @property
    def _shown(self) -> Sequence[Curve]:
        few = len(self.ended) < LEAST_SCORED
        over = [curve for curve in self.own if curve.over]
        return (*self.unfinished, *over) or (
            self.ended if few else [curve for curve in self.ended if curve.broke or curve.run in self.damaged]
        )

    @property
    def too_few(self) -> str:
        """Why forecasts cannot be scored; empty where enough runs are finished."""
        if self.groups:
            reasons = [part.too_few for part in self.parts.values()]
            return "" if "" in reasons else f"in no group: {reasons[0]}"
        n = len(self.ended)
        if n >= LEAST_SCORED:
            return ""
        return f"{nothing_ends(self.ended)}; to score forecasts, give at least {LEAST_SCORED} runs that ended"

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Every finished run forecast from the others at each of `cuts`: see `score_forecasts`.

        Raises
        ------
        InputError
            When fewer than three runs are finished.
        """
        from toposcope.core.progress import Progress
        from toposcope.forecasting.evaluate import score_forecasts
        from toposcope.forecasting.families import LastValue
        from toposcope.forecasting.siblings import SiblingTransfer

        if self.too_few:
            raise InputError(self.too_few)
        if self.groups:
            return self._tabled("scores")
        methods = list(self.methods)
        if not self.everything:
            methods += [SiblingTransfer(), LastValue()]
        total = len(self.cuts) * len(self.ended) * len(methods)
        with Progress("scoring", total, quiet=self.quiet) as progress:
            return score_forecasts(self.ended, methods, self.cuts, level=self.level, advance=progress.advance)

    @property
    def summary(self) -> pd.DataFrame:
        """The mean errors of `scores`, and how many intervals held, for each method and cut."""
        from toposcope.forecasting.evaluate import summarise

        if self.groups:
            return self._tabled("summary")
        return summarise(self.scores)

    @cached_property
    def largest(self) -> pd.DataFrame:
        """The largest finished run forecast from the smaller ones at each of `cuts`."""
        from toposcope.forecasting.evaluate import unseen_largest

        if self.groups:
            return self._tabled("largest")
        return unseen_largest(self.ended, list(self.methods[:1]), self.cuts, level=self.level)

    @cached_property
    def effects(self) -> pd.DataFrame | None:
        """What features add to forecasts of finished runs, paired by run; None if there are too few runs.

        If there are unfinished runs, only methods that read features are compared, at the shares that those
        runs have reached.
        """
        from toposcope.forecasting.evaluate import score_forecasts
        from toposcope.forecasting.siblings import SiblingTransfer
        from toposcope.published.forecasters import CONTROLS
        from toposcope.study.forecasts.compare import worth_of_features
        from toposcope.study.forecasts.topology import FeatureTransfer

        if self.groups:
            has_effects = [part.effects is not None for part in self.parts.values() if not part.too_few]
            return self._tabled("effects") if any(has_effects) else None
        if not self.unfinished:
            return None if self.too_few else worth_of_features(self.scores, controls=CONTROLS)
        compared = [method for method in self.methods if isinstance(method, FeatureTransfer)]
        shares = sorted(
            {round(curve.last / curve.horizon, 4) for curve in self.unfinished if not curve.endless}
        )
        if self.too_few or not compared or not shares:
            return None
        return worth_of_features(score_forecasts(self.ended, [SiblingTransfer(), *compared], shares))

    def advise(
        self, budget: float, *, larger: int | None = None, tokens_per_step: float | None = None
    ) -> Advices:
        """Compare three options for every unfinished run: continue, stop, or train a larger model.

        Parameters
        ----------
        budget
            FLOP that are left.
        larger
            Parameters of the larger model; by default twice the run's.
        tokens_per_step
            Tokens in one step, where the logs do not say.

        Raises
        ------
        InputError
            When no run is unfinished, or its size or its tokens in a step are not known.
        """
        from toposcope.api.advice import AdviceOptions, advices_on
        from toposcope.core.bounds import check_positive

        for name, value in (("budget", budget), ("larger", larger), ("tokens_per_step", tokens_per_step)):
            check_positive(name, value)
        chosen = AdviceOptions(budget, larger, tokens_per_step, self.level)
        return advices_on(self.unfinished, self.ended, self.own, self.judgements, chosen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's forecast with its interval, the first method's, and return the axes."""
        from toposcope.study.figure import draw_intervals

        leading = self._leading
        values = np.array([(forecast.final, *forecast.bounds) for forecast in leading.values()]).reshape(
            -1, 3
        )
        return draw_intervals(list(leading), values, ax)

    @property
    def line(self) -> str:
        """What is wrong with a run, or else the forecast of the first run, in one line."""
        return self._lines()[0]

    def __repr__(self) -> str:
        """Return what is wrong with runs, then one line for each run."""
        return "\n".join([self.apart] * bool(self.apart) + self._lines())

    def _lines(self) -> list[str]:
        from toposcope.forecasting.base import NO_TREND
        from toposcope.forecasting.ends import where_it_ends

        lines = [
            f"{ground.level}: {run}: {ground.named}"
            for run, grounds in self.grounds.items()
            for ground in grounds
        ]
        wrong = len(lines)
        for forecast in self._leading.values():
            if forecast.status in ("failed", NO_TREND):
                lines.append(f"{forecast.run}: no forecast: {forecast.reason}")
                continue
            by = "" if forecast.not_yet else f", by {forecast.method}"
            lines.append(f"{forecast.run} {where_it_ends(forecast)}{by}")
        if len(lines) == wrong:
            scored = f"{self.all_ended}; .summary says how well each is forecast from the others"
            lines.append(f"no run to forecast: {self.too_few or scored}")
        return lines

    def _repr_html_(self) -> str:
        """Return the lines, the picture, and the runs with their intervals, without the text of reasons."""
        if self.apart or not len(self.table):
            return answered(repr(self), self.table, self.plot if len(self.table) else None)
        shown = self.table[["run", "method", "final_loss", "low", "high"]].round(4)
        return answered(repr(self), shown, self.plot)


def nothing_ends(curves: Sequence[Curve]) -> str:
    """Return that the last step of these runs is unknown, with their rate and the way to state a plan."""
    from toposcope.forecasting.unplanned import share_of_peak

    if not curves:
        return "no finished run"
    if all(curve.ended for curve in curves):
        ends = ", ".join(f"{c.run} has come to its end (step {c.last:,} of {c.horizon:,})" for c in curves)
        return f"{ends}; nothing is left to forecast"
    named = ", ".join(curve.run for curve in curves)
    going = [f"{c.run} at {share:.0%} of its peak" for c in curves if (share := share_of_peak(c)) is not None]
    single = len(curves) == 1
    ended = f", or {'it has' if single else 'they have'} ended"
    still = f" (the learning rate is still high: {', '.join(going)})" if going else ended
    return (
        f"{named}: the last step of {'this run' if single else 'these runs'} is unknown{still}; "
        f"give {option('horizon')} STEP for a forecast, or {option('schedule')} FILE with the planned rate"
    )
