"""The contents of a folder for a check: its checkpoints with their audit, and the logs beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core import LOG_FILES
from toposcope.core.errors import EmptyLogError, InputError, NoLogError, SourceError, UnrelatedTableError
from toposcope.core.forms import listed
from toposcope.core.wording import command
from toposcope.files import LIGHTNING_METRICS, TRAINER_STATE
from toposcope.files.labels import step_of
from toposcope.logs.folder import is_history, log_files, refuse_outside
from toposcope.runs.contents import LOSSES, Contents, logged, said_of

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.logs import Log
    from toposcope.logs.pairing import LogOfRun
    from toposcope.runs.reading import Reading
    from toposcope.sources import Series
    from toposcope.sources.audit import Audited

BESIDE = "step and loss from the files beside the checkpoints"
STATED = "step and loss from the checkpoints themselves"
_NO_CHECKPOINT = "checkpoints (none in the folder)"
_OF_AIM = (
    "export it as CSV with Python: aim.Repo(FOLDER).query_metrics().dataframe(include_run=True, "
    "include_name=True, include_context=True).to_csv('aim.csv')"
)


def contents_of_folder(
    path: str, name: str, reading: Reading, *, audited: bool, chosen: Sequence[str]
) -> list[Contents]:
    """Return the contents of a folder or a file of weights: see `sources.read_contents`."""
    from toposcope.files.formats.foreign import ForeignFormatError
    from toposcope.logs import is_log
    from toposcope.sources import open_series

    try:
        series = open_series(path, step_pattern=reading.step_pattern, logs=False)
    except SourceError as error:
        place = Path(path)
        if not place.is_dir():
            raise
        foreign = isinstance(error, ForeignFormatError)
        unseen = f"checkpoints ({error})" if foreign else _NO_CHECKPOINT
        if is_log(path) or any((place / file).is_file() for file in (LIGHTNING_METRICS, TRAINER_STATE)):
            whole = replace(logged(path, name, reading), unseen=unseen)
            return [replace(whole, repaired=(*whole.repaired, *_unread(place, name, whole.log.path)))]
        inside = _logs_inside(place, name, reading)
        if not inside and foreign:
            raise
        if not inside:
            raise _without_log(path, error) from error
        return [replace(one, unseen=unseen) for one in _each_run_once(inside)]
    return _of_series(
        series, path, name, reading, seen=cheap_audit(series) if audited else None, chosen=chosen
    )


def _without_log(path: str, error: SourceError) -> SourceError:
    """Return the error of a folder without a log; of a tracker's own data it says what opens them."""
    from toposcope.core.report_folder import is_report, not_an_input
    from toposcope.files.blobs import LocalBlob
    from toposcope.logs.unread import packed_log

    place = Path(path)
    if is_report(place):
        return SourceError(not_an_input(place))
    if (place / ".aim").is_dir():
        return SourceError(f"{path}: is a repository of aim, which its own package reads", remedy=_OF_AIM)
    archives = (path for path in sorted(place.glob("*.zip")) if path.is_file())
    packed = next((why for archive in archives if (why := packed_log(LocalBlob(archive)))), None)
    return packed or SourceError(f"{path}: contains no log, no checkpoint and no store ({error}); name one")


def cheap_audit(series: Series) -> Audited:
    """Return the audit of a series of checkpoints that `check` and `forecast` make: of a sample of rows.

    It takes .2 s for 30 checkpoints of 100 MB in all, so every one is read and not the newest alone.
    """
    from toposcope.sources.audit import audited

    return audited(series, cheap=True)


def _of_series(
    series: Series, path: str, name: str, reading: Reading, *, seen: Audited | None, chosen: Sequence[str],
) -> list[Contents]:  # fmt: skip
    """Return the runs of a series with their audit; where they have no losses, the log beside them."""
    from toposcope.logs import Log
    from toposcope.runs.reading import read_source
    from toposcope.sources.unchanged import changed_matrices

    try:
        log = read_source(path, name, reading, logs=False)
    except SourceError:  # the audit has found that the losses cannot be read
        log = Log(path, "files beside the checkpoints", (), {})
    question = BESIDE if any(len(run.table) for run in log.runs) else ""
    findings = tuple(seen.findings) if seen is not None else ()
    contents = Contents(
        name, log, question, series.steps, findings, changed=lambda run: changed_matrices(series, run),
        resume=seen.resume if seen is not None else (),
    )  # fmt: skip
    if _has_losses(contents.log) or not Path(path).is_dir():
        return [contents]
    try:
        beside = _logs_inside(
            Path(path), name, reading, {str(checkpoint.uri) for checkpoint in series} - {path}
        )
    except SourceError as error:  # what is called a log there is none that can be read
        contents, beside = replace(contents, problems=(str(error),)), []
    folders = {run.run: Path(os.path.relpath(run.uri, path)) for run in series.runs}
    with_own_logs = (
        with_logs(_each_with_its_log(contents, path, beside, folders, chosen)) if beside else [contents]
    )
    if all(_has_losses(place.log) or place.question for place in with_own_logs):
        return with_own_logs
    try:
        stated = read_source(path, name, reading, logs=True)  # with what the checkpoints themselves state
    except SourceError:  # the audit has found that the losses cannot be read
        return with_own_logs
    return [_with_stated(place, stated) for place in with_own_logs]


def _with_stated(part: Contents, stated: Log) -> Contents:
    """Return checkpoints without a log with the losses that they state themselves, if they do."""
    if _has_losses(part.log) or part.question:
        return part
    runs = tuple(run for run in stated.runs if run.name in part.steps)
    log = replace(stated, runs=runs)
    return replace(part, log=log, said=STATED) if _has_losses(log) else part


def _each_with_its_log(
    own: Contents, path: str, beside: list[Contents], folders: Mapping[str, Path], chosen: Sequence[str]
) -> list[Contents]:
    """Give each run the log that lies with its checkpoints, or that has its name.

    `folders` are those of the checkpoints of each run, from the folder `path` that all of them lie in.
    """
    named = {content.log.path: content for content in beside}
    places = {
        at: Path(os.path.relpath(at, path)) for at, content in named.items() if len(_runs_of(content)) == 1
    }
    bare = {run: folder for run, folder in folders.items() if run in own.steps}

    def rows(log: str) -> pd.DataFrame:
        return next(run.table for run in named[log].log.runs if len(run.table))

    from toposcope.logs.pairing import logs_of_runs

    choices = logs_of_runs(bare, places, rows, chosen)
    taken = {log for choice in choices.values() for log in choice.its}
    loose = [content for at, content in named.items() if at not in taken]
    alone = len(choices) == len(own.steps) == 1 and not loose
    by_run = {run: _part(own, run, alone) for run in choices}
    given = {id(finding) for part in by_run.values() for finding in part.audit}
    left = {run: steps for run, steps in own.steps.items() if run not in choices}
    rest = replace(
        own, name=f"{own.name}: {next(iter(left))}" if len(left) == 1 and choices else own.name, steps=left,
        audit=tuple(finding for finding in own.audit if id(finding) not in given),
        log=replace(own.log, runs=tuple(run for run in own.log.runs if run.name not in choices)),
    )  # fmt: skip
    joined = [_with_log(by_run[run], run, choice, named, path) for run, choice in choices.items()]
    parts = [*([rest] if rest.steps or rest.audit else []), *joined, *loose]
    problems = tuple(problem for content in beside for problem in content.problems)
    no_logs = tuple(place for content in beside for place in content.no_logs)
    parts = [replace(part, problems=(), no_logs=()) for part in parts]
    return [replace(parts[0], problems=problems, no_logs=no_logs), *parts[1:]]


def _part(own: Contents, run: str, alone: bool) -> Contents:
    """Return the checkpoints of one run, with what was found in them."""
    return replace(
        own, name=own.name if alone else f"{own.name}: {run}", steps={run: own.steps[run]},
        audit=own.audit if alone else tuple(finding for finding in own.audit if run in finding.every_run),
        log=replace(own.log, runs=tuple(one for one in own.log.runs if one.name == run)),
    )  # fmt: skip


def _with_log(
    part: Contents, run: str, choice: LogOfRun, named: Mapping[str, Contents], path: str
) -> Contents:
    """Return a run with its log; where several disagree, with the question which one to take."""
    notes = choice.notes(lambda log: named[log].name)
    if choice.log:
        joined = _joined(part, run, named[choice.log])
        return replace(joined, repaired=(*joined.repaired, *notes))
    question = choice.question(lambda log: named[log].name)
    remedy = f"{question}; choose one: {command('check', path, choice.candidates[0])}"
    return replace(part, to_add=remedy, question=question, repaired=(*part.repaired, *notes))


def _runs_of(log: Contents) -> list[str]:
    return [run.name for run in log.log.runs if len(run.table)]


def _joined(own: Contents, run: str, log: Contents) -> Contents:
    """Return a log of one run with the checkpoints of that run, which has another name there."""
    (name,) = _runs_of(log)
    named = tuple(replace(finding, run=name, runs=()) for finding in own.audit)
    steps = {name: own.steps[run]}
    resume = tuple(replace(state, run=name) for state in own.resume if state.run == run)
    return replace(
        log, steps=steps, audit=named, resume=resume, unseen="", changed=lambda _: own.changed(run)
    )


def with_logs(contents: list[Contents]) -> list[Contents]:
    """Join the checkpoints of one run with the log of one run, if there is nothing else."""
    bare = [place for place in contents if place.steps and not _has_losses(place.log)]
    logs = [place for place in contents if not place.steps]
    if len(contents) != 2 or len(bare) != 1 or len(logs) != 1 or len(bare[0].steps) != 1:
        return contents
    if len(_runs_of(logs[0])) != 1:
        return contents
    return [_joined(bare[0], next(iter(bare[0].steps)), logs[0])]


def _has_losses(log: Log) -> bool:
    return any(run.table[name].notna().any() for run in log.runs for name in LOSSES if name in run.table)


def _unread(folder: Path, name: str, read: str) -> list[str]:
    """Return a note on the files that look like logs and were not read, because another is the log."""
    files = (file for file in log_files(folder) if file.suffix.lower() in LOG_FILES and str(file) != read)
    names = [f"{name}/{file.relative_to(folder)}" for file in files]
    return [f"not read, because the trainer's own log is there: {listed(names, most=4)}"] if names else []


def _each_run_once(contents: list[Contents]) -> list[Contents]:
    """Return logs without those that repeat another one in another form: progress.csv beside log.txt.

    Only a folder with one log of each form is one run's. Two alike logs of one form may be two runs.
    """
    from toposcope.logs.pairing import agreeing, logs_of_runs

    kept = list(contents)
    for folder in {Path(one.log.path).parent for one in contents}:
        here = {
            one.log.path: one
            for one in contents
            if Path(one.log.path).parent == folder and len(_runs_of(one)) == 1
        }
        if len({one.log.dialect for one in here.values()}) < max(2, len(here)):
            continue
        tables = {
            path: next(run.table for run in one.log.runs if len(run.table)) for path, one in here.items()
        }
        choice = logs_of_runs({"": Path()}, dict.fromkeys(here, Path()), tables.__getitem__)[""]
        if choice.agreeing:
            others = agreeing([here[log].name for log in choice.agreeing])
            kept = [
                replace(one, repaired=(*one.repaired, *others)) if one.log.path == choice.log else one
                for one in kept
                if one.log.path not in choice.agreeing
            ]
    if kept and kept[0] is not contents[0]:
        kept[0] = replace(kept[0], problems=contents[0].problems, no_logs=contents[0].no_logs)
    return kept


def _is_damaged(file: Path, error: InputError) -> bool:
    """Return whether what is named as a loss history, or is a logger's folder, cannot be read."""
    return not isinstance(error, NoLogError | EmptyLogError) and (file.is_dir() or is_history(file.name))


def _logs_inside(
    folder: Path, name: str, reading: Reading, checkpoints: Collection[str] = ()
) -> list[Contents]:
    """Return the logs in a folder and in the folders inside it; other files are named."""
    logs: list[Contents] = []
    problems: list[str] = []
    no_logs: list[str] = []
    for file in _without_earlier_states(log_files(folder, checkpoints)):
        label = f"{name}/{file.relative_to(folder)}" if file != folder else name
        try:
            refuse_outside(folder, file)
            logs.append(replace(logged(str(file), label, reading), unseen=_NO_CHECKPOINT))
        except InputError as error:
            named_as_log = file.suffix.lower() in LOG_FILES and not isinstance(error, UnrelatedTableError)
            if named_as_log or _is_damaged(file, error):
                problems.append(said_of(label, error))
            else:
                no_logs.append(label)
    if not logs and problems:
        raise SourceError("; ".join(problems))
    if logs:
        logs[0] = replace(logs[0], problems=tuple(problems), no_logs=tuple(no_logs))
    return logs


def _without_earlier_states(files: Iterable[Path]) -> list[Path]:
    """Return logs without the trainer's states of earlier steps: that of the last step has every record."""
    files = list(files)
    states = [file for file in files if file.name == TRAINER_STATE]
    steps = {file: step for file in states if (step := step_of(file.parent.name)) is not None}
    last = {file.parent.parent: file for file in sorted(steps, key=lambda file: steps[file])}
    return [file for file in files if file not in steps or last[file.parent.parent] == file]
