"""Doing the tasks on this machine: in this process, or in several with capped thread pools."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process

import cloudpickle

from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Failure, Job, Outcome, Worker

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_job: Job | None = None
_worker: Worker | None = None


def serially(job: Job, tasks: Sequence[Task], tell: Callable[[Outcome], None]) -> None:
    """Do the tasks in this process."""
    from threadpoolctl import threadpool_limits

    worker = Worker(job)
    with threadpool_limits(limits=1 if job.small else None):
        for task in tasks:
            worker.do(task, tell)


def in_processes(job: Job, tasks: Sequence[Task], jobs: int, tell: Callable[[Outcome], None]) -> None:
    """Do the tasks in `jobs` processes.

    A process that dies (out of memory, killed) takes the pool with it: the tasks it may have held are
    then done one at a time, and the one that kills its process again is reported as failed.
    """
    with capped_threads(1 if job.small else max(1, (os.cpu_count() or 1) // jobs)):
        left = deque(tasks)
        while left:
            suspects = _until_broken(job, left, jobs, tell)
            for task in suspects:
                alone = deque([task])
                if _until_broken(job, alone, 1, tell):
                    tell(_lost(job, task))


def _until_broken(job: Job, left: deque[Task], jobs: int, tell: Callable[[Outcome], None]) -> list[Task]:
    """Take tasks from `left` until none is left, or a process dies: then return the tasks under way."""
    running: dict[Future[Outcome], Task] = {}
    context = get_context("spawn")
    others = set(active_children())
    sent = cloudpickle.dumps(job)  # a series holds functions that plain pickling refuses
    with ProcessPoolExecutor(min(jobs, len(left)), context, _start, (sent,)) as pool:
        try:
            while left or running:
                while left and len(running) < 2 * jobs:
                    task = left[0]
                    running[pool.submit(_do, task)] = task
                    left.popleft()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    outcome = future.result()
                    del running[future]
                    tell(outcome)
        except BrokenProcessPool:
            return list(running.values())
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()  # stopping anywhere loses no finished unit
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return []


def _lost(job: Job, task: Task) -> Outcome:
    note = "the process died, most likely out of memory; measure with fewer --jobs"
    steps = job.runs[task.run]
    return Outcome(
        failures=[
            Failure(task.run, index, steps[index].step, probe, note)
            for index in task.indices
            for probe in task.probes
        ]
    )


def _start(sent: bytes) -> None:
    global _job, _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _job, _worker = cloudpickle.loads(sent), None


def _end_with_parent() -> None:
    """End this process when its parent is gone: otherwise it would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(task: Task) -> Outcome:
    global _worker
    if _worker is None:
        assert _job is not None
        _worker = Worker(_job)
    return _worker.do(task)


@contextlib.contextmanager
def capped_threads(count: int) -> Iterator[None]:
    """Let processes started inside use `count` threads each in BLAS and numba."""
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
