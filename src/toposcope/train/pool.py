"""Several runs side by side: one process per core, each with one thread, the longest run first."""

from __future__ import annotations

import errno
import multiprocessing as mp
import os
import queue
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue

from toposcope.recipes import TrainingRecipe
from toposcope.sources.layout import RunFolder
from toposcope.train.files import Metric
from toposcope.train.tokens import TokenData

_REPORT_EVERY = 10
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """One run to train."""

    run: str
    recipe: TrainingRecipe
    folder: RunFolder
    parameters: int
    device: str = "cpu"


Outcome = Metric | Exception
"""The last metrics of a run, or what went wrong."""


def run_jobs(
    jobs: Sequence[Job], data: TokenData, *, workers: int, progress: Callable[[str, int], object]
) -> dict[str, Outcome]:
    """Train `jobs` in `workers` processes; return what came of each, by run.

    A full disk stops everything that has not begun. The workers end with this process, however it ends.
    """
    context = mp.get_context("spawn")
    todo: Queue[Job | None] = context.Queue()
    events: Queue[tuple[str, int | Outcome]] = context.Queue()
    waiting = sorted(jobs, key=lambda job: -job.parameters * job.recipe.steps)
    for job in waiting:
        todo.put(job)
    for _ in range(workers):
        todo.put(None)
    processes: list[BaseProcess] = [
        context.Process(target=_work, args=(todo, events, data, os.getpid()), daemon=True)
        for _ in range(workers)
    ]
    try:
        for process in processes:
            process.start()
        return _collect(jobs, events, processes, progress)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        for channel in (todo, events):
            channel.cancel_join_thread()
            channel.close()


def _collect(
    jobs: Sequence[Job],
    events: Queue[tuple[str, int | Outcome]],
    processes: Sequence[BaseProcess],
    progress: Callable[[str, int], object],
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    alive = True
    while len(outcomes) < len(jobs):
        try:
            run, event = events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if not alive:  # for a whole turn: nothing can be on its way any more
                break
            alive = any(process.is_alive() for process in processes)
            continue
        if isinstance(event, int):
            progress(run, event)
        else:
            outcomes[run] = event
            if isinstance(event, OSError) and event.errno == errno.ENOSPC:
                break
    codes = [process.exitcode for process in processes if process.exitcode]
    for job in jobs:
        ended = f"its process ended with exit code {codes[0]}" if codes else "it was not started"
        outcomes.setdefault(job.run, RuntimeError(f"{job.run}: {ended}; repeat the command to go on"))
    return outcomes


def _work(
    todo: Queue[Job | None], events: Queue[tuple[str, int | Outcome]], data: TokenData, parent: int
) -> None:
    """Train what the queue hands out until it hands out None; leave when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    from toposcope.train.loop import train_run

    while (job := todo.get()) is not None:
        pending = 0

        def progress(steps: int, run: str = job.run) -> None:
            nonlocal pending
            pending += steps
            if pending >= _REPORT_EVERY:
                if os.getppid() != parent:
                    os._exit(1)
                events.put((run, pending))
                pending = 0

        try:
            outcome: Outcome = train_run(
                job.recipe, data, job.folder, run=job.run, device=job.device, progress=progress
            )
        except Exception as error:  # what went wrong belongs to this run; the next one may go well
            outcome = error
        events.put((job.run, outcome))
