"""Trains several runs in parallel: processes with one thread each, the longest run first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from toposcope.core.processes import LostProcessError, Message, is_hopeless, spread
from toposcope.recipes import TrainingRecipe
from toposcope.sources.layout import RunFolder
from toposcope.training.files import Metric
from toposcope.training.tokens import TokenData

# Steps between two messages of a worker: a message for every step would cost too much.
_REPORT_EVERY = 10


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One run to train."""

    run: str
    recipe: TrainingRecipe
    folder: RunFolder
    parameters: int
    device: str = "cpu"


Outcome = Metric | Exception
"""The last metrics of a run, or its error."""


def run_jobs(
    jobs: Sequence[TrainingJob], data: TokenData, *, workers: int, progress: Callable[[str, int], object]
) -> dict[str, Outcome]:
    """Train `jobs` in `workers` processes; return the result of each, by run.

    If a process dies (out of memory, killed), its run is reported as failed and the others continue. A full
    disk stops everything. The workers end with this process, however it ends.
    """
    outcomes: dict[str, Outcome] = {}
    ordered = sorted(jobs, key=lambda job: -job.parameters * job.recipe.steps)
    with closing(spread(_trainer, data, ordered, workers=workers)) as events:
        for event in events:
            run = event.task.run
            if isinstance(event, Message):
                progress(run, event.message)
                continue
            outcomes[run] = event.outcome
            if isinstance(event.outcome, LostProcessError):
                outcomes[run] = LostProcessError(
                    f"{run}: its process {event.outcome}; repeat the command to continue"
                )
            if is_hopeless(event.outcome):
                break
    return outcomes


def _trainer(data: TokenData) -> Callable[[TrainingJob, Callable[[int], None]], Metric]:
    """Return a function that trains one run in a process and reports every tenth step to the parent."""
    from toposcope.training.loop import train_run

    def act(job: TrainingJob, say: Callable[[int], None]) -> Metric:
        pending = 0

        def progress(steps: int) -> None:
            nonlocal pending
            pending += steps
            if pending >= _REPORT_EVERY:
                say(pending)
                pending = 0

        last = train_run(job.recipe, data, job.folder, run=job.run, device=job.device, progress=progress)
        say(pending)
        return last

    return act
