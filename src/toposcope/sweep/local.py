"""Runs the tasks on this machine: in this process, or in several with capped thread pools."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from toposcope.core.processes import LostProcessError, Message, cores, spread
from toposcope.core.wording import option
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Failure, Job, Outcome, Worker

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


Tell = Callable[[Outcome], None]
"""Called with each finished step of a task, for the progress."""


def serially(job: Job, tasks: Sequence[Task], tell: Tell) -> Outcome:
    """Run the tasks in this process."""
    from threadpoolctl import threadpool_limits

    worker, total = Worker(job), Outcome()
    with threadpool_limits(limits=1 if job.small else None):
        for task in tasks:
            total.add(worker.do(task, tell))
    return total


def in_processes(job: Job, tasks: Sequence[Task], jobs: int, tell: Tell) -> Outcome:
    """Run the tasks in `jobs` processes.

    A task whose process dies (out of memory, killed) is repeated once at the end, alone. If its process dies
    again, it is reported as failed, with the reason for which the process ended.
    """
    total = Outcome()
    with capped_threads(1 if job.small else max(1, cores() // jobs)):
        for task, _ in _do_all(job, tasks, min(jobs, len(tasks)), total, tell):
            for _, how in _do_all(job, [task], 1, total, tell):
                failed = lost(job, task, f"{how}; measure with fewer {option('jobs')}")
                tell(failed)
                total.add(failed)
    return total


def _do_all(
    job: Job, tasks: Sequence[Task], workers: int, total: Outcome, tell: Tell
) -> list[tuple[Task, LostProcessError]]:
    """Run the tasks and add their outcomes to `total`; return the tasks whose process died."""
    died: list[tuple[Task, LostProcessError]] = []
    outcomes: dict[Task, Outcome] = {}
    with closing(spread(_doer, job, tasks, workers=workers)) as events:
        for event in events:
            if isinstance(event, Message):
                outcomes.setdefault(event.task, Outcome()).add(event.message)
                tell(event.message)
            elif isinstance(event.outcome, LostProcessError):
                died.append((event.task, event.outcome))
                tell(outcomes.pop(event.task, Outcome()).undone())
            elif isinstance(event.outcome, Exception):
                raise event.outcome
            else:
                total.add(event.outcome)
    return died


def _doer(job: Job) -> Callable[[Task, Tell], Outcome]:
    """Return a function that runs one task in a process; the worker is kept between tasks."""
    return Worker(job).do


def lost(job: Job, task: Task, how: str) -> Outcome:
    """Return the outcome of a task whose process died."""
    steps = job.runs[task.run]
    return Outcome(
        failures=[
            Failure(task.run, index, steps[index].step, probe, f"the process {how}")
            for index in task.indices
            for probe in task.probes
        ]
    )


@contextlib.contextmanager
def capped_threads(count: int) -> Iterator[None]:
    """Limit processes started inside to `count` threads each in BLAS and numba."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: before[name] or str(count) for name in _THREADS})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
