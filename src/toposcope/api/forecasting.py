"""Forecasts of final losses: from what sources, and by which methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.forecasts import Forecasts
from toposcope.core.bounds import check_horizon, check_positive, check_shares
from toposcope.core.errors import InputError
from toposcope.core.types import CUTS
from toposcope.core.wording import option

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve, Forecast, Forecaster, Schedule
    from toposcope.logs.belonging import Group
    from toposcope.rules.judgement import Judgement
    from toposcope.rules.replaying import Replays
    from toposcope.runs.contents import AuditOfRun
    from toposcope.runs.curves import Problem
    from toposcope.runs.reading import Given, Reading


def forecast(
    sources: Given | Sequence[Given] = (),
    *,
    siblings: Given | Sequence[Given] = (),
    schedule: Schedule | str | Path | None = None,
    horizon: int | None = None,
    annealed: int | None = None,
    cuts: Sequence[float] = CUTS,
    column: str = "loss",
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    step_pattern: str | None = None,
    parameters: int = 0,
    level: float = 0.9,
    finished: bool = False,
    methods: str | Sequence[Forecaster] = "auto",
    quiet: bool = True,
    without: str | Sequence[str] = (),
) -> Forecasts:
    """Forecast the final loss of every unfinished run, from its own losses and its finished siblings.

    The final loss is the mean loss over the last 2% of the steps. With only `siblings` and `schedule`, the
    planned run is forecast before it starts.

    Parameters
    ----------
    sources
        Stores, run folders, logs as `read_log` reads them, folders of logs, or tables (columns step and loss;
        run and parameters where there are several).
    siblings
        Finished runs to learn from, besides those of `sources`.
    schedule
        The planned learning rate: a file with step and lr, or a `Schedule`.
    horizon
        The step at which the runs will end, if neither logs nor siblings say.
    annealed
        Forecast the loss after a decay that starts now: the rate falls to 0 over this many steps.
    cuts
        Shares of training at which finished runs are scored, each in (0, 1).
    column
        The loss to forecast.
    rename
        New names of columns of tables: {"nll": "loss"}.
    pattern
        A regular expression for the lines of a text log that is not recognised: see `read_log`.
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
    without
        Names of runs to leave out, of the sources and of the siblings.

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
    from toposcope.api.judgements import stores_among
    from toposcope.forecasting import forecast_planned, read_schedule
    from toposcope.forecasting.annealed import decayed
    from toposcope.forecasting.ends import split_runs
    from toposcope.runs.collapse import off_siblings
    from toposcope.runs.contents import AuditOfRun
    from toposcope.runs.reading import Reading, listed
    from toposcope.runs.sources import audits_of_runs
    from toposcope.runs.without import as_names
    from toposcope.study.forecasts.gather import with_features
    from toposcope.watch.replay import replays_by_run

    check_shares(level, cuts)
    check_positive("parameters", parameters or None)
    check_positive("annealed", annealed)
    check_horizon(horizon)
    if annealed is not None and (horizon is not None or schedule is not None):
        raise InputError(
            "it plans the rate and the end of the run",
            argument="annealed",
            remedy=f"leave {option('horizon')} and {option('schedule')} out",
        )
    given, beside = listed(sources), listed(siblings)
    plan = read_schedule(Path(schedule)) if isinstance(schedule, str | Path) else schedule
    if not given and (plan is None or not beside):
        raise InputError(
            "nothing to forecast is given; name a store, a run or a table",
            remedy=f"for a planned run, give {option('siblings')} and {option('schedule')}",
        )
    reading = Reading(
        column, dict(rename or {}), horizon, plan, parameters, step_pattern, pattern, features=with_features
    )
    runs = _read_runs(given, beside, reading, as_names(without))
    going_on = runs.own if annealed is None else [decayed(curve, annealed) for curve in runs.own]
    unfinished: list[Curve] = []
    chosen: list[Forecaster] = []
    planned: list[Forecast] = []
    if plan is not None and not given:
        ended = runs.of_size(parameters)
        planned = forecast_planned(plan, ended, level=level)
    elif not going_on and runs.trendless:
        ended = []
    elif not going_on:
        why = [problem.reason for problem in runs.problems if problem.left_out]
        detail = f": {why[0]}" if why else ""
        raise InputError(f"no run of {', '.join(map(_named, given))} can be forecast{detail}")
    else:
        ended, open_runs = split_runs(going_on, runs.others, all_finished=finished)
        unfinished = [curve for curve in open_runs if not curve.over]
        chosen = _methods(unfinished + ended, methods)
    wrong = [problem for problem in runs.problems if problem.run in reading.rows]
    replays = replays_by_run(stores_among(given))
    places = [place for place in given if isinstance(place, str)]
    audits = {run: audit for place in places for run, audit in audits_of_runs(place, step_pattern).items()}
    off, curves = off_siblings(unfinished, ended), {curve.run: curve for curve in going_on}

    def judge(run: str) -> Judgement:
        audit = audits.get(run, AuditOfRun())
        judgement = _judged(curves[run], reading, wrong, replays, audit)
        return judgement.beside(off[run]) if run in off else judgement

    return Forecasts(
        unfinished=tuple(unfinished), ended=tuple(ended), own=tuple(going_on), faults=runs.faults,
        notes=runs.notes, methods=tuple(chosen), everything=methods != "auto",
        cuts=tuple(cuts), level=level, quiet=quiet, planned=tuple(planned), schedule=plan,
        groups=runs.groups if len(runs.groups) > 1 and not planned else (),
        judgements=_Judgements(tuple(curves), judge), trendless=runs.trendless,
        damaged=frozenset(run for run, audit in audits.items() if audit.faulty), all_finished=finished,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of the sources and their siblings; `problems` are of the sources, `faults` of both.

    `trendless` are runs of the sources whose loss has no trend, so that a forecast does not apply.
    """

    own: list[Curve]
    others: list[Curve]
    problems: list[Problem]
    faults: tuple[Problem, ...]
    notes: tuple[str, ...]
    groups: tuple[Group, ...]
    trendless: tuple[Problem, ...]

    def of_size(self, parameters: int) -> list[Curve]:
        """Return the siblings of a planned run: those of its size, if that is known.

        Raises
        ------
        InputError
            When they do not belong together.
        """
        from toposcope.logs.belonging import said

        ended = [curve for curve in self.others if parameters in (0, curve.parameters)]
        if len({curve.group for curve in ended}) > 1:
            raise InputError(
                f"{said(self.groups)} The planned run belongs to one of them; give only the siblings of that "
                "one"
            )
        return ended


def _read_runs(
    given: Sequence[str | pd.DataFrame], beside: Sequence[str | pd.DataFrame], reading: Reading,
    without: Sequence[str],
) -> _Runs:  # fmt: skip
    """Read the runs of the sources and the siblings, but for those that are left out."""
    from toposcope.forecasting.kin import groups_of_curves, with_groups
    from toposcope.runs.curves import Problem
    from toposcope.runs.reading import read_curves, refuse_twins
    from toposcope.runs.without import refuse_unknown

    unfinished, problems, notes = read_curves(given, reading)
    others, more, noted = read_curves(beside, replace(reading, horizon=None, plan=None))
    reading.refuse_unmet()
    refuse_unknown(
        without, [*(c.run for c in unfinished + others), *(problem.run for problem in problems + more)]
    )
    unfinished, others = (
        [curve for curve in curves if curve.run not in without] for curves in (unfinished, others)
    )
    problems, more = (
        [problem for problem in group if problem.run not in without] for group in (problems, more)
    )
    refuse_twins(unfinished + others)
    trendless = tuple(problem for problem in problems if not problem.applies)
    problems = [problem for problem in problems if problem.applies]
    groups = groups_of_curves(unfinished + others)
    everyone = with_groups(unfinished + others)
    unfinished, others = everyone[: len(unfinished)], everyone[len(unfinished) :]
    no_siblings = [
        Problem(c.run, f"not finished, step {c.last:,} of {c.horizon:,}: it cannot serve as a sibling")
        for c in others
        if not c.finished
    ]
    left_out = [f"left out on request: {', '.join(without)}"] if without else []
    remarks_read = (*dict.fromkeys(notes + noted), *left_out)
    return _Runs(
        unfinished, others, problems, (*problems, *more, *no_siblings), remarks_read, groups, trendless
    )


@dataclass(frozen=True, eq=False)
class _Judgements(Mapping[str, "Judgement"]):
    """The judgement of each run, made once it is asked for: nothing is printed of most finished runs."""

    runs: tuple[str, ...]
    judge: Callable[[str], Judgement]
    made: dict[str, Judgement] = field(default_factory=dict)

    def __getitem__(self, run: str) -> Judgement:
        if run not in self.runs:
            raise KeyError(run)
        if run not in self.made:
            self.made[run] = self.judge(run)
        return self.made[run]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


def _judged(
    curve: Curve, reading: Reading, wrong: Sequence[Problem], replays: Replays, audit: AuditOfRun
) -> Judgement:
    """Return the judgement of a run as `check` has it."""
    from toposcope.runs.judging import judged
    from toposcope.runs.reading import column_of

    rows = reading.rows[curve.run]
    reasons = [fault.reason.removeprefix(f"run {curve.run}: ") for fault in wrong if fault.run == curve.run]
    return judged(
        rows, column_of([rows], reading), curve, audit=audit.findings, last_checkpoint=audit.last,
        wrong=reasons, replays=replays,
    )  # fmt: skip


def _methods(curves: list[Curve], wanted: str | Sequence[Forecaster]) -> list[Forecaster]:
    from toposcope.forecasting.annealing import PUBLISHED
    from toposcope.forecasting.auto import Auto, default_candidates
    from toposcope.forecasting.families import Exp4, ILog2, Janoschek
    from toposcope.forecasting.laws import MultiPower
    from toposcope.published.forecasters import published_rules
    from toposcope.study.forecasts.gather import topological_methods

    if not isinstance(wanted, str):
        return list(wanted)
    if wanted not in ("auto", "all"):
        raise InputError(f'methods {wanted!r}: give "auto", "all" or forecasters')
    if wanted == "auto":
        return [Auto()]
    laws = (MultiPower(shape=PUBLISHED),)
    families = (Exp4(), ILog2(), Janoschek())
    return [Auto(), *default_candidates(), *laws, *families, *topological_methods(curves, published_rules)]


def _named(source: object) -> str:
    return str(source) if isinstance(source, str | Path) else "the table"
