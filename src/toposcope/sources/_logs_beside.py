"""The losses of runs of checkpoints that lie in logs beside them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from toposcope.core.errors import EmptyLogError, NoLogError, SourceError
from toposcope.files.blobs import LocalFolder
from toposcope.files.labels import counts_epochs, step_of
from toposcope.logs import history, read_log
from toposcope.logs.folder import is_history, log_files, refuse_outside
from toposcope.logs.log import Log
from toposcope.logs.meanings import plain
from toposcope.logs.metrics import tidy
from toposcope.logs.pairing import LogOfRun, agreeing, logs_of_runs
from toposcope.logs.plan_beside import plan_beside, with_plan
from toposcope.logs.records import IN_EPOCHS, PLANNED
from toposcope.logs.steps import COUNTED
from toposcope.sources.entries import Source

_HELD = 128
"""The largest number of cached logs, so that a log is read again only when it grows."""
_REFUSED: dict[tuple[object, ...], SourceError] = {}
"""Why files are no logs, by path and state: a watch meets the same ones at every pass."""
_MOST_REFUSED = 1 << 16


def with_logs_beside(folder: LocalFolder, found: Sequence[Source]) -> list[Source]:
    """Return the runs of a folder; a run without losses of its own gets those of the log beside it.

    The search for logs begins when losses are first needed, as in `toposcope check`.
    """
    beside = _Beside(folder.path, {source.run.run: source for source in found})
    return [
        dataclasses.replace(
            source,
            metrics=partial(beside.metrics, source.run.run),
            facts=partial(beside.facts, source.run.run),
            log=partial(beside.said, source.run.run),
            companions=partial(beside.companions, source.run.run),
            rows=partial(beside.rows, source.run.run),
            replaced=partial(beside.replaced, source.run.run),
            choice=partial(beside.choice, source.run.run),
        )
        for source in found
    ]


class _Beside:
    """The runs of a folder and the logs in it."""

    def __init__(self, root: Path, sources: Mapping[str, Source]) -> None:
        self._root, self._sources = root, sources
        self._paired: dict[str, LogOfRun] | None = None
        self._own: set[str] = set()
        self._faults: dict[str, str] = {}
        """The loss histories that cannot be read, and why."""

    def metrics(self, run: str) -> pd.DataFrame:
        """Return the losses of a run: its own, those of the log beside it, or what its checkpoints state.

        Raises
        ------
        SourceError
            When its own cannot be read, or it has none and a log beside it cannot be read.
        """
        own_metrics = self._sources[run].metrics()
        if _any_loss(own_metrics):
            return own_metrics
        if (log := self._log(run)) is not None:
            return history.join(own_metrics, log.runs[0].table, run)
        if rows := self._sources[run].stated():
            return history.join(own_metrics, tidy(rows, run), run)
        if faults := self._faults_of(run):
            raise SourceError("; ".join(faults))
        return own_metrics

    def facts(self, run: str) -> Mapping[str, Any]:
        """Return what the trainer's state says about a run, and the plan in its log."""
        own_facts = self._sources[run].facts()
        log = None if self._has_losses(run) else self._log(run)
        if log is None:
            return own_facts
        own_facts = (
            {**own_facts, IN_EPOCHS: True} if self._in_epochs(run) and not _by_epoch(log) else own_facts
        )
        if PLANNED in own_facts:
            return own_facts
        planned = log.runs[0].planned_steps
        return {**with_plan({PLANNED: planned} if planned else {}, _plan(Path(log.path))), **own_facts}

    def _in_epochs(self, run: str) -> bool:
        """Return whether the steps of all checkpoints of a run are the epochs in their names."""
        places = [
            (PurePath(entry.checkpoint.uri), entry.checkpoint.step) for entry in self._sources[run].entries
        ]
        return all(counts_epochs(place.stem) and step_of(place.stem) == step for place, step in places)

    def said(self, run: str) -> str:
        """Return the log that a run's losses come from, the columns, and logs that agree; empty for none."""
        log = None if self._has_losses(run) else self._log(run)
        if log is None:
            return ""
        others = agreeing([self._name(other) for other in self._choice(run).agreeing])
        return "; ".join([f"{self._name(log.path)}, {log.said}", *others])

    def rows(self, run: str) -> pd.DataFrame | None:
        """Return the table of the log that a run's losses come from; None for none."""
        log = None if self._has_losses(run) else self._log(run)
        return None if log is None else log.runs[0].table

    def companions(self, run: str) -> pd.DataFrame | None:
        """Return what was logged beside the loss where the losses come from, and may judge the run."""
        rows = self.rows(run)
        return self._sources[run].companions() if rows is None else history.companions_in(rows)

    def replaced(self, run: str) -> pd.DataFrame | None:
        """Return the rows that a restart replaced in the log that a run's losses come from."""
        return history.replaced_rows(None if self._has_losses(run) else self._log(run), run)

    def choice(self, run: str) -> LogOfRun:
        """Return the log of a run without losses of its own; where several disagree, those to choose from."""
        return LogOfRun() if self._has_losses(run) else self._choice(run)

    def _name(self, log: str) -> str:
        return os.path.relpath(log, self._root.parent)

    def _has_losses(self, run: str) -> bool:
        """Return whether a run has losses of its own, readable or not; errors are reported elsewhere.

        Losses do not disappear, so the answer yes is kept: a watch asks at every checkpoint.
        """
        if run not in self._own:
            try:
                if not _any_loss(self._sources[run].metrics()):
                    return False
            except SourceError:
                return True
            self._own.add(run)
        return True

    def _log(self, run: str) -> Log | None:
        """Return the current log of a run."""
        choice = self._choice(run)
        with contextlib.suppress(SourceError, OSError):  # it is being written
            return _read(Path(choice.log)) if choice.log else None
        return None

    def _choice(self, run: str) -> LogOfRun:
        if self._paired is None:
            logs = {log.path: log for log in self._logs()}
            bare = {
                name: Path(os.path.relpath(source.run.uri, self._root))
                for name, source in self._sources.items()
                if not self._has_losses(name)
            }
            places = {path: Path(path).relative_to(self._root) for path in logs}
            self._paired = logs_of_runs(bare, places, lambda path: logs[path].runs[0].table)
        return self._paired.get(run, LogOfRun())

    def _faults_of(self, run: str) -> list[str]:
        """Return what is wrong with the loss histories in the folder of a run, and in those above it."""
        self._choice(run)
        place = self._sources[run].run.uri
        near = (why for file, why in self._faults.items()
                if _is_in(file, place) or _is_in(place, os.path.dirname(file)))  # fmt: skip
        return list(near)

    def _logs(self) -> list[Log]:
        """Return the logs of one run in the folder."""
        checkpoints = {entry.checkpoint.uri for source in self._sources.values() for entry in source.entries}
        files = log_files(self._root, checkpoints - {str(self._root)})
        logs: list[Log] = []
        for file in files:
            try:
                refuse_outside(self._root, file)
                logs += [_read(file)]
            except (NoLogError, EmptyLogError):
                continue
            except (SourceError, OSError) as error:
                why = (
                    f"{file}: cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
                )
                self._faults |= {str(file): why} if file.is_dir() or is_history(file.name) else {}
        return [log for log in logs if len(log.runs) == 1 and "run" not in log.table]


def _is_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")


def _read(path: Path) -> Log:
    """Return a log in its current state.

    Raises
    ------
    SourceError
        When it is not a log, cannot be read, or has no losses yet.
    """
    stat = path.stat()
    if path.is_dir():
        return read_log(path)
    # the change of its rights changes the time of its inode alone
    key = (str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns)
    if key in _REFUSED:
        raise _REFUSED[key]
    try:
        return _read_once(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
    except SourceError as error:
        _REFUSED[key] = error.with_traceback(None)
        while len(_REFUSED) > _MOST_REFUSED:
            _REFUSED.pop(next(iter(_REFUSED)), None)
        raise


@lru_cache(maxsize=_HELD)
def _read_once(path: Path, size: int, changed: int, inode: int) -> Log:
    """Read a log; the same file is read again only when it has changed."""
    return read_log(path)


def _plan(log: Path) -> dict[str, Any]:
    """Return the plan in the trainer's files beside a log."""
    try:
        return plan_beside(log, alone=True) if log.is_file() else {}
    except (SourceError, OSError):  # being written
        return {}


def _by_epoch(log: Log) -> bool:
    """Return whether the steps of a log are epochs."""
    return plain(log.taken.get("step", "")) in ("epoch", "epochs") and COUNTED not in log.notes


def _any_loss(metrics: pd.DataFrame) -> bool:
    return bool(metrics[["loss", "heldout_loss"]].notna().to_numpy().any())
