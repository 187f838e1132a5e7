"""Trains every model of a recipe with every seed: checks everything first, then trains unfinished runs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import toposcope
from toposcope.core.device import require_device
from toposcope.core.errors import InputError
from toposcope.core.processes import cores, is_hopeless
from toposcope.core.progress import Progress
from toposcope.recipes import TrainingRecipe, load_training_recipe
from toposcope.sources.layout import RunFolder, read_run
from toposcope.training import files
from toposcope.training._machine import machine_of
from toposcope.training._pool import Outcome, TrainingJob, run_jobs
from toposcope.training.corpus import load_corpus
from toposcope.training.files import Metric
from toposcope.training.grokking import modular_addition
from toposcope.training.outcome import Trained, TrainedRun
from toposcope.training.shapes import GPTShape
from toposcope.training.tokens import TokenData, read_tokenizer, tokenize

if TYPE_CHECKING:
    from toposcope.training.loop import Callback


_COST = 0.75
"""The exponent of a step's time in the number of parameters, measured from 2,936 to 97,200. Matrix products
are proportional to the parameters; everything else grows with the width."""


def train(
    recipe: str | TrainingRecipe,
    out: str | Path,
    *,
    models: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    corpus: str | None = None,
    overrides: Mapping[str, object] | None = None,
    device: str = "cpu",
    jobs: int = 1,
    quiet: bool = True,
    on_step: Callback | None = None,
    on_checkpoint: Callback | None = None,
) -> Trained:
    """Train the models of `recipe` into run folders `out`/MODEL-seedS and return the results.

    A finished run is skipped. An interrupted run continues from its last checkpoint and ends with the same
    weights and metrics as without the interruption. With `jobs` > 1, the runs train in that many processes.

    Parameters
    ----------
    recipe
        A recipe's name ("seed004", "seed001", "demo"), a TOML file, or the recipe itself.
    out
        The folder in which each run gets its own folder.
    models, seeds, corpus, overrides
        Changes to the recipe: only some models, other seeds, another corpus, any other value.
    device
        "cpu" or "cuda".
    jobs
        Number of runs to train at once.
    quiet
        Show no progress.
    on_step, on_checkpoint
        Called with a `TrainingStep` before each update, or only before the updates at checkpoints.
        They run in this process, so `jobs` must be 1.

    Returns
    -------
    Trained
        A sequence of `TrainedRun`, in the order of the seeds and models; losses are in nats per token.

    Raises
    ------
    InputError
        When the recipe, the corpus or the device is wrong, or a folder contains a run of another recipe.
    OSError
        When the disk is full; finished checkpoints stay.

    Examples
    --------
    >>> import tempfile
    >>> import toposcope as ts
    >>> made = ts.train("demo", tempfile.mkdtemp(), models=["tiny-3k"], seeds=[1], overrides={"steps": 2})
    >>> made[0].run.run, made[0].status, made.tables["runs"].shape
    ('tiny-3k-seed1', 'trained', (1, 8))
    """
    changes = _changes(overrides, models=models, seeds=seeds, corpus=corpus)
    if isinstance(recipe, TrainingRecipe):
        if changes:
            raise InputError(
                f"recipe {recipe.name} is given as an object; make these changes in the object itself: "
                f"{changes}"
            )
    else:
        recipe = load_training_recipe(recipe, changes)
    if jobs < 1:
        raise InputError("it must be at least 1", argument="jobs", value=jobs)
    if jobs > 1 and (on_step is not None or on_checkpoint is not None):
        raise InputError(
            "callbacks need jobs=1, because they see one run at a time in this process",
            argument="jobs",
            value=jobs,
            remedy="leave jobs at 1",
        )
    require_device(device)
    planned = _plan(recipe, Path(out), device)
    data = _data(recipe, planned)
    for job in planned:
        files.check_same(job.folder, files.identity(job.recipe, corpus_sha256=data.sha256))
    todo = [job for job in planned if not files.is_finished(job.folder, job.recipe.steps)]
    for job in todo:
        _start(job, data)
    outcomes = _train(todo, data, jobs=jobs, quiet=quiet, callbacks=(on_step, on_checkpoint))
    return Trained(tuple(_result(job, outcomes.get(job.run)) for job in planned))


def default_jobs() -> int:
    """Return the default number of runs that train at once: one per core."""
    return cores()


def _changes(overrides: Mapping[str, object] | None, **named: object) -> dict[str, object]:
    return {**(overrides or {}), **{key: value for key, value in named.items() if value is not None}}


def _plan(recipe: TrainingRecipe, out: Path, device: str) -> list[TrainingJob]:
    planned = []
    for seed in recipe.seeds:
        for shape in recipe.models:
            run = f"{shape.name}-seed{seed}"
            gpt = GPTShape.in_recipe(shape, recipe)
            of_run = recipe.of_run(shape.name, seed)
            planned.append(TrainingJob(run, of_run, RunFolder(out / run), gpt.parameters, device))
    return planned


def _data(recipe: TrainingRecipe, planned: Sequence[TrainingJob]) -> TokenData:
    if recipe.task == "modular-addition":
        return modular_addition(recipe)
    corpus = load_corpus(recipe.corpus, heldout_fraction=recipe.heldout_fraction)
    tokenizers = (read_tokenizer(job.folder.tokenizer_file) for job in planned)
    return tokenize(corpus, recipe, tokenizer=next((text for text in tokenizers if text), ""))


def _start(job: TrainingJob, data: TokenData) -> None:
    if job.folder.state_file.is_file():
        return
    names = ("torch", "numpy", "tokenizers") if data.tokenizer else ("torch", "numpy")
    versions = {name: metadata.version(name) for name in names}
    versions |= {
        "toposcope": toposcope.__version__,
        "python": platform.python_version(),
        "device": job.device,
    }
    files.start_folder(
        job.folder, job.recipe, data, run=job.run, parameters=job.parameters, versions=versions,
        machine=machine_of(job.device),
    )  # fmt: skip


def _train(
    todo: Sequence[TrainingJob],
    data: TokenData,
    *,
    jobs: int,
    quiet: bool,
    callbacks: tuple[Callback | None, Callback | None],
) -> dict[str, Outcome]:
    total = sum(job.recipe.steps + 1 for job in todo)
    weights = {job.run: job.parameters**_COST for job in todo}
    work = sum((job.recipe.steps + 1) * weights[job.run] for job in todo)
    with Progress("training steps", total, quiet=quiet, work=work) as progress:

        def note(run: str, steps: int) -> None:
            progress.advance(steps, note=run, work=steps * weights[run])

        workers = min(jobs, len(todo))
        if workers > 1:
            outcomes = run_jobs(todo, data, workers=workers, progress=note)
        else:
            outcomes = _one_by_one(todo, data, note, callbacks)
    for outcome in outcomes.values():
        if isinstance(outcome, OSError) and is_hopeless(outcome):
            raise outcome
    return outcomes


def _one_by_one(
    todo: Sequence[TrainingJob],
    data: TokenData,
    note: Callable[[str, int], object],
    callbacks: tuple[Callback | None, Callback | None],
) -> dict[str, Outcome]:
    from toposcope.training.files import BusyError
    from toposcope.training.loop import DivergedError, train_run

    outcomes: dict[str, Outcome] = {}
    for job in todo:
        try:
            outcomes[job.run] = train_run(
                job.recipe,
                data,
                job.folder,
                run=job.run,
                device=job.device,
                on_step=callbacks[0],
                on_checkpoint=callbacks[1],
                progress=lambda steps, run=job.run: note(run, steps),  # type: ignore[misc]
            )
        except (DivergedError, BusyError, OSError) as error:
            outcomes[job.run] = error
            if isinstance(error, OSError):
                break
    return outcomes


def _result(job: TrainingJob, outcome: Outcome | None) -> TrainedRun:
    run, path = read_run(job.folder), job.folder.path
    if isinstance(outcome, Exception):
        return TrainedRun(run, path, "failed", problem=str(outcome))
    if outcome is None and not files.is_finished(job.folder, job.recipe.steps):
        return TrainedRun(run, path, "failed", problem="not started: an earlier run could not be written")
    row: Metric = outcome if outcome is not None else files.last_row(job.folder, job.recipe.steps)
    status = "trained" if outcome is not None else "skipped"
    return TrainedRun(run, path, status, loss=_number(row["loss"]), heldout_loss=_number(row["heldout_loss"]))


def _number(value: float | int | str | None) -> float | None:
    return float(value) if isinstance(value, float | int) else None
