"""The input of a check: the logs of a source, and the checkpoints beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import WEIGHT_FILES
from toposcope.logs.folder import LOGS, log_files, logs_of_runs
from toposcope.runs.odd_members import Changed, not_known
from toposcope.store.manifest import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.core.observations import AuditFinding
    from toposcope.logs import Log
    from toposcope.rules.replay import Replays
    from toposcope.runs.reading import Reading
    from toposcope.sources import Series
    from toposcope.store import Store

LOSSES = ("loss", "heldout_loss")
STATED = "step and loss from the checkpoints themselves"
_FILE_ALONE = "checkpoints (a log alone was given; give the folder that holds them)"
_NO_CHECKPOINT = "checkpoints (none in the folder)"
_OF_STORE = "checkpoints (the store's audit is included; give their folder to audit them again)"


@dataclass(frozen=True)
class Contents:
    """The contents of one source: the log of its runs, and the audit of their checkpoints.

    `name` is the name of the source. `steps` are the checkpoints of each run, `audit` the findings, and
    `unseen` the parts of the checkpoints that were not checked. `said` names the columns that were used as
    step and loss, and `repaired` what was cut or left out of the log. `problems` are logs in a folder that
    cannot be read, and `no_logs` the files that are not logs. `changed` has for each run the matrices that
    ever changed. `to_add` says how its runs get losses where a log in the folder would not be read. `replays`
    repeats the alarms of the watch of a store.
    """

    name: str
    log: Log
    said: str
    steps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    audit: tuple[AuditFinding, ...] = ()
    unseen: str = ""
    repaired: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    no_logs: tuple[str, ...] = ()
    changed: Changed = not_known
    to_add: str = ""
    replays: Replays | None = None


@dataclass(frozen=True)
class StoreFacts:
    """What a check takes from a store beside its losses; higher rooms that know its measurements give it.

    `changed` says of a run which of its matrices ever changed, `to_add` how its runs get losses, `replays`
    repeats the alarms of its watch.
    """

    changed: Changed = not_known
    to_add: str = ""
    replays: Replays | None = None


OfStore: TypeAlias = "Callable[[Store], StoreFacts]"
"""Reads what a check takes from a store beside its losses."""


def nothing_more(store: Store) -> StoreFacts:
    """Return nothing beside the losses of a store."""
    return StoreFacts()


def read_contents(
    source: str | pd.DataFrame,
    name: str,
    reading: Reading,
    *,
    audited: bool = True,
    of_store: OfStore = nothing_more,
) -> list[Contents]:
    """Return the contents of a source, one for each log of a folder.

    Parameters
    ----------
    source
        A table, a log, a store, or a folder of checkpoints or logs.
    name
        What it is called.
    reading
        How runs are read.
    audited
        Whether checkpoints are audited.
    of_store
        Reads what a store has beside its losses.

    Raises
    ------
    InputError
        When nothing there can be read.
    """
    if not isinstance(source, str):
        return [_logged(source, name, reading)]
    place = Path(source)
    if (place / MANIFEST).is_file():
        return [_of_store(source, name, of_store)]
    if place.is_dir() or place.suffix.lower() in WEIGHT_FILES:
        return _of_folder(source, name, reading, audited=audited)
    return [_logged(source, name, reading)]


def _logged(source: str | pd.DataFrame, name: str, reading: Reading) -> Contents:
    from toposcope.runs.reading import log_of

    run = Path(name).stem if isinstance(source, str) else "run"
    log = log_of(source, run, reading)
    said, _, repaired = log.said.partition("; ")
    notes = tuple(repaired.split("; ")) if repaired else ()
    return Contents(name, log, said, unseen=_FILE_ALONE, repaired=notes)


def _of_store(path: str, name: str, of_store: OfStore) -> Contents:
    from toposcope.runs.reading import log_of_store
    from toposcope.store import Store

    store = Store.open(path)
    facts = of_store(store)
    return Contents(
        name, log_of_store(path), "step and loss from the store",
        store.measured_steps(), tuple(store.audited()), _OF_STORE, changed=facts.changed,
        to_add=facts.to_add, replays=facts.replays,
    )  # fmt: skip


def _of_folder(path: str, name: str, reading: Reading, *, audited: bool) -> list[Contents]:
    from toposcope.files.formats.foreign import ForeignFormatError
    from toposcope.files.lightning import METRICS
    from toposcope.files.trainer_state import TRAINER_STATE
    from toposcope.logs import is_log
    from toposcope.sources import open_series
    from toposcope.sources.audit import audit

    try:
        series = open_series(path, step_pattern=reading.step_pattern, logs=False)
    except SourceError as error:
        place = Path(path)
        if not place.is_dir():
            raise
        foreign = isinstance(error, ForeignFormatError)
        unseen = f"checkpoints ({error})" if foreign else _NO_CHECKPOINT
        if is_log(path) or any((place / file).is_file() for file in (METRICS, TRAINER_STATE)):
            return [replace(_logged(path, name, reading), unseen=unseen)]
        found = _logs_inside(place, name, reading)
        if not found and foreign:
            raise
        if not found:
            raise SourceError(
                f"{path}: contains no log, no checkpoint and no store ({error}); name one"
            ) from error
        return [replace(one, unseen=unseen) for one in found]
    findings = tuple(audit(series, cheap=True)) if audited else ()
    return _of_series(series, path, name, reading, findings=findings)


def _of_series(
    series: Series, path: str, name: str, reading: Reading, *, findings: tuple[AuditFinding, ...]
) -> list[Contents]:
    """Return the runs of a series with their audit; where they have no losses, the log beside them."""
    from toposcope.logs import Log, is_log
    from toposcope.runs.reading import log_at, read_source
    from toposcope.sources.unchanged import changed_matrices

    said = "step and loss from the files beside the checkpoints"
    try:
        log = read_source(path, name, reading, logs=False)
    except SourceError:  # the audit has found that the losses cannot be read
        log = Log(path, "files beside the checkpoints", (), {})
    own = Contents(name, log, said, series.steps, findings, changed=lambda run: changed_matrices(series, run))
    if _has_losses(own.log) or not Path(path).is_dir():
        return [own]
    if is_log(path):
        log = log_at(path, Path(path).resolve().name, reading)
        beside = [Contents(name, log, log.said)]
    else:
        beside = _logs_inside(Path(path), name, reading)
    if not beside:
        try:
            stated = read_source(path, name, reading, logs=True)  # with what the checkpoints themselves state
        except SourceError:  # the audit has found that the losses cannot be read
            return [own]
        return [replace(own, log=stated, said=STATED) if _has_losses(stated) else own]
    folders = {run.run: Path(os.path.relpath(run.uri, path)) for run in series.runs}
    return with_logs(_each_with_its_log(own, beside, folders))


def _each_with_its_log(own: Contents, beside: list[Contents], folders: Mapping[str, Path]) -> list[Contents]:
    """Give each run the one log that lies with its checkpoints, or that has its name.

    `folders` are those of the checkpoints of each run, from the folder that all of them lie in.
    """
    logs = {
        one.name: Path(one.name.removeprefix(f"{own.name}/")) for one in beside if len(_runs_of(one)) == 1
    }
    named = {one.name: one for one in beside}
    bare = {run: folder for run, folder in folders.items() if run in own.steps}
    pairs = {run: named[log] for run, log in logs_of_runs(bare, logs).items()}
    if not pairs:
        return [own, *beside]
    by_run = {run: [one for one in own.audit if run in (one.runs or (one.run,))] for run in pairs}
    given = {id(one) for found in by_run.values() for one in found}
    left = {run: steps for run, steps in own.steps.items() if run not in pairs}
    rest = replace(
        own, name=f"{own.name}: {next(iter(left))}" if len(left) == 1 else own.name, steps=left,
        audit=tuple(one for one in own.audit if id(one) not in given),
        log=replace(own.log, runs=tuple(run for run in own.log.runs if run.name not in pairs)),
    )  # fmt: skip
    joined = [_joined(replace(own, audit=tuple(by_run[run])), run, log) for run, log in pairs.items()]
    loose = [one for one in beside if one.name not in {log.name for log in pairs.values()}]
    return [*([rest] if rest.steps or rest.audit else []), *joined, *loose]


def _runs_of(log: Contents) -> list[str]:
    return [run.name for run in log.log.runs if len(run.table)]


def _joined(own: Contents, run: str, log: Contents) -> Contents:
    """Return a log of one run with the checkpoints of that run, which has another name there."""
    (name,) = _runs_of(log)
    named = tuple(replace(one, run=name, runs=()) for one in own.audit)
    steps = {name: own.steps[run]}
    return replace(log, steps=steps, audit=named, unseen="", changed=lambda _: own.changed(run))


def with_logs(contents: list[Contents]) -> list[Contents]:
    """Join the checkpoints of one run with the log of one run, if there is nothing else."""
    bare = [one for one in contents if one.steps and not _has_losses(one.log)]
    logs = [one for one in contents if not one.steps]
    if len(contents) != 2 or len(bare) != 1 or len(logs) != 1 or len(bare[0].steps) != 1:
        return contents
    if len(_runs_of(logs[0])) != 1:
        return contents
    return [_joined(bare[0], next(iter(bare[0].steps)), logs[0])]


def refuse_unknown_column(column: str | None, contents: Sequence[Contents]) -> None:
    """Raise InputError where no source has the column that was named."""
    tables = [run.table for one in contents for run in one.log.runs]
    if column is None or any(column in table for table in tables):
        return
    known = dict.fromkeys(
        str(name)
        for table in tables
        for name in table.select_dtypes("number")
        if name not in ("step", "tokens") and table[name].notna().any()
    )
    raise InputError(
        "no log has such a column", argument="column", value=column,
        remedy=f"name one of {', '.join(known)}" if known else "leave it out",
    )  # fmt: skip


def said_of(name: str, error: InputError) -> str:
    """Return the problem with a source, with its name in front if the message lacks it."""
    text = str(error)
    return text if Path(name).name in text else f"{name}: {text}"


def _has_losses(log: Log) -> bool:
    return any(run.table[name].notna().any() for run in log.runs for name in LOSSES if name in run.table)


def _logs_inside(folder: Path, name: str, reading: Reading) -> list[Contents]:
    """Return the logs in a folder and in the folders inside it; other files are named."""
    found: list[Contents] = []
    problems: list[str] = []
    no_logs: list[str] = []
    for file in log_files(folder):
        label = f"{name}/{file.relative_to(folder)}"
        try:
            found.append(replace(_logged(str(file), label, reading), unseen=_NO_CHECKPOINT))
        except InputError as error:
            if file.suffix.lower() in LOGS:
                problems.append(said_of(label, error))
            else:
                no_logs.append(label)
    if not found and problems:
        raise SourceError(problems[0])
    if found:
        found[0] = replace(found[0], problems=tuple(problems), no_logs=tuple(no_logs))
    return found
