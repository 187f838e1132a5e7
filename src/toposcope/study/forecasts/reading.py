"""Loss curves: from stores, run folders, and plain tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from toposcope.core.errors import InputError, SourceError, did_you_mean
from toposcope.core.types import WEIGHT_FILES
from toposcope.core.wording import renaming
from toposcope.logs import log_of_runs, log_of_table, with_index
from toposcope.logs.folder import LOGS, log_files

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve, Schedule
    from toposcope.logs import Log
    from toposcope.store import Store
    from toposcope.study.forecasts.gather import Problem
    from toposcope.study.forecasts.log_results import LogResults
    from toposcope.study.study_rows import StudyRows

    Given: TypeAlias = str | Path | Store | pd.DataFrame


@dataclass(frozen=True, slots=True)
class Reading:
    """How runs are read: the loss column, columns renamed before that, and what files leave open.

    A renamed column has to be in some table, not in each: `met` collects those that were found, `seen` all
    columns. `rows` collects the log of each run that was read; `results` has what was computed from logs
    already.
    """

    column: str = "loss"
    rename: Mapping[str, str] = field(default_factory=dict)
    horizon: int | None = None
    plan: Schedule | None = None
    parameters: int = 0
    step_pattern: str | None = None
    met: set[str] = field(default_factory=set, compare=False)
    seen: set[str] = field(default_factory=set, compare=False)
    rows: dict[str, pd.DataFrame] = field(default_factory=dict, compare=False)
    results: LogResults | None = field(default=None, compare=False)

    def refuse_unmet(self) -> None:
        """Raise InputError when a column to be renamed was in none of the tables that were read."""
        if absent := [old for old in self.rename if old not in self.met]:
            near = did_you_mean(absent[0], sorted(self.seen))
            raise InputError(f"{renaming(absent[0], '...')}: no such column in any of the tables{near}")


def listed(given: Given | Sequence[Given]) -> list[str | pd.DataFrame]:
    """Return the given source or sources as a list of paths and tables."""
    import pandas as pd

    from toposcope.store import Store

    several = [given] if isinstance(given, str | Path | Store | pd.DataFrame) else list(given)
    stores = [one.path if isinstance(one, Store) else one for one in several]
    return [one if isinstance(one, pd.DataFrame) else str(one) for one in stores]


Read: TypeAlias = "tuple[list[Curve], list[Problem], list[str]]"
"""The curves of sources, the runs that could not be used, and how tables were read."""


def read_curves(sources: Sequence[str | pd.DataFrame], reading: Reading) -> Read:
    """Return the curves of every source, runs that could not be used, and notes on how tables were read.

    A folder that is neither a store, nor a series, nor a log is a folder of logs.
    """
    names = table_names([source for source in sources if isinstance(source, str)])
    parts = []
    for source in sources:
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
    from toposcope.study.forecasts.gather import Problem

    names = table_names([*map(str, files)])
    parts: list[Read] = []
    for file in files:
        name = names[str(file)]
        try:
            parts.append(_read_one(str(file), name, reading))
        except InputError as why:
            log = file.suffix.lower() in LOGS
            parts.append(([], [Problem(name, str(why))], []) if log else ([], [], [f"{file}: is not a log"]))
    read = _together(parts)
    if not read[0]:
        raise SourceError(read[1][0].reason if read[1] else str(error)) from error
    return read


def _read_one(source: str | pd.DataFrame, name: str, reading: Reading) -> Read:
    path = source if isinstance(source, str) else "the table"
    log = log_of(source, name, reading)
    if log.metrics.empty:
        raise InputError(
            f"{path} has no losses; give its log (a CSV with step,loss), or a store or run folder with "
            "metrics"
        )
    found, bad = curves_of(log, reading)
    return found, bad, [f"{path}: {note}" for note in _notes(log, reading)]


def _notes(log: StudyRows, reading: Reading) -> Sequence[str]:
    """Return how a log was read; that its held-out loss is used, too, which a store does not note."""
    from toposcope.study.study_rows import HELD_OUT, canonical_name

    asked = column_of(log.metrics, reading) == canonical_name(reading.column)
    if asked or any(note.startswith(HELD_OUT) for note in log.notes):
        return log.notes
    return [f"{HELD_OUT} is used", *log.notes]


def _together(parts: Sequence[Read]) -> Read:
    return (
        [curve for curves, _, _ in parts for curve in curves],
        [problem for _, problems, _ in parts for problem in problems],
        [note for _, _, notes in parts for note in notes],
    )


def log_of(source: str | pd.DataFrame, name: str, reading: Reading) -> StudyRows:
    """Return the log of a source; `name` is the name of a single run whose file does not name it."""
    if isinstance(source, str):
        return read_source(source, name, reading)
    return _log_of_table(source, reading)


def curves_of(
    log: StudyRows, reading: Reading, column: str | None = None
) -> tuple[list[Curve], list[Problem]]:
    """Return the curve of every run of a log, and the runs that could not be used.

    `column` is their loss, by default that of `column_of`.
    """
    from toposcope.study.forecasts.gather import gather_curves
    from toposcope.study.forecasts.log_results import LogResults

    column = column or column_of(log.metrics, reading)
    known, plan = log.metrics["run"].unique(), reading.plan
    reading.rows.update({str(run): rows for run, rows in log.metrics.groupby("run", sort=False)})
    found, bad = gather_curves(
        log.metrics, log.runs, features=log.features, diagrams=log.diagrams, wide=log.wide,
        catalogue=log.catalogue,
        horizon=reading.horizon, column=column,
        schedules=dict.fromkeys(map(str, known), plan) if plan is not None else None,
        assess=(reading.results or LogResults()).health,
    )  # fmt: skip
    return [c if c.parameters else replace(c, parameters=reading.parameters) for c in found], bad


def column_of(metrics: pd.DataFrame, reading: Reading) -> str:
    """Return the loss that is read from a table of losses; the held-out one if no training loss is logged."""
    from toposcope.study.study_rows import canonical_name, loss_column

    column = canonical_name(reading.column)
    return loss_column(metrics) if column == "loss" else column


def refuse_twins(curves: Sequence[Curve]) -> None:
    """Raise InputError when two runs have one name: a run must not be its own sibling."""
    seen: set[str] = set()
    for curve in curves:
        if curve.run in seen:
            raise InputError(f"run {curve.run} is given twice; leave one out")
        seen.add(curve.run)


def table_names(paths: Sequence[str]) -> dict[str, str]:
    """Name a table without a run column by its file, with the folder if two files have the same name."""
    files = [Path(path) for path in paths if Path(path).is_file()]
    stems = [file.stem for file in files]
    return {
        str(file): file.stem if stems.count(file.stem) == 1 else f"{file.parent.name}/{file.stem}"
        for file in files
    }


def _with_unmet(error: InputError, path: str, columns: Sequence[str], reading: Reading) -> InputError:
    """Return the error of a table; it first names a column to be renamed that the table lacks."""
    if not (absent := [old for old in reading.rename if old not in columns]):
        return error
    near = did_you_mean(absent[0], columns)
    why = f"{path}: {renaming(absent[0], '...')}: no such column among {', '.join(columns[:12])}{near}"
    return InputError(f"{why}; {error}")


def read_source(path: str, name: str, reading: Reading, *, logs: bool = True) -> StudyRows:
    """Return what a store, a log, or the series that `open_series` opens says about its runs.

    A file is a log unless its name says that it holds weights. A folder is a store, a series of checkpoints
    with the log beside them, a logger's folder, or the folder that holds Lightning's metrics.csv or
    transformers' trainer_state.json and no checkpoint. Beside a log of one run, the trainer's own files say
    how many steps are planned, and by which learning rate (`sources.plan_beside`). With `logs`, runs
    without losses have those of the logs beside their checkpoints.
    """
    import pandas as pd

    from toposcope.files.lightning import METRICS
    from toposcope.files.trainer_state import TRAINER_STATE
    from toposcope.logs import is_log
    from toposcope.study.study_rows import StudyRows
    from toposcope.subjects.weights.features import RIPS

    place = Path(path)
    if place.is_file() and place.suffix.lower() not in WEIGHT_FILES:
        return planned_beside(log_at(path, name, reading), place)
    if (place / "store.json").is_file():
        from toposcope.store import Store

        store = Store.open(path)
        return StudyRows(
            store.metrics(), store.runs(), features=store.features(), diagrams=store.diagrams(probe=RIPS),
            catalogue=store.catalogue(),
        )  # fmt: skip
    from toposcope.sources import open_series

    try:
        series = open_series(path, step_pattern=reading.step_pattern, logs=logs)
    except SourceError:
        beside = [file for file in (METRICS, TRAINER_STATE) if (place / file).is_file()]
        if beside:
            return read_source(str(place / beside[0]), place.name, reading)
        if not is_log(path):
            raise
        return log_at(path, place.resolve().name, reading)
    frames = [series.metrics(run.run) for run in series.runs]
    rows = [
        {
            "run": r.run, "parameters": r.parameters, "family": r.family, "corpus": r.corpus,
            "config": dict(r.config),
        }
        for r in series.runs
    ]  # fmt: skip
    filled = [frame for frame in frames if len(frame)]
    metrics = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=["run"])
    return StudyRows(metrics, pd.DataFrame(rows), notes=tuple(series.logs().values()))


def log_at(path: str, name: str, reading: Reading) -> StudyRows:
    """Return the runs of a log, and the columns used as step and loss; `name` is that of a single run."""
    from toposcope.files.labels import step_of
    from toposcope.files.trainer_state import TRAINER_STATE
    from toposcope.logs import raw_log

    dialect, raw = raw_log(path)
    if Path(path).name == TRAINER_STATE:  # the folder is named after the run
        folder = Path(path).resolve().parent
        name = folder.parent.name if step_of(folder.name) is not None else folder.name
    elif len(raw) == 1 and raw[0].name:
        name = raw[0].name
    columns = list(dict.fromkeys(str(column) for run in raw for column in run.table))
    return _named(lambda **how: log_of_runs(raw, path, dialect, **how), path, name, columns, reading)


def _log_of_table(table: pd.DataFrame, reading: Reading) -> StudyRows:
    """Return the log of a table in memory, which is read as a file is."""
    table = with_index(table)
    columns = [str(column) for column in table]
    return _named(lambda **how: log_of_table(table, **how), "the table", "run", columns, reading)


def _named(
    read: Callable[..., Log], path: str, name: str, columns: Sequence[str], reading: Reading
) -> StudyRows:
    """Return a log by its reader, which takes how columns are renamed, and which of them keep their names."""
    from toposcope.study.copies import copies
    from toposcope.study.study_rows import as_named, log_of_read, unknown

    known = {old: new for old, new in reading.rename.items() if old in columns}
    reading.met.update(known)
    reading.seen.update(columns)
    how = {"rename": as_named(reading.column, columns, known), "keep": unknown(reading.column)}
    try:
        found = read(**how, strict=False)
        log = log_of_read(found, name=name, column=reading.column, copies=copies, held_out=True)
    except InputError as error:
        raise _with_unmet(error, path, columns, reading) from error
    return log if found.plain else replace(log, notes=(found.said, *log.notes))


def planned_beside(log: StudyRows, path: Path) -> StudyRows:
    """Return a log whose runs have the plan that the trainer's own files beside it state."""
    import pandas as pd

    from toposcope.logs.belonging import configuration
    from toposcope.logs.plan_beside import plan_beside, with_plan

    try:
        facts = plan_beside(path, alone=len(log.runs) == 1)
    except SourceError as error:
        return replace(log, notes=(*log.notes, str(error)))
    if not facts:
        return log
    own: list[object] = list(log.runs["config"]) if "config" in log.runs else [None] * len(log.runs)
    both = [with_plan(configuration(one), facts) for one in own]
    return replace(log, runs=log.runs.assign(config=pd.Series(both, log.runs.index, dtype=object)))
