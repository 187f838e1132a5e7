"""Is this run all right, and where will it end: health, alarms, audit and forecast in one answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.forms import listed as in_words
from toposcope.runs._answering import CheckSettings, ReadRun, answer_of
from toposcope.runs.checked import Check, worst_first
from toposcope.runs.run_check import RunCheck

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve, Schedule
    from toposcope.logs.run import Run
    from toposcope.runs.contents import Contents, OfStore
    from toposcope.runs.reading import Given, Reading
    from toposcope.runs.trendless import Trendless

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
    >>> import numpy as np
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
        from toposcope.runs._several import finished_siblings

        others, problems = finished_siblings(beside, reading)
    contents, unread = _contents(given, reading, of_store)
    if not contents:
        raise InputError(unread[0])
    contents = contents if len(contents) > 1 else [alone(contents[0])]
    reading.refuse_unmet()
    named = canonical_name(column) if column else None
    refuse_unknown_column(named, contents)
    settings = CheckSettings(reading, tuple(others), level, named)
    gone: tuple[str, ...] = ()
    if without:
        from toposcope.runs._several import left_out

        gone = left_out(without, [pair for place in contents for pair in _called(place).items()])
    read = [run for place in contents for run in _read(place, settings, gone)]
    refuse_same_names((run.name, run.place.log.path) for run in read)
    runs = [answer_of(run, settings, _ended_beside(run, read, others)) for run in read]
    if not runs and gone:
        raise InputError(
            "no run is left", argument="without", value=", ".join(gone), remedy="keep at least one run"
        )
    if not runs:
        raise InputError(f"{contents[0].name}: no run has a row or a checkpoint; give its log")
    problems = [*unread, *(problem for place in contents for problem in _problems(place)), *problems]
    if len(runs) > 1:
        from toposcope.runs._odd_runs import with_odd

        runs = with_odd(runs, contents)
    separate = ""
    if len(settings.curves) + len(others) > 1:
        from toposcope.runs._several import beside_siblings, separate_groups

        runs = beside_siblings(runs, settings.curves, others)
        separate = separate_groups(settings.curves) if len(settings.curves) > 1 else ""
    notes = (*([separate] if separate else []), *_notes(contents, gone), *_unstated(read, runs))
    return Check(worst_first(runs), tuple(problems), notes, several_groups=bool(separate))


def _contents(
    given: Sequence[str | pd.DataFrame], reading: Reading, of_store: OfStore | None
) -> tuple[list[Contents], list[str]]:
    """Return the contents of every place, each once, and why some could not be read."""
    from toposcope.runs.contents import nothing_more, said_of
    from toposcope.runs.reading import distinct
    from toposcope.runs.sources import read_contents

    logs = [source for source in given if isinstance(source, str) and Path(source).is_file()]
    names = _names([source for source in given if isinstance(source, str)])
    all_contents: list[Contents] = []
    problems: list[str] = []
    for source in distinct(given):
        name = names[source] if isinstance(source, str) else "the table"
        try:
            all_contents += read_contents(
                source, name, reading, of_store=of_store or nothing_more, chosen=logs
            )
        except InputError as error:
            problems.append(said_of(name, error))
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
    return _joined(_once(all_contents)), problems


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
        Path(os.path.realpath(place.log.path))
        for place in contents
        if place.steps or place.unseen != FILE_ALONE
    }
    return [
        place
        for place in contents
        if place.unseen != FILE_ALONE or Path(os.path.realpath(place.log.path)) not in inside
    ]


def _problems(place: Contents) -> list[str]:
    """Return the logs of a place that cannot be read, and the audit findings that belong to no run."""
    runs = _names_of_runs(place)
    strange = [finding for finding in place.audit if not set(finding.every_run) & set(runs)]
    return [*place.problems, *map(str, strange)]


def _notes(contents: Sequence[Contents], gone: Sequence[str]) -> list[str]:
    notes = [f"left out on request: {', '.join(gone)}"] if gone else []
    no_logs = [name for place in contents for name in place.no_logs]
    if not no_logs:
        return notes
    named = in_words(no_logs, most=_MOST_NAMED, last=", ")
    return [*notes, f"left out because they are not logs: {named}"]


def _unstated(read: Sequence[ReadRun], runs: Sequence[RunCheck]) -> list[str]:
    """Return why forecasts here may differ from `forecast`, which takes every complete log as finished."""
    whole = sum(run.curve is not None and run.curve.finished and not run.curve.stated for run in read)
    if not whole or not any(run.forecast is not None for run in runs):
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


def _read(place: Contents, settings: CheckSettings, gone: Sequence[str]) -> list[ReadRun]:
    import pandas as pd

    from toposcope.logs.described import loss_column
    from toposcope.logs.plans import planned_end
    from toposcope.logs.run import Run
    from toposcope.runs.reading import judged_curve

    logged = {run.name: run for run in place.log.runs}
    runs = []
    for run, name in _called(place).items():
        if run in gone or name in gone:
            continue
        run_log = logged.get(run) or Run(run, pd.DataFrame())
        column = settings.column or loss_column(run_log.table)
        curve, wrong = judged_curve(run_log, settings.reading, column)
        trendless = _trendless(run_log, column, settings) if curve is None else None
        few = curve is None and column in run_log.table and run_log.table[column].notna().any()
        planned = planned_end(run_log.config, run_log.table) if few else None
        runs.append(
            ReadRun(place, run, name, run_log.table, column, curve, wrong, trendless, planned, run_log.error)
        )
    return runs


def _trendless(run: Run, column: str, settings: CheckSettings) -> Trendless | None:
    """Return what judges a run without a curve; None for a loss that should fall."""
    from toposcope.runs.trendless import trendless_of

    return trendless_of(run, column, settings.reading.horizon)


def _ended_beside(run: ReadRun, read: Sequence[ReadRun], siblings: Sequence[Curve]) -> list[Curve]:
    """Return the finished runs that a run is forecast from: those given, and those that are checked too."""
    given = [curve for curve in siblings if curve.run != run.run]
    names = {curve.run for curve in given}
    beside = [
        replace(other.curve, run=other.name)
        for other in read
        if other is not run and other.column == run.column and other.run not in names
        and other.curve is not None and other.curve.ended
    ]  # fmt: skip
    return [*given, *beside]
