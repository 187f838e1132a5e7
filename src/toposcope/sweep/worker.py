"""What one process does: open a run, measure units, write what is finished."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toposcope.errors import InputError
from toposcope.probes.base import Probe, Reach
from toposcope.probes.snapshot import RunReader, SeriesLike
from toposcope.store import Result, Store, Unit
from toposcope.store.units import digest
from toposcope.sweep.plan import Task
from toposcope.types import Checkpoint

_SECONDS_UNWRITTEN = 2.0
"""Finished units wait at most this long for others to share their file; a kill loses no more than that."""


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to know, sent to it once."""

    series: SeriesLike
    runs: Mapping[str, tuple[Checkpoint, ...]]
    probes: tuple[Probe, ...]
    store: Path
    keep_diagrams: bool
    small: bool = False
    """Whether every matrix is so small that threads in BLAS only get in each other's way."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A unit that could not be measured, and why, on one line."""

    run: str
    index: int
    step: int
    probe: str
    note: str


@dataclass(slots=True)
class Outcome:
    """What came of a task."""

    done: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def units(self) -> int:
        """Return how many units were looked at."""
        return self.done + self.skipped + len(self.failures)


class Worker:
    """Does tasks, one after the other, and keeps the current run open between them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._probes = {probe.name: probe for probe in job.probes}
        self._store = Store.open(job.store)
        self._reader: tuple[str, RunReader] | None = None
        self._waiting: dict[str, list[Result]] = {}
        self._written = time.monotonic()

    def do(self, task: Task, tell: Callable[[Outcome], None] | None = None) -> Outcome:
        """Measure the units of a task that the store lacks; `tell` hears of each checkpoint's."""
        reader = self._open(task.run)
        total = Outcome()
        try:
            for index in task.indices:
                outcome = self._checkpoint(reader, index, [self._probes[name] for name in task.probes])
                total.done += outcome.done
                total.skipped += outcome.skipped
                total.failures += outcome.failures
                reader.leave_behind(index)
                if tell is not None:
                    tell(outcome)
        finally:
            self._write()
        return total

    def _open(self, run: str) -> RunReader:
        if self._reader is None or self._reader[0] != run:
            self._reader = (run, RunReader(self._job.series, self._job.runs[run]))
        return self._reader[1]

    def _checkpoint(self, reader: RunReader, index: int, probes: Sequence[Probe]) -> Outcome:
        outcome = Outcome()
        for probe in probes:
            unit = Unit("", 0, probe.name, probe.version, "")
            try:
                unit = _unit(reader, index, probe)
                if self._store.has(unit, diagrams=self._job.keep_diagrams):
                    outcome.skipped += 1
                    continue
                start = time.perf_counter()
                measured = probe.measure(reader[index])
                seconds = time.perf_counter() - start
            except Exception as error:
                _stop_if_hopeless(error)
                outcome.failures.append(self._fail(reader[index].checkpoint, index, probe, unit, error))
                continue
            diagrams = tuple(measured.diagrams) if self._job.keep_diagrams else ()
            self._waiting.setdefault(probe.name, []).append(
                Result(unit, tuple(measured.rows), diagrams, seconds)
            )
            outcome.done += 1
        if time.monotonic() - self._written > _SECONDS_UNWRITTEN:
            self._write()
        return outcome

    def _fail(self, at: Checkpoint, index: int, probe: Probe, unit: Unit, error: Exception) -> Failure:
        note = _one_line(error)
        lost = Unit(at.run, at.step, probe.name, probe.version, unit.content_hash, at.tokens)
        self._store.write_failure(lost, note)
        return Failure(at.run, index, at.step, probe.name, note)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for results in waiting.values():
            self._store.write_results(results, keep_diagrams=self._job.keep_diagrams)
        self._written = time.monotonic()


def _unit(reader: RunReader, index: int, probe: Probe) -> Unit:
    """Return the unit of a probe at a checkpoint; its hash covers every checkpoint that is read."""
    at = reader[index].checkpoint
    content = reader.content_hash(index)
    if probe.reach == Reach.PREVIOUS:
        content = digest(
            [_hash_or_fault(reader, before) for before in range(max(0, index - 1), index)] + [content]
        )
    elif probe.reach == Reach.PREFIX:
        content = digest([_hash_or_fault(reader, before) for before in range(index)] + [content])
    return Unit(at.run, at.step, probe.name, probe.version, content, at.tokens)


def _hash_or_fault(reader: RunReader, index: int) -> str:
    try:
        return reader.content_hash(index)
    except (InputError, OSError):
        return "unreadable"


def _stop_if_hopeless(error: Exception) -> None:
    """Pass on what no other unit would fare better with: a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"
