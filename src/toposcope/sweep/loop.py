"""The sweep: measures every probe at every checkpoint, into the store."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from toposcope.core.errors import InputError
from toposcope.core.observations import NOT_LOOKED_AT, AuditFinding
from toposcope.core.progress import Progress
from toposcope.core.repeats import together
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.store import Store, Unit
from toposcope.subjects.base import Probe, Reads
from toposcope.subjects.snapshot import SeriesLike
from toposcope.sweep.expect import Expectation, expect
from toposcope.sweep.inline_audit import judged
from toposcope.sweep.local import in_processes, serially
from toposcope.sweep.not_finite import known_spoilt
from toposcope.sweep.plan import Shard, Task, by_run, plan
from toposcope.sweep.worker import Failure, Job, Outcome

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.sources.entries import Unread


_GUESS = 1e-3
"""The assumed seconds of a measurement whose probe does not state its cost."""


class Sweepable(SeriesLike, Protocol):
    """What the sweep needs from a series; it is sent to other processes, so it must be picklable."""

    @property
    def uri(self) -> str:
        """Return the location of the series."""

    @property
    def unread(self) -> Sequence[Unread]:
        """Return what could not be read there, and why."""

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """Return the runs."""

    def __iter__(self) -> Iterator[Checkpoint]:
        """Iterate over the checkpoints."""

    def metrics(self, run: str) -> pd.DataFrame:
        """Return a run's per-step metrics."""

    def companions(self, run: str) -> pd.DataFrame | None:
        """Return what a run logs beside its loss and may judge it; None without any."""

    def replaced(self, run: str) -> pd.DataFrame | None:
        """Return the rows of a run's log that a restart replaced; None without any."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Where and how a sweep runs.

    It changes no number, except the last digits of sums that torch computes over threads.

    `jobs` is the number of processes; None means one per core if that is worthwhile and changes no number,
    else one.
    """

    jobs: int | None = 1
    shard: Shard = field(default_factory=Shard)
    ray: str | None = None
    keep_diagrams: bool = False
    audit: bool = True
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse an impossible number of processes."""
        if self.jobs is not None and self.jobs < 1:
            raise InputError("it must be at least 1", argument="jobs", value=self.jobs)

    def check(self) -> None:
        """Refuse a cluster that does not answer; called before a store is made.

        Raises
        ------
        InputError
            When ray is not installed, or nobody answers at the address.
        """
        if self.ray is not None:
            from toposcope.sweep._cluster import check

            check(self.ray)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The result of a sweep: measurements made, found in the store, and failed twice."""

    done: int
    skipped: int
    failures: list[Failure]
    problems: list[str]
    findings: list[AuditFinding]
    seconds: float

    @property
    def faults(self) -> list[AuditFinding]:
        """The findings of the audit that are not only remarks."""
        return [finding for finding in self.findings if not finding.is_remark]


def sweep(
    series: Sweepable,
    probes: Sequence[Probe],
    store: Store,
    *,
    execution: Execution | None = None,
    agree: Callable[[Expectation], None] | None = None,
) -> SweepReport:
    """Measure every probe at every checkpoint of `series` that the store lacks.

    A unit (checkpoint x probe) that fails is recorded, tried once more after the others, and reported; the
    other units continue. If a sweep is stopped and started again, the store ends the same.

    Parameters
    ----------
    series : Sweepable
        What `toposcope.open_series` returns.
    probes : sequence of Probe
        What to measure.
    store : Store
        Where rows, diagrams, runs and metrics go.
    execution : Execution, optional
        Processes, shard, cluster; serial by default.
    agree : callable, optional
        Called with the expectation before anything is written; it can raise to stop.

    Raises
    ------
    OSError
        When the disk is full: what was finished is kept.
    """
    execution = execution or Execution()
    start = time.monotonic()
    runs = by_run(series)
    if not runs:
        raise InputError("the series has no checkpoint; give a folder that contains some")
    expectation = expect(series, runs, probes, shard=execution.shard, jobs=execution.jobs)
    if not execution.quiet:
        print(expectation.sentence(), file=sys.stderr, flush=True)
        for hint_text in (*_hints(series), *_hints_of_probes(series, runs, probes)):
            print(f"note: {hint_text}", file=sys.stderr, flush=True)
    if agree is not None:
        agree(expectation)
    problems = [f"{path.name} was damaged and set aside" for path in store.set_broken_aside()]
    problems += copy_runs(series, store)
    if not execution.audit:  # else they are among its findings
        problems += [unread.why for unread in series.unread]
    for probe in probes:
        store.write_catalogue(probe.name, probe.features)
    findings = look_for_errors(series, store, execution)
    job = Job(
        series,
        runs,
        tuple(probes),
        store.path.resolve(),
        execution.keep_diagrams,
        expectation.small,
        expectation.together,
    )
    tasks = plan(runs, probes, execution.shard, jobs=expectation.jobs)
    first = _go(job, tasks, execution, "measuring", expectation)
    again = (
        _go(job, _retries(first.failures, probes), execution, "trying again", expectation)
        if first.failures
        else Outcome()
    )
    for lost in again.failures:  # those whose process died could not record it themselves
        at = runs[lost.run][lost.index]
        store.write_failure(Unit(at.run, at.step, lost.probe, 0, "", at.tokens), lost.note)
    store.compact()
    faults = store.part_faults()  # what was missing is measured again by now
    findings = with_looks(series, store, execution, findings)
    spoilt = known_spoilt(store, probes, runs) if first.skipped else []
    repeated = dict.fromkeys([*first.problems, *again.problems, *spoilt])
    return SweepReport(
        done=first.done + again.done,
        skipped=first.skipped,
        failures=again.failures,
        problems=list(
            dict.fromkeys([*problems, *(observation.message for observation in together(repeated)), *faults])
        ),
        findings=findings,
        seconds=time.monotonic() - start,
    )


def _hints(series: Sweepable) -> list[str]:
    from toposcope.sources import Series
    from toposcope.sources.opening import hint, logs_said, logs_to_choose

    if not isinstance(series, Series):
        return []
    return [hint_text for of in (hint, logs_said, logs_to_choose) if (hint_text := of(series))]


def _hints_of_probes(
    series: Sweepable, runs: Mapping[str, Sequence[Checkpoint]], probes: Sequence[Probe]
) -> list[str]:
    from toposcope.sources import Series

    if not isinstance(series, Series):
        return []
    places = [series.place(checkpoint) for checkpoints in runs.values() for checkpoint in checkpoints]
    return [hint_text for probe in probes if (hint_text := probe.hint(places))]


def look_for_errors(series: Sweepable, store: Store, execution: Execution) -> list[AuditFinding]:
    """Audit the series cheaply, store the findings for the report, and return them.

    Of several launchers, the first audits for all.
    """
    from toposcope.sources import Series
    from toposcope.sources.audit import audit

    if not (execution.audit and execution.shard.index == 1 and isinstance(series, Series)) or series.computed:
        return []
    findings = audit(series, cheap=True, quiet=execution.quiet)
    store.write_audit(series.uri, _of_measured(findings))
    return findings


def _of_measured(findings: list[AuditFinding]) -> list[AuditFinding]:
    """Return the findings on measured checkpoints; a file that was not checked was not measured either."""
    return [finding for finding in findings if finding.fault != NOT_LOOKED_AT]


def with_looks(
    series: Sweepable, store: Store, execution: Execution, findings: list[AuditFinding]
) -> list[AuditFinding]:
    """Add the findings on checkpoints that were fetched to be measured, here and in the store."""
    if not (execution.audit and execution.shard.index == 1):
        return findings
    places = {(finding.run, finding.step, finding.fault) for finding in findings}
    fresh = [f for f in judged(store.path, series, by_run(series)) if (f.run, f.step, f.fault) not in places]
    if fresh:
        findings = [*findings, *fresh]
        store.write_audit(series.uri, _of_measured(findings))
    return findings


def copy_runs(series: Sweepable, store: Store) -> list[str]:
    """Copy the runs and their metrics into the store; return what could not be read."""
    store.write_runs(series.runs)
    problems = []
    for run in series.runs:
        try:
            metrics = series.metrics(run.run)
        except InputError as error:
            problems.append(str(error))
            continue
        if len(metrics):
            store.write_metrics(metrics)
        if (beside := series.companions(run.run)) is not None:
            store.write_companions(run.run, beside)
        if (replaced := series.replaced(run.run)) is not None:
            store.write_replaced(run.run, replaced)
    return problems


def _go(
    job: Job, tasks: Sequence[Task], execution: Execution, label: str, expectation: Expectation
) -> Outcome:
    def weight(run: str, probe: str) -> float:
        return max(expectation.each.get((run, probe), _GUESS), 1e-9)

    total = sum(task.units for task in tasks)
    work = sum(len(task.indices) * weight(task.run, probe) for task in tasks for probe in task.probes)
    with Progress(label, total, quiet=execution.quiet, work=work) as progress:

        def tell(outcome: Outcome) -> None:
            if outcome.inside:
                progress.inside(outcome.inside)
                return
            units = outcome.units.items()
            worked = sum(count * weight(*key) for key, (count, _) in units)
            there = sum(count * weight(*key) for key, (_, count) in units)
            progress.advance(outcome.done + outcome.skipped, work=worked, there=there)
            for failure in outcome.failures:
                note = f"{failure.run} step {failure.step:,} {failure.probe}"
                progress.advance(note=note, failed=True, work=0.0)

        if execution.ray is not None:
            from toposcope.sweep._cluster import on_ray

            return on_ray(execution.ray, job, tasks, tell)
        if expectation.jobs > 1 and len(tasks) > 1:
            return in_processes(job, tasks, expectation.jobs, tell)
        return serially(job, tasks, tell)


def _retries(failures: Sequence[Failure], probes: Sequence[Probe]) -> list[Task]:
    """Return a task for each failed checkpoint; a probe that reads all earlier ones gets one task for all."""
    far = {probe.name for probe in probes if probe.reads == Reads.PREFIX}
    near = sorted({(f.run, f.index) for f in failures if f.probe not in far})
    tasks = [
        Task(
            run,
            (index,),
            tuple(f.probe for f in failures if (f.run, f.index) == (run, index) and f.probe not in far),
        )
        for run, index in near
    ]
    ordered = sorted((f for f in failures if f.probe in far), key=lambda f: (f.run, f.probe, f.index))
    for (run, probe), group in itertools.groupby(ordered, key=lambda f: (f.run, f.probe)):
        tasks.append(Task(run, tuple(f.index for f in group), (probe,)))
    return tasks
