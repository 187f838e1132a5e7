"""The door to runs: the log of a file, a table, a store or a series of checkpoints, and its loss curves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from toposcope import files
from toposcope.core import WEIGHT_FILES
from toposcope.core.errors import InputError, SourceError, did_you_mean
from toposcope.core.wording import renaming
from toposcope.files import LIGHTNING_METRICS, TRAINER_STATE
from toposcope.logs import Log, Run, log_of_runs
from toposcope.logs.inputs import STANDARD_INPUT, STDIN, runs_of_store, tables_among
from toposcope.logs.naming import names_of_paths
from toposcope.logs.run import is_nan_column
from toposcope.store import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve, Schedule
    from toposcope.runs.curves import Problem
    from toposcope.runs.log_results import LogResults
    from toposcope.sources import Series
    from toposcope.store import Store

    Given: TypeAlias = str | Path | Store | pd.DataFrame

Features: TypeAlias = "Callable[[Log, str, Store | None], tuple[Log, list[Problem]]]"
"""Gives the runs of a log the features that forecasts may read, from its store if it has one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How runs are read: the loss column, columns renamed before that, and what files leave open.

    `pattern` reads the lines of text logs that are not recognised.

    A renamed column has to be in some table, not in each: `met` collects those that were found, `seen` all
    columns. `rows` collects the log of each run that was read; `results` has what was computed from logs
    already. `features` gives runs what forecasts read beside the loss; None if only losses are read.
    """

    column: str = "loss"
    rename: Mapping[str, str] = field(default_factory=dict)
    horizon: int | None = None
    plan: Schedule | None = None
    parameters: int = 0
    step_pattern: str | None = None
    pattern: str | None = None
    met: set[str] = field(default_factory=set, compare=False)
    seen: set[str] = field(default_factory=set, compare=False)
    rows: dict[str, pd.DataFrame] = field(default_factory=dict, compare=False)
    results: LogResults | None = field(default=None, compare=False)
    features: Features | None = field(default=None, compare=False)

    def refuse_unmet(self) -> None:
        """Raise InputError when a column to be renamed was in none of the tables that were read."""
        if absent := [old for old in self.rename if old not in self.met]:
            near = did_you_mean(absent[0], sorted(self.seen))
            raise InputError(f"{renaming(absent[0], '...')}: no such column in any of the tables{near}")


def listed(given: Given | Sequence[Given]) -> list[str | pd.DataFrame]:
    """Return the given source or sources as a list of paths and tables."""
    import pandas as pd

    stores = [source.path if _is_store(source) else source for source in sources_of(given)]
    return [store if isinstance(store, pd.DataFrame) else str(store) for store in stores]


def sources_of(given: object) -> list[Any]:
    """Return the given source or sources as a list of paths, tables and open stores.

    Raises
    ------
    InputError
        When one of them is none of these.
    """
    given = tables_among(given)
    several = list(given) if isinstance(given, Iterable) and not _is_alone(given) else [given]
    for source in several:
        if not _is_source(source):
            raise InputError(
                f"{_shown(source)} is no log and no store",
                remedy="give a path, a data frame, columns such as step and loss, or a list of these",
            )
    return several


def _is_alone(given: object) -> bool:
    return _is_source(given) or isinstance(given, Mapping | bytes)


def _is_source(given: object) -> bool:
    import pandas as pd

    return isinstance(given, str | Path | pd.DataFrame) or _is_store(given)


def _shown(given: object) -> str:
    """Return a value for an error: a mapping by its keys, a number or None as it is, others by their type."""
    kind = type(given).__name__
    if isinstance(given, Mapping):
        return f"a {kind} with {', '.join(map(repr, list(given)[:3])) or 'nothing'} in it"
    plain = given is None or isinstance(given, int | float | bytes)
    return repr(given) if plain else f"an object of the type {kind}"


def _is_store(given: object) -> bool:
    """Return whether a source is an open store; for paths and tables the room of stores is not loaded."""
    import pandas as pd

    if isinstance(given, str | Path | pd.DataFrame | list | tuple):
        return False
    from toposcope.store import Store

    return isinstance(given, Store)


def distinct(sources: Sequence[str | pd.DataFrame]) -> list[str | pd.DataFrame]:
    """Return each source once: a file given twice, by whatever path, is one.

    >>> distinct(["a.log", "./a.log", "b.log"])
    ['a.log', 'b.log']
    """
    seen: set[Path] = set()
    kept = []
    for source in sources:
        place = Path(os.path.realpath(source)) if isinstance(source, str) and source != STDIN else None
        if place is None or place not in seen:
            kept.append(source)
        if place is not None:
            seen.add(place)
    return kept


Read: TypeAlias = "tuple[list[Curve], list[Problem], list[str]]"
"""The curves of sources, the runs that could not be used, and how tables were read."""


def read_curves(sources: Sequence[str | pd.DataFrame], reading: Reading) -> Read:
    """Return the curves of every source, runs that could not be used, and notes on how tables were read.

    A folder that is neither a store, nor a series, nor a log is a folder of logs.
    """
    from toposcope.logs.folder import log_files

    names = table_names([source for source in sources if isinstance(source, str)])
    parts = []
    for source in distinct(sources):
        path = source if isinstance(source, str) else "the table"
        try:
            parts.append(_read_one(source, names.get(path, path), reading))
        except SourceError as error:
            files = [*log_files(Path(path))]  # none where it is no folder
            if not files:
                raise
            parts.append(_read_files(files, error, reading))
    return _together(parts)


def _read_files(files: Sequence[Path], error: SourceError, reading: Reading) -> Read:
    """Return the curves of the logs in a folder; files that cannot be read as logs are named."""
    from toposcope.core import LOG_FILES
    from toposcope.runs.curves import Problem

    names = table_names([*map(str, files)])
    parts: list[Read] = []
    for file in files:
        name = names[str(file)]
        try:
            parts.append(_read_one(str(file), name, reading))
        except InputError as why:
            log = file.suffix.lower() in LOG_FILES
            parts.append(([], [Problem(name, str(why))], []) if log else ([], [], [f"{file}: is not a log"]))
    read = _together(parts)
    if not read[0]:
        raise SourceError(read[1][0].reason if read[1] else str(error)) from error
    return read


def _read_one(source: str | pd.DataFrame, name: str, reading: Reading) -> Read:
    from toposcope.runs.curves import Problem

    path = source if isinstance(source, str) else "the table"
    log = log_of(source, name, reading)
    questions = [Problem(run.name, note) for run in log.runs if not len(run.table) for note in run.notes]
    if not any(len(run.table) for run in log.runs):
        if questions:
            raise InputError(f"{path}: {questions[0].reason}")
        raise InputError(
            f"{path} has no losses; give its log (a CSV with step,loss), or a store or run folder with "
            "metrics"
        )
    problems: list[Problem] = []
    if reading.features is not None:
        log, problems = reading.features(log, reading.column, _store_of(source))
    curves, more = curves_of(log.runs, reading)
    return curves, [*more, *problems, *questions], [f"{path}: {note}" for note in _notes(log, reading)]


def _notes(log: Log, reading: Reading) -> Sequence[str]:
    """Return how a log was read; that its held-out loss is used, too, which a store does not note."""
    from toposcope.logs.described import HELD_OUT, canonical_name

    asked = column_of([run.table for run in log.runs], reading) == canonical_name(reading.column)
    if asked or any(note.startswith(HELD_OUT) for note in log.assumed):
        return log.assumed
    return [f"{HELD_OUT} is used", *log.assumed]


def _store_of(source: str | pd.DataFrame) -> Store | None:
    if not isinstance(source, str) or not (Path(source) / MANIFEST).is_file():
        return None
    from toposcope.store import Store

    return Store.open(source)


def _together(parts: Sequence[Read]) -> Read:
    return (
        [curve for curves, _, _ in parts for curve in curves],
        [problem for _, problems, _ in parts for problem in problems],
        [note for _, _, notes in parts for note in notes],
    )


def log_of(source: str | pd.DataFrame, name: str, reading: Reading) -> Log:
    """Return the log of a source; `name` is the name of a single run whose file does not name it."""
    if isinstance(source, str):
        return read_source(source, name, reading)
    return log_at(source, "run", reading)


def curves_of(
    runs: Sequence[Run], reading: Reading, column: str | None = None
) -> tuple[list[Curve], list[Problem]]:
    """Return the curve of every run, and the runs that could not be used.

    `column` is their loss, by default that of `column_of`.
    """
    from toposcope.runs.curves import curve_of
    from toposcope.runs.log_results import LogResults

    column = column or column_of([run.table for run in runs], reading)
    reading.rows.update({run.name: run.table for run in runs})
    assess = (reading.results or LogResults()).assess
    curves: list[Curve] = []
    problems: list[Problem] = []
    for run in (run for run in runs if len(run.table)):
        sized = run if run.parameters else replace(run, parameters=reading.parameters)
        curve, wrong = curve_of(
            sized, column=column, horizon=reading.horizon, schedule=reading.plan, assess=assess
        )
        problems += wrong
        curves += [] if curve is None else [curve]
    return curves, problems


def judged_curve(run: Run, reading: Reading, column: str) -> tuple[Curve | None, tuple[str, ...]]:
    """Return the loss curve of a run that is judged, and what is wrong with its log.

    The rules tell of infinite losses, and that a loss has no trend is not wrong: neither is listed.
    """
    import numpy as np

    if not len(run.table):
        return None, ()
    columns = [name for name in run.table if name != "run"]
    plain = all(run.table[name].dtype.kind in "biuf" for name in columns)
    infinite = not plain or any(np.isinf(run.table[name].to_numpy()).any() for name in columns)
    finite = run.table.replace([np.inf, -np.inf], np.nan) if infinite else run.table
    curves, problems = curves_of([replace(run, table=finite)], reading, column)
    wrong = tuple(problem.reason.removeprefix(f"run {run.name}: ") for problem in problems if problem.applies)
    return curves[0] if curves else None, wrong


def column_of(tables: Sequence[pd.DataFrame], reading: Reading) -> str:
    """Return the loss that is read from the rows of runs; the held-out one if no training loss is logged."""
    from toposcope.logs.described import canonical_name, loss_column

    column = canonical_name(reading.column)
    if column != "loss":
        return column
    logged = [loss_column(table, "") for table in tables]
    return next((name for name in ("loss", "heldout_loss") if name in logged), column)


def refuse_twins(curves: Sequence[Curve]) -> None:
    """Raise InputError when two runs have one name: a run must not be its own sibling."""
    seen: set[str] = set()
    for curve in curves:
        if curve.run in seen:
            raise InputError(f"run {curve.run} is given twice; leave one out")
        seen.add(curve.run)


def table_names(paths: Sequence[str]) -> dict[str, str]:
    """Name a table without a run column by its file, with what tells files of one name apart."""
    files = [path for path in paths if path != STDIN and Path(path).is_file()]
    return {STDIN: STANDARD_INPUT} | names_of_paths(files, stems=True)


def _with_unmet(error: InputError, path: str, columns: Sequence[str], reading: Reading) -> InputError:
    """Return the error of a table; it first names a column to be renamed that the table lacks."""
    if not (absent := [old for old in reading.rename if old not in columns]):
        return error
    near = did_you_mean(absent[0], columns)
    why = f"{path}: {renaming(absent[0], '...')}: no such column among {', '.join(columns[:12])}{near}"
    return InputError(f"{why}; {error}")


def read_source(path: str, name: str, reading: Reading, *, logs: bool = True) -> Log:
    """Return what a store, a log, or the series that `open_series` opens says about its runs.

    A file is a log unless its name says that it holds weights. A folder is a store, a series of checkpoints
    with the log beside them, a logger's folder, or the folder that holds Lightning's metrics.csv or
    transformers' trainer_state.json and no checkpoint. Beside a log of one run, the trainer's own files say
    how many steps are planned, and by which learning rate (`logs.plan_beside`). With `logs`, runs without
    losses have those of the logs beside their checkpoints.
    """
    from toposcope.logs import is_log

    if path == STDIN:
        return log_at(path, name, reading)
    place = Path(path)
    if place.is_file() and place.suffix.lower() not in WEIGHT_FILES:
        return planned_beside(log_at(path, name, reading), place)
    if (place / MANIFEST).is_file():
        return log_of_store(path)
    from toposcope.core.report_folder import is_report, not_an_input
    from toposcope.sources import open_series

    if is_report(place):
        raise InputError(not_an_input(place))

    try:
        series = open_series(path, step_pattern=reading.step_pattern, logs=logs)
    except SourceError:
        beside = [file for file in (LIGHTNING_METRICS, TRAINER_STATE) if (place / file).is_file()]
        if beside:
            return read_source(str(place / beside[0]), place.name, reading)
        if not is_log(path):
            raise
        return log_at(path, Path(os.path.realpath(place)).name, reading)
    return log_of_series(series)


def log_of_store(path: str | Path) -> Log:
    """Return the log of the runs of a store."""
    return Log(str(path), "store", tuple(runs_of_store(path) or ()), {})


def log_of_series(series: Series) -> Log:
    """Return the log of the runs of a series of checkpoints, by the files beside them."""
    import dataclasses

    from toposcope.logs.described import recorded_runs
    from toposcope.logs.inputs import joined

    records = {run.run: dataclasses.asdict(run) for run in series.runs}
    rows = ((run, joined(series.metrics(run), series.companions(run))) for run in records)
    questions = series.log_questions()
    runs = tuple(
        replace(run, notes=(f"{questions[run.name].question()}; give one of them instead of the folder",))
        if run.name in questions
        else run
        for run in recorded_runs(rows, records)
    )
    return Log(series.uri, "files beside the checkpoints", runs, {}, assumed=tuple(series.logs().values()))


def log_at(source: str | pd.DataFrame, name: str, reading: Reading) -> Log:
    """Return the runs of a log or a table, and the columns used; `name` is that of a single run."""
    from toposcope.logs import label_of, raw_log

    dialect, raw = raw_log(source, reading.pattern)
    path = label_of(source)
    if Path(path).name == TRAINER_STATE:  # the folder is named after the run
        folder = Path(os.path.realpath(path)).parent
        name = folder.parent.name if files.step_of(folder.name) is not None else folder.name
    elif len(raw) == 1 and raw[0].name:
        name = raw[0].name
    columns = list(dict.fromkeys(str(c) for run in raw for c in run.table if not is_nan_column(c)))
    return _named(lambda **how: log_of_runs(raw, path, dialect, **how), path, name, columns, reading)


def _named(read: Callable[..., Log], path: str, name: str, columns: Sequence[str], reading: Reading) -> Log:
    """Return a log by its reader, which takes how columns are renamed, and which of them keep their names."""
    from toposcope.logs.described import as_named, described, unknown

    renames = {old: new for old, new in reading.rename.items() if old in columns}
    reading.met.update(renames)
    reading.seen.update(columns)
    how = {"rename": as_named(reading.column, columns, renames), "keep": unknown(reading.column)}
    try:
        log = read(**how, strict=False)
        as_described = described(log, name=name, column=reading.column, held_out=True)
    except InputError as error:
        raise _with_unmet(error, path, columns, reading) from error
    return as_described if log.plain else replace(as_described, assumed=(log.said, *as_described.assumed))


def planned_beside(log: Log, path: Path) -> Log:
    """Return a log whose runs have the plan that the trainer's own files beside it state."""
    from toposcope.logs.plan_beside import plan_beside, with_plan

    if str(path) == STDIN:
        return log
    try:
        facts = plan_beside(path, alone=len(log.runs) == 1)
    except SourceError as error:
        return replace(log, assumed=(*log.assumed, str(error)))
    if not facts:
        return log
    runs = tuple(replace(run, config=with_plan(run.config, facts)) for run in log.runs)
    return replace(log, runs=runs)
