"""Is this run all right, and where will it end: health, alarms, audit and forecast in one answer."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.forms import listed as in_words
from toposcope.runs.checked import Check, worst_first
from toposcope.runs.run_check import Logged, RunCheck

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve, Forecast, Schedule
    from toposcope.logs.run import Run
    from toposcope.rules.judgement import Judgement
    from toposcope.runs.contents import Contents, OfStore
    from toposcope.runs.reading import Given, Reading
    from toposcope.runs.trendless import Trendless

WITHOUT_LOSS = "without a finite loss left out"
"""The note of a curve about rows that have a held-out loss and no training loss."""
_MOST_NAMED = 3
"""The most files that a note names; the others are counted."""


def check(
    sources: Given | Sequence[Given],
    *,
    siblings: Given | Sequence[Given] = (),
    schedule: Schedule | str | Path | None = None,
    horizon: int | None = None,
    column: str | None = None,
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    step_pattern: str | None = None,
    level: float = 0.9,
    without: str | Sequence[str] = (),
    of_store: OfStore | None = None,
) -> Check:
    """Say whether runs are all right, and forecast their final loss, from existing logs and checkpoints.

    The verdict is "all right", "look" or "stop" (`rules.judgement`). It uses the rules, the loss
    alarms of `toposcope watch` replayed over the log, and the cheap audit of checkpoints beside the log. The
    final loss is that of `forecast`: final * exp(-+ half), half from earlier cuts of the run, or from
    siblings.

    Parameters
    ----------
    sources
        Logs as `read_log` reads them, folders of logs or checkpoints, stores, tables; one or several.
    siblings
        More finished runs to learn from, besides those of `sources` that reached their planned end.
    schedule
        The planned learning rate: a file with step and lr, or a `Schedule`.
    horizon
        The step at which the runs will end, if their logs do not say.
    column
        The loss; by default the training loss, or else the held-out loss.
    rename
        New names of columns of tables: {"nll": "loss"}.
    pattern
        A regular expression for the lines of a text log that is not recognised: see `read_log`.
    step_pattern
        A regular expression with one group that extracts the step from the names of checkpoints.
    level
        Coverage of the forecast's interval, in (0, 1).
    without
        Runs to leave out, by their names in the source or in the answer.
    of_store
        Reads what a store has beside its losses; None reads nothing.

    Returns
    -------
    Check
        A `RunCheck` for each run, worst first; its first line, when printed, is the answer. Losses are in
        the unit of the log.

    Raises
    ------
    InputError
        When nothing can be read, or an option has an impossible value.

    Examples
    --------
    >>> import pandas as pd
    >>> step = np.arange(1, 401)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal(400)
    >>> sound = pd.DataFrame({"step": step, "loss": 2 + 5 * step**-0.5 + noise})
    >>> print(check(sound, horizon=1000).line)
    all right: the table at step 400 of 1,000 (loss 2.254) may end between 2.065 and 2.165 without a plan of \
the learning rate (near 2.158 if the rate stays as it is; right in 93% of tests on 212 real runs)
    >>> broken = sound.assign(loss=np.where(step > 300, np.nan, sound["loss"]))
    >>> print(check(broken).line)
    stop: the table at step 400 (loss nan): the last 100 logged losses, from step 301 on, are not finite; \
go back to a checkpoint before step 301
    """
    from toposcope.core.bounds import check_horizon, check_shares
    from toposcope.forecasting import read_schedule
    from toposcope.logs.described import canonical_name
    from toposcope.logs.naming import refuse_same_names
    from toposcope.runs.contents import alone, refuse_unknown_column
    from toposcope.runs.reading import Reading, listed

    check_shares(level)
    check_horizon(horizon)
    given, beside = listed(sources), listed(siblings)
    if not given:
        raise InputError("no input is given; name a log, a folder or a store to check")
    plan = read_schedule(Path(schedule)) if isinstance(schedule, str | Path) else schedule
    reading = Reading(column or "loss", dict(rename or {}), horizon, plan, 0, step_pattern, pattern)
    others: list[Curve] = []
    problems: list[str] = []
    if beside:
        from toposcope.runs.several import finished_siblings

        others, problems = finished_siblings(beside, reading)
    contents, unread = _contents(given, reading, of_store)
    if not contents:
        raise InputError(unread[0])
    contents = contents if len(contents) > 1 else [alone(contents[0])]
    reading.refuse_unmet()
    named = canonical_name(column) if column else None
    refuse_unknown_column(named, contents)
    settings = _Settings(reading, tuple(others), level, named)
    gone: tuple[str, ...] = ()
    if without:
        from toposcope.runs.several import left_out

        gone = left_out(without, [pair for place in contents for pair in _called(place).items()])
    read = [one for place in contents for one in _read(place, settings, gone)]
    refuse_same_names((one.name, one.place.log.path) for one in read)
    runs = [_answer(one, settings, _ended_beside(one, read, others)) for one in read]
    if not runs and gone:
        raise InputError(
            "no run is left", argument="without", value=", ".join(gone), remedy="keep at least one run"
        )
    if not runs:
        raise InputError(f"{contents[0].name}: no run has a row or a checkpoint; give its log")
    problems = [*unread, *(problem for place in contents for problem in _problems(place)), *problems]
    if len(runs) > 1:
        from toposcope.runs.odd_runs import with_odd

        runs = with_odd(runs, contents)
    separate = ""
    if len(settings.curves) + len(others) > 1:
        from toposcope.runs.several import beside_siblings, separate_groups

        runs = beside_siblings(runs, settings.curves, others)
        separate = separate_groups(settings.curves) if len(settings.curves) > 1 else ""
    notes = (*([separate] if separate else []), *_notes(contents, gone), *_unstated(read, runs))
    return Check(worst_first(runs), tuple(problems), notes, several_groups=bool(separate))


@dataclass(frozen=True, slots=True)
class _Settings:
    """How runs are read and forecast: `column` is None where the loss is chosen for each run."""

    reading: Reading
    siblings: tuple[Curve, ...]
    level: float
    column: str | None
    curves: dict[str, Curve] = field(default_factory=dict)


def _contents(
    given: Sequence[str | pd.DataFrame], reading: Reading, of_store: OfStore | None
) -> tuple[list[Contents], list[str]]:
    """Return the contents of every place, each once, and why some could not be read."""
    from toposcope.runs.contents import nothing_more, said_of
    from toposcope.runs.reading import distinct
    from toposcope.runs.sources import read_contents

    logs = [one for one in given if isinstance(one, str) and Path(one).is_file()]
    names = _names([one for one in given if isinstance(one, str)])
    found: list[Contents] = []
    problems: list[str] = []
    for source in distinct(given):
        name = names[source] if isinstance(source, str) else "the table"
        try:
            found += read_contents(source, name, reading, of_store=of_store or nothing_more, chosen=logs)
        except InputError as error:
            problems.append(said_of(name, error))
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
    return _joined(_once(found)), problems


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Return the name of each place: its file or folder, and what tells those of one name apart.

    >>> _names(["a/train.log", "b/train.log", "runs/"])
    {'a/train.log': 'a/train.log', 'b/train.log': 'b/train.log', 'runs/': 'runs'}
    """
    from toposcope.logs.inputs import STANDARD_INPUT, STDIN
    from toposcope.logs.naming import names_of_paths

    stdin = {STDIN: STANDARD_INPUT} if STDIN in paths else {}
    return names_of_paths([path for path in paths if path != STDIN]) | stdin


def _joined(contents: list[Contents]) -> list[Contents]:
    """Return the contents; a folder of checkpoints of one run and the log of one run are one."""
    if len(contents) < 2:
        return contents
    from toposcope.runs.folders import with_logs

    return with_logs(contents)


def _once(contents: Sequence[Contents]) -> list[Contents]:
    """Return the contents without logs alone that a folder has given, too."""
    from toposcope.runs.contents import FILE_ALONE

    inside = {
        Path(os.path.realpath(one.log.path)) for one in contents if one.steps or one.unseen != FILE_ALONE
    }
    return [
        one
        for one in contents
        if one.unseen != FILE_ALONE or Path(os.path.realpath(one.log.path)) not in inside
    ]


def _problems(place: Contents) -> list[str]:
    """Return the logs of a place that cannot be read, and the audit findings that belong to no run."""
    runs = _names_of_runs(place)
    strange = [one for one in place.audit if not set(one.every_run) & set(runs)]
    return [*place.problems, *map(str, strange)]


def _notes(contents: Sequence[Contents], gone: Sequence[str]) -> list[str]:
    notes = [f"left out on request: {', '.join(gone)}"] if gone else []
    no_logs = [name for place in contents for name in place.no_logs]
    if not no_logs:
        return notes
    named = in_words(no_logs, most=_MOST_NAMED, last=", ")
    return [*notes, f"left out because they are not logs: {named}"]


def _unstated(read: Sequence[_Read], runs: Sequence[RunCheck]) -> list[str]:
    """Return why forecasts here may differ from `forecast`, which takes every complete log as finished."""
    whole = sum(one.curve is not None and one.curve.finished and not one.curve.stated for one in read)
    if not whole or not any(one.forecast is not None for one in runs):
        return []
    logs = "a run whose log states" if whole == 1 else f"{whole:,} runs whose logs state"
    return [f"forecast and report also learn from {logs} no end, so their intervals may differ"]


def _names_of_runs(place: Contents) -> list[str]:
    logged = (run.name for run in place.log.runs if len(run.table))
    return list(dict.fromkeys([*logged, *place.steps]))


def _called(place: Contents) -> dict[str, str]:
    """Return the name of each run in the answer, by its name in its place."""
    names = _names_of_runs(place)
    return {run: place.name if len(names) == 1 else f"{place.name}: {run}" for run in names}


@dataclass(frozen=True, slots=True)
class _Read:
    """One run as it was read: its name in the answer and at its place, its rows, its loss and its curve."""

    place: Contents
    run: str
    name: str
    rows: pd.DataFrame
    column: str
    curve: Curve | None
    wrong: Sequence[str]
    trendless: Trendless | None = None
    planned: int | None = None
    """The steps that its files plan, which count where too few losses are logged for a curve."""


def _read(place: Contents, settings: _Settings, gone: Sequence[str]) -> list[_Read]:
    import pandas as pd

    from toposcope.logs.described import loss_column
    from toposcope.logs.plans import planned_end
    from toposcope.logs.run import Run
    from toposcope.runs.reading import judged_curve

    logged = {run.name: run for run in place.log.runs}
    made = []
    for run, name in _called(place).items():
        if run in gone or name in gone:
            continue
        own = logged.get(run) or Run(run, pd.DataFrame())
        column = settings.column or loss_column(own.table)
        curve, wrong = judged_curve(own, settings.reading, column)
        trendless = _trendless(own, column, settings) if curve is None else None
        few = curve is None and column in own.table and own.table[column].notna().any()
        planned = planned_end(own.config, own.table) if few else None
        made.append(_Read(place, run, name, own.table, column, curve, wrong, trendless, planned))
    return made


def _trendless(run: Run, column: str, settings: _Settings) -> Trendless | None:
    """Return what judges a run without a curve; None for a loss that should fall."""
    from toposcope.runs.trendless import trendless_of

    return trendless_of(run, column, settings.reading.horizon)


def _ended_beside(one: _Read, read: Sequence[_Read], siblings: Sequence[Curve]) -> list[Curve]:
    """Return the finished runs that a run is forecast from: those given, and those that are checked too."""
    given = [curve for curve in siblings if curve.run != one.run]
    names = {curve.run for curve in given}
    beside = [
        replace(other.curve, run=other.name)
        for other in read
        if other is not one and other.column == one.column and other.run not in names
        and other.curve is not None and other.curve.ended
    ]  # fmt: skip
    return [*given, *beside]


def _answer(one: _Read, settings: _Settings, siblings: Sequence[Curve]) -> RunCheck:
    """Return the answer for one run from the rows of its log."""
    from toposcope.rules.judgement import NO_LOSS
    from toposcope.runs.judged import counted, judged

    place, run, rows, column = one.place, one.run, one.rows, one.column
    steps, audit = place.steps.get(run, ()), place.audit_of(run)
    count = counted(rows, column, of_log=not place.steps)
    seen, forecast = _ahead(one.curve, siblings, settings.level)
    if seen is not None:
        settings.curves[one.name] = seen
    ended = seen is not None and (seen.ended or seen.over)
    without = one.trendless
    remarks = None if without is None else without.remarks(rows, column)
    judgement = judged(
        rows, column, one.curve, remarks, count=count, audit=audit.findings,
        last_checkpoint=audit.last, wrong=one.wrong, replays=place.replays,
    )  # fmt: skip
    if place.to_add:
        judgement = judgement.with_remedy(NO_LOSS, place.to_add)
    step, loss = _last(rows, column, judgement)
    known = seen is not None and (seen.stated or forecast is not None) and not seen.endless
    horizon = seen.horizon if seen is not None and known else one.planned
    answer = RunCheck(
        one.name, place.name, run, judgement, step, loss,
        horizon, ended, forecast, count.finite, len(steps),
        place.said, tuple(_unseen(place, rows, column, count.finite)),
        (*_limits(seen, forecast, count.lost), *_held_out(one, settings), *place.repaired),
        _logged(rows, column),
        resume=next((one for one in place.resume if one.run == run), None),
    )  # fmt: skip
    return answer if without is None else _without_trend(answer, without)


def _without_trend(answer: RunCheck, without: Trendless) -> RunCheck:
    """Return the answer for a run whose loss has no trend: what the loss is, and how far the run is."""
    from toposcope.forecasting.one_run import not_applicable

    none = None if without.ended else not_applicable(answer.name, without.sentence)
    judging = tuple(one for one in answer.unseen if one not in without.seen)
    return replace(
        answer, horizon=without.horizon, ended=without.ended, forecast=none, unseen=judging,
        objective=without.objective, without_trend=without.sentence,
    )  # fmt: skip


def _held_out(one: _Read, settings: _Settings) -> list[str]:
    """Return the note that the held-out loss of a run was read, as `forecast` has it; empty if it was not."""
    from toposcope.logs.described import HELD_OUT

    if settings.column or one.column != "heldout_loss":
        return []
    noted = (note for note in one.place.log.assumed if note.startswith(HELD_OUT))
    return [next(noted, f"{HELD_OUT} is used")]


def _logged(rows: pd.DataFrame, column: str) -> Logged | None:
    """Return the losses of a run in the order of their steps, as they were logged."""
    if column not in rows or not len(rows):
        return None
    from toposcope.logs.run import by_step, wanted_rows

    known = by_step(wanted_rows(rows[["step", column]], np.isfinite(rows["step"].to_numpy(float))))
    return Logged(known["step"].to_numpy(float), known[column].to_numpy(float, na_value=np.nan))


def _ahead(
    curve: Curve | None, siblings: Sequence[Curve], level: float
) -> tuple[Curve | None, Forecast | None]:
    """Return the curve with its end, and the forecast of `toposcope forecast`; None where it has ended."""
    from toposcope.forecasting import forecast
    from toposcope.forecasting.auto import Auto
    from toposcope.forecasting.ends import split_runs

    if curve is None or not (curve.step == np.floor(curve.step)).all():  # epochs: forecasts count steps
        return curve, None
    ended, unfinished = split_runs([curve], siblings)
    if not unfinished or curve.over:
        return curve, None
    return unfinished[0], forecast(Auto(), unfinished[0], ended, level=level)


def _last(rows: pd.DataFrame, column: str, judgement: Judgement) -> tuple[float | None, float | None]:
    """Return the last step, and the loss there: NaN where the last ones are not finite."""
    from toposcope.logs.described import last_step
    from toposcope.logs.remarks import NOT_FINITE
    from toposcope.logs.run import by_step

    last = last_step(rows)
    if last is None:
        return None, None
    ordered = by_step(rows)
    values = ordered[column].to_numpy(float, na_value=np.nan) if column in ordered else np.empty(0)
    finite = values[np.isfinite(values)]
    lost = len(values) and (not len(finite) or any(one.kind == NOT_FINITE for one in judgement.grounds))
    return last, math.nan if lost else float(finite[-1]) if len(finite) else None


def _unseen(place: Contents, rows: pd.DataFrame, column: str, losses: int) -> list[str]:
    """Return the parts of the run that were not read, and why."""
    from toposcope.rules.overfitting import FEWEST
    from toposcope.rules.rises import LEAST
    from toposcope.statistics.alarms.residuals import FIRST

    wanted = (("grad_norm", "gradient norm"), ("learning_rate", "learning rate"))
    found = [f"{said} (not logged)" for name, said in wanted if name not in rows or rows[name].isna().all()]
    held = int(rows["heldout_loss"].notna().sum()) if "heldout_loss" in rows else 0
    if column == "loss" and 0 < held < FEWEST:
        found.append(f"overfitting (needs {FEWEST} held-out losses)")
    if not losses:
        none = "finite" if len(rows) and column in rows else "logged"
        return [f"losses (none is {none})", *([place.unseen] if place.unseen else [])]
    if losses < FIRST:
        found.append(f"loss spikes (need {FIRST} losses)")
    if losses < LEAST:
        found.append(f"plateaus and small rises (need {LEAST} losses)")
    return [*found, place.unseen] if place.unseen else found


def _limits(curve: Curve | None, forecast: Forecast | None, lost: int) -> list[str]:
    """Return the limits of an answer."""
    from toposcope.logs.plan_beside import BESIDE

    found = []
    if curve is not None and forecast is not None:
        if not curve.endless:
            found.append(f"the forecast assumes that the run goes on to step {curve.horizon:,}")
        found += [part for part in forecast.reason.split("; ") if part and forecast.status != "failed"]
        found += [note for note in curve.notes if lost or not note.endswith(WITHOUT_LOSS)]
    elif curve is not None:
        found += [note for note in curve.notes if BESIDE in note]
    return found
