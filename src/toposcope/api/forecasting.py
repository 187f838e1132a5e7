"""Forecasts of final losses: from what sources, by which methods, how well they did, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError, spoken
from toposcope.core.tabular import Tables, answered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.api.advice import Advices
    from toposcope.forecasting import Curve, Forecast, Forecaster, Schedule
    from toposcope.forecasting.health.assess import Symptom
    from toposcope.sources.belonging import Group
    from toposcope.study.findings import Finding
    from toposcope.study.forecasts.gather import Problem
    from toposcope.study.forecasts.reading import Given

CUTS = (0.2, 0.3, 0.5)
"""Shares of training at which finished runs are scored."""
LEAST_SCORED = 3
_COLUMNS = ("run", "method", "share_seen", "final_loss", "low", "high", "level", "status", "reason")


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of final losses, printed as a line for each run; everything is computed when it is asked for.

    `begun` and `ended` are the loss curves of unfinished runs and of the finished ones that they are forecast
    from, `own` all of the sources'. `faults` is what was wrong with logs, `notes` how they were read.
    `everything` says that all methods were asked for; `planned` are the forecasts of the
    run that `schedule` plans. `groups` are the runs that do not belong together, empty where all do: none is
    forecast, or scored, from another group's (`parts` has the forecasts of each).
    """

    begun: tuple[Curve, ...]
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

    @property
    def apart(self) -> str:
        """The line that says which runs do not belong together; "" where all do."""
        from toposcope.sources.belonging import said

        return said(self.groups, "no run is forecast from another group's")

    @cached_property
    def parts(self) -> dict[str, Forecasts]:
        """The forecasts of each group by its label; of all runs under "" where they belong together."""
        if not self.groups:
            return {"": self}
        return {group.label: self._of(group) for group in self.groups}

    def _of(self, group: Group) -> Forecasts:
        begun, ended, own = (
            tuple(curve for curve in curves if curve.run in group.runs)
            for curves in (self.begun, self.ended, self.own)
        )
        runs = {curve.run for curve in (*begun, *ended, *own)}
        first = group == self.groups[0]
        known = {name for one in self.groups for name in one.runs}
        faults = tuple(f for f in self.faults if f.run in runs or (first and f.run not in known))
        return replace(self, begun=begun, ended=ended, own=own, faults=faults, groups=())

    def _tabled(self, name: str) -> pd.DataFrame:
        """Return a table of every group that has it below one another, the group in a first column."""
        import pandas as pd

        made = {label: getattr(part, name) for label, part in self.parts.items() if not part.too_few}
        tables = [table.assign(group=label) for label, table in made.items() if table is not None]
        both = pd.concat(tables, ignore_index=True)
        return both[["group", *both.columns.drop("group")]]

    @cached_property
    def made(self) -> tuple[Forecast, ...]:
        """The forecasts, run by run and method by method."""
        from toposcope.core.progress import Progress
        from toposcope.forecasting import forecast as forecast_one

        found = []
        total = len(self.begun) * len(self.methods)
        with Progress("forecasting", total, quiet=self.quiet or not total) as progress:
            for curve in self.begun:
                for method in self.methods:
                    found.append(forecast_one(method, curve, self.ended, level=self.level))
                    progress.advance(note=curve.run)
        return (*self.planned, *found)

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
    def problems(self) -> tuple[str, ...]:
        """What of the logs was left out or repaired, and how they were read."""
        return tuple(map(spoken, (*(f"{fault.run}: {fault.reason}" for fault in self.faults), *self.notes)))

    @property
    def symptoms(self) -> dict[str, list[Symptom]]:
        """What is wrong with runs by their logs; of finished runs only where one broke."""
        few = len(self.ended) < LEAST_SCORED
        shown = self.begun or (self.ended if few else [curve for curve in self.ended if curve.broke])
        return {curve.run: list(curve.symptoms) for curve in shown if curve.symptoms}

    @property
    def too_few(self) -> str:
        """Why forecasts cannot be scored; empty where enough runs are finished."""
        if self.groups:
            reasons = [part.too_few for part in self.parts.values()]
            return "" if "" in reasons else f"in no group: {reasons[0]}"
        n = len(self.ended)
        if n >= LEAST_SCORED:
            return ""
        runs = "1 finished run" if n == 1 else f"{n} finished runs"
        return spoken(
            f"{runs}: to score forecasts give at least {LEAST_SCORED}, or an unfinished run (--horizon STEP "
            "says where one that goes on will end)"
        )

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
        """What features add to forecasts of finished runs, paired by run; None where that cannot be told.

        With unfinished runs: of the methods that read features, at the shares that those runs have reached.
        """
        from toposcope.forecasting.evaluate import score_forecasts
        from toposcope.forecasting.siblings import SiblingTransfer
        from toposcope.papers.forecasters import CONTROLS
        from toposcope.study.forecasts.compare import worth_of_features
        from toposcope.study.forecasts.topology import FeatureTransfer

        if self.groups:
            known = [part.effects is not None for part in self.parts.values() if not part.too_few]
            return self._tabled("effects") if any(known) else None
        if not self.begun:
            return None if self.too_few else worth_of_features(self.scores, controls=CONTROLS)
        compared = [method for method in self.methods if isinstance(method, FeatureTransfer)]
        shares = sorted({round(curve.last / curve.horizon, 4) for curve in self.begun if not curve.endless})
        if self.too_few or not compared or not shares:
            return None
        return worth_of_features(score_forecasts(self.ended, [SiblingTransfer(), *compared], shares))

    def advise(
        self, budget: float, *, larger: int | None = None, tokens_per_step: float | None = None
    ) -> Advices:
        """Weigh going on, stopping and a larger model for every unfinished run.

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
        from toposcope.api.advice import advices_on

        for name, value in (("budget", budget), ("larger", larger), ("tokens per step", tokens_per_step)):
            check_positive(name, value)
        return advices_on(self, budget=budget, larger=larger, tokens_per_step=tokens_per_step)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's forecast with its interval, the first method's, and return the axes."""
        from toposcope.study.figure import draw_intervals

        chosen = self.table.drop_duplicates("run")
        return draw_intervals(list(chosen["run"]), chosen[["final_loss", "low", "high"]].to_numpy(float), ax)

    def __repr__(self) -> str:
        """Return what is wrong with runs, then one line for each run."""
        from toposcope.forecasting.base import UNSURE

        lines = [self.apart] if self.apart else []
        lines += [f"{run}: {symptom}" for run, found in self.symptoms.items() for symptom in found]
        wrong = len(lines)
        for line in self.table.drop_duplicates("run").to_dict("records"):
            if line["status"] == "failed":
                lines.append(f"{line['run']}: no forecast: {line['reason']}")
                continue
            band = "[no interval]"
            if math.isfinite(line["low"]):
                unsure = "not " if line["status"] in UNSURE else ""
                band = f"[{line['low']:.4g}, {line['high']:.4g}], {unsure}{line['level']:.0%}"
            lines.append(f"{line['run']}: final loss {line['final_loss']:.4g} {band}, by {line['method']}")
        scored = "" if self.too_few else "; .summary says how well each is forecast from the others"
        if len(lines) == wrong:
            lines.append(f"no run to forecast: every run is finished{scored}")
        return spoken("\n".join(lines))

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table)


def forecast(
    sources: Given | Sequence[Given] = (),
    *,
    siblings: Given | Sequence[Given] = (),
    schedule: Schedule | str | Path | None = None,
    horizon: int | None = None,
    cuts: Sequence[float] = CUTS,
    column: str = "loss",
    rename: Mapping[str, str] | None = None,
    step_pattern: str | None = None,
    parameters: int = 0,
    level: float = 0.9,
    finished: bool = False,
    methods: str | Sequence[Forecaster] = "auto",
    quiet: bool = True,
) -> Forecasts:
    """Forecast the final loss of every unfinished run, from its own losses and its finished siblings.

    The final loss is the mean loss over the last 2% of the steps. With only `siblings` and `schedule`, the
    planned run is forecast before it starts.

    Parameters
    ----------
    sources
        Stores, run folders, logs as `read_log` reads them, or tables (columns step and loss; run and
        parameters where there are several).
    siblings
        Finished runs to learn from beside those of `sources`.
    schedule
        The planned learning rate: a file with step and lr, or a `Schedule`.
    horizon
        The step at which the runs will end, if neither logs nor siblings say.
    cuts
        Shares of training at which finished runs are scored, each in (0, 1).
    column
        The loss to forecast.
    rename
        New names of columns of tables: {"nll": "loss"}.
    step_pattern
        A regular expression with one group that extracts the step from the names of checkpoints.
    parameters
        Number of parameters of runs whose files do not state it.
    level
        Coverage of the intervals, in (0, 1).
    finished
        Treat every run as finished at the end of its log, even a short one.
    methods
        "auto", "all" for every method and what topology adds, or your own forecasters.
    quiet
        Show no progress.

    Returns
    -------
    Forecasts
        A final loss with its interval, in the unit of the loss, for each run and method.

    Raises
    ------
    InputError
        When no loss is recorded, a run is given twice, a column is missing, or an option has an
        impossible value.

    Examples
    --------
    >>> import pandas as pd
    >>> step = range(10, 1001, 10)
    >>> log = pd.DataFrame({"step": step, "loss": [2 + 5 * s**-0.5 for s in step]})
    >>> made = forecast(log, horizon=4000)
    >>> made.table[["run", "method"]].iloc[0].tolist(), bool(2 < made.table.final_loss[0] < 2.2)
    (['run', 'auto'], True)
    """
    from toposcope.forecasting import forecast_planned, read_schedule
    from toposcope.forecasting.kin import groups_of_curves, with_groups
    from toposcope.sources.belonging import said
    from toposcope.study.forecasts.gather import Problem, split_runs
    from toposcope.study.forecasts.reading import Reading, listed, read_curves, refuse_twins

    check_shares(level, cuts)
    check_positive("parameters", parameters or None)
    given, beside = listed(sources), listed(siblings)
    plan = read_schedule(Path(schedule)) if isinstance(schedule, str | Path) else schedule
    if not given and (plan is None or not beside):
        raise InputError(
            "name a store, a run or a table; or give --siblings and --schedule for a planned run"
        )
    reading = Reading(column, dict(rename or {}), horizon, plan, parameters, step_pattern)
    own, problems, notes = read_curves(given, reading)
    others, more, noted = read_curves(beside, replace(reading, horizon=None, plan=None))
    reading.refuse_unmet()
    refuse_twins(own + others)
    groups = groups_of_curves(own + others)
    everyone = with_groups(own + others)
    own, others = everyone[: len(own)], everyone[len(own) :]
    unfinished = [
        Problem(c.run, f"not finished, step {c.last} of {c.horizon}: it cannot serve as a sibling")
        for c in others
        if not c.finished
    ]
    faults = (*problems, *more, *unfinished)
    begun: list[Curve] = []
    chosen: list[Forecaster] = []
    planned: list[Forecast] = []
    if plan is not None and not given:
        ended = [c for c in others if parameters in (0, c.parameters)]
        if len({c.group for c in ended}) > 1:
            raise InputError(
                f"{said(groups)} The run to come is of one of them: give the siblings of that one"
            )
        planned = forecast_planned(plan, ended, level=level)
    elif not own:
        why = [problem.reason for problem in problems if problem.left_out]
        detail = f": {why[0]}" if why else ""
        raise InputError(f"no run of {', '.join(map(_named, given))} can be forecast{detail}")
    else:
        ended, begun = split_runs(own, others, all_finished=finished)
        chosen = _methods(begun + ended, methods)
    return Forecasts(
        begun=tuple(begun), ended=tuple(ended), own=tuple(own), faults=faults,
        notes=tuple(dict.fromkeys(notes + noted)), methods=tuple(chosen), everything=methods != "auto",
        cuts=tuple(cuts), level=level, quiet=quiet, planned=tuple(planned), schedule=plan,
        groups=groups if len(groups) > 1 and not planned else (),
    )  # fmt: skip


def _methods(curves: list[Curve], asked: str | Sequence[Forecaster]) -> list[Forecaster]:
    from toposcope.forecasting.annealing import PUBLISHED
    from toposcope.forecasting.auto import Auto, default_candidates
    from toposcope.forecasting.families import Exp4, ILog2, Janoschek
    from toposcope.forecasting.laws import MultiPower
    from toposcope.forecasting.plain_law import PlainLaw
    from toposcope.papers.forecasters import published_rules
    from toposcope.study.forecasts.gather import topological_methods

    if not isinstance(asked, str):
        return list(asked)
    if asked not in ("auto", "all"):
        raise InputError(f'methods {asked!r}: give "auto", "all" or forecasters')
    if asked == "auto":
        return [Auto()]
    laws = (MultiPower(shape=PUBLISHED),)
    families = (PlainLaw(), Exp4(), ILog2(), Janoschek())
    return [Auto(), *default_candidates(), *laws, *families, *topological_methods(curves, published_rules)]


def check_positive(name: str, value: float | None) -> None:
    """Raise InputError unless a number is finite and above 0, or not given."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} {value:g}: give a finite number above 0")


def check_shares(level: float, cuts: Sequence[float] = ()) -> None:
    """Raise InputError unless a level and cuts lie between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(f"level {level} is not a confidence; give a number between 0 and 1, such as 0.9")
    if any(not 0 < cut < 1 for cut in cuts):
        listed = ",".join(f"{cut:g}" for cut in cuts)
        raise InputError(f"cuts {listed}: give shares of the training between 0 and 1")


def _named(source: object) -> str:
    return str(source) if isinstance(source, str | Path) else "the table"
