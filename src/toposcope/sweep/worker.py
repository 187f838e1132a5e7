"""The work of one process: open a run, measure units, write what is finished."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.observations import Observation
from toposcope.core.progress import progress_reported_to
from toposcope.core.repeats import together
from toposcope.core.types import Checkpoint
from toposcope.store import Result, Store, Unit
from toposcope.store.units import digest
from toposcope.subjects.base import Measured, Probe, Reads, check_declared
from toposcope.subjects.snapshot import FetchedSeries, RunReader, SeriesLike, Snapshot
from toposcope.sweep.inline_audit import keep_look
from toposcope.sweep.not_finite import mark_spoilt, with_status
from toposcope.sweep.plan import Task

_SECONDS_UNWRITTEN = 2.0
"""After this many seconds, finished units are written without waiting for others to share their file."""

_SECONDS_BETWEEN_PARTS = 1.0
"""The seconds between two reports of the progress within a unit: a reader can follow one line a second."""

_UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to know, sent to it once."""

    series: SeriesLike
    runs: Mapping[str, tuple[Checkpoint, ...]]
    probes: tuple[Probe, ...]
    store: Path
    keep_diagrams: bool
    small: bool = False
    """Whether every matrix is so small that threads in BLAS only slow each other down."""
    together: int = 1
    """How many checkpoints fit into memory together and are measured in one go."""


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
    """The result of a task."""

    done: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    problems: list[Observation] = field(default_factory=list)
    """The problems of checkpoints that were measured nevertheless."""
    units: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By run and probe: units measured or failed, and units that were already in the store."""
    inside: str = ""
    """The progress of an unfinished unit, in words; such an outcome counts no units."""

    def add(self, other: Outcome) -> None:
        """Add another outcome."""
        self.done += other.done
        self.skipped += other.skipped
        self.failures += other.failures
        self.problems += other.problems
        for key, (done, present) in other.units.items():
            before = self.units.get(key, (0, 0))
            self.units[key] = (before[0] + done, before[1] + present)

    def sentences(self) -> list[str]:
        """Return the problems as sentences, each once and many equal ones together."""
        return [observation.message for observation in together(dict.fromkeys(self.problems))]

    def undone(self) -> Outcome:
        """Return the negative of this outcome, for a progress whose units will be repeated."""
        counted = self.done + self.skipped + len(self.failures)
        return Outcome(
            done=-counted, units={key: (-done, -present) for key, (done, present) in self.units.items()}
        )


@contextmanager
def _parts_reported(unit: str, tell: Callable[[Outcome], None] | None) -> Iterator[None]:
    """Report the progress within a unit, at most once a second."""
    if tell is None:
        yield
        return
    last = time.monotonic()

    def report(label: str, done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_PARTS:
            last = time.monotonic()
            tell(Outcome(inside=f"{unit}: {label} {done}" + (f"/{total}" if total else "")))

    with progress_reported_to(report):
        yield


class Worker:
    """Runs tasks, one after the other, and keeps the current run open between them."""

    def __init__(self, job: Job, store: Store | None = None) -> None:
        """Take a job; `store` is its store if that is already open, for callers with many jobs."""
        self._job = job
        self._probes = {probe.name: probe for probe in job.probes}
        self._store = store or Store.open(job.store)
        self._reader: tuple[str, RunReader] | None = None
        self._waiting: dict[str, list[Result]] = {}
        self._written = time.monotonic()
        for probe in job.probes:
            probe.warm_up()

    def do(self, task: Task, tell: Callable[[Outcome], None] | None = None) -> Outcome:
        """Measure the units of a task that the store lacks; `tell` is called after each step."""
        reader = self._open(task.run)
        total = Outcome()
        try:
            for start in range(0, len(task.indices), self._job.together):
                indices = task.indices[start : start + self._job.together]
                with self._held(reader, indices):
                    measured = 0
                    for name in task.probes:
                        unit = f"{task.run} step {reader[indices[0]].checkpoint.step:,}, {name}"
                        with _parts_reported(unit, tell):
                            for outcome in self._group(reader, indices, self._probes[name]):
                                worked = outcome.done + len(outcome.failures)
                                outcome.units[task.run, name] = (worked, outcome.skipped)
                                measured += outcome.done
                                total.add(outcome)
                                if tell is not None:
                                    tell(outcome)
                    for index in indices if measured else ():
                        keep_look(self._job.store, reader, index, in_memory=self._job.together > 1)
                reader.leave_behind(indices[-1])
        finally:
            self._write()
        return total

    def _held(self, reader: RunReader, indices: Sequence[int]) -> AbstractContextManager[None]:
        """Fetch a large checkpoint once for all probes; small ones stay in memory anyway."""
        series = self._job.series
        if not isinstance(series, FetchedSeries) or len(indices) > 1:
            return nullcontext()
        return series.holding(reader[indices[0]].checkpoint)

    def _open(self, run: str) -> RunReader:
        if self._reader is None or self._reader[0] != run:
            self._reader = (run, RunReader(self._job.series, self._job.runs[run]))
        return self._reader[1]

    def _group(self, reader: RunReader, indices: Sequence[int], probe: Probe) -> Iterator[Outcome]:
        """Measure one probe at the checkpoints that the store lacks; yield results that end together."""
        outcome = Outcome()
        todo: list[tuple[int, Unit]] = []
        for index in indices:
            try:
                unit = _unit(reader, index, probe)
                present = self._store.has(unit, diagrams=self._job.keep_diagrams)
                if not present and self._job.together > 1:
                    reader[index].load()  # while the file that was just hashed is still open
            except Exception as error:
                outcome.failures.append(self._fail(reader, index, probe, error))
                continue
            if present:
                self._store.clear_failure(unit)
                outcome.skipped += 1
            else:
                todo.append((index, unit))
        places = iter(todo)
        for results in self._measure(probe, [reader[index] for index, _ in todo]):
            for result, (index, unit) in zip(results, places, strict=False):
                self._take_in(outcome, reader, index, unit, probe, result)
            yield outcome
            outcome = Outcome()
        if not todo:
            yield outcome

    def _take_in(
        self,
        outcome: Outcome,
        reader: RunReader,
        index: int,
        unit: Unit,
        probe: Probe,
        result: tuple[Measured, float] | Exception,
    ) -> None:
        """Count a unit and keep its rows, which are written with those of others."""
        if isinstance(result, Exception):
            outcome.failures.append(self._fail(reader, index, probe, result))
            return
        measured, seconds = result
        at = reader[index].checkpoint
        outcome.problems += [
            Observation(at.run, at.step, tensor.name, tensor.note) for tensor in reader[index].left_out
        ]
        if measured.alone:
            unit = _unit(reader, index, probe, alone=True)
        diagrams = tuple(measured.diagrams) if self._job.keep_diagrams else ()
        waiting = self._waiting.setdefault(probe.name, [])
        waiting.append(Result(unit, tuple(measured.rows), diagrams, seconds))
        outcome.done += 1
        if time.monotonic() - self._written > _SECONDS_UNWRITTEN:
            self._write()

    def _measure(
        self, probe: Probe, snapshots: Sequence[Snapshot]
    ) -> Iterator[list[tuple[Measured, float] | Exception]]:
        """Measure together if the probe can; else, or to find out which one is bad, one by one.

        Results are yielded as soon as they end, so that stopping the sweep loses only unfinished units.
        """
        if len(snapshots) > 1:
            try:
                results, seconds = self._measure_all(probe, snapshots)
            except Exception as error:
                _stop_if_hopeless(error)
                results = None
            if results is not None:
                both = zip(snapshots, results, strict=True)
                yield [self._checked(probe, snapshot, measured, seconds) for snapshot, measured in both]
                return
        yield from ([self._measure_one(probe, snapshot)] for snapshot in snapshots)

    def _measure_all(
        self, probe: Probe, snapshots: Sequence[Snapshot]
    ) -> tuple[list[Measured] | None, float]:
        for snapshot in snapshots:
            snapshot.load()
        for snapshot in snapshots:
            snapshot.left_out = ()
        start = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):  # such rows have a status
            results = probe.measure_together(snapshots)
        return results, (time.perf_counter() - start) / len(snapshots)

    def _measure_one(self, probe: Probe, snapshot: Snapshot) -> tuple[Measured, float] | Exception:
        try:
            if self._job.together > 1:
                snapshot.load()
            start = time.perf_counter()
            snapshot.left_out = ()
            with np.errstate(over="ignore", invalid="ignore"):  # such rows have a status
                measured = probe.measure(snapshot)
            seconds = time.perf_counter() - start
        except Exception as error:
            return error
        return self._checked(probe, snapshot, measured, seconds)

    def _checked(
        self, probe: Probe, snapshot: Snapshot, measured: Measured, seconds: float
    ) -> tuple[Measured, float] | Exception:
        try:
            check_declared(probe, measured.rows)
            return with_status(mark_spoilt(probe, snapshot, measured)), seconds
        except InputError as error:
            return error

    def _fail(self, reader: RunReader, index: int, probe: Probe, error: Exception) -> Failure:
        _stop_if_hopeless(error)
        at, note = reader[index].checkpoint, _one_line(error)
        self._store.write_failure(Unit(at.run, at.step, probe.name, probe.version, "", at.tokens), note)
        return Failure(at.run, index, at.step, probe.name, note)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for results in waiting.values():
            self._store.write_results(results, keep_diagrams=self._job.keep_diagrams)
        self._written = time.monotonic()


def _unit(reader: RunReader, index: int, probe: Probe, *, alone: bool = False) -> Unit:
    """Return the unit of a probe at a checkpoint; its hash covers every checkpoint that is read.

    With `alone`, the previous checkpoint was unreadable: this is another unit, and the real one is missing.
    """
    at = reader[index].checkpoint
    content = reader.content_hash(index)
    if probe.reads == Reads.PREVIOUS:
        before = [_UNREADABLE if alone else _hash_or_fault(reader, index - 1)] if index else []
        content = digest([*before, content])
    elif probe.reads == Reads.PREFIX:
        content = digest([_hash_or_fault(reader, before) for before in range(index)] + [content])
    return Unit(at.run, at.step, probe.name, probe.version, content, at.tokens)


def _hash_or_fault(reader: RunReader, index: int) -> str:
    try:
        return reader.content_hash(index)
    except (InputError, OSError):
        return _UNREADABLE


def _stop_if_hopeless(error: Exception) -> None:
    """Raise errors that would also stop every other unit: a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"
