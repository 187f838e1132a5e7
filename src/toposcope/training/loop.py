"""The training loop of one run: resumable at every checkpoint, bit for bit."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.recipes import TrainingRecipe
from toposcope.sources.layout import RunFolder, remove_leftovers
from toposcope.training import files
from toposcope.training.engine import Engine
from toposcope.training.schedule import learning_rate
from toposcope.training.shapes import GPTShape, first_values, parameter_shapes, split
from toposcope.training.tokens import TokenData, fixed_batches, training_batch

if TYPE_CHECKING:
    from toposcope.training.model import GPT


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What a callback receives: the model at `step`, before its update.

    `model` is live: its parameters are the weights that the row of metrics describes, and each parameter's
    `grad` is its unclipped gradient on the step's minibatch. `heldout_loss` is None between checkpoints. Copy
    what you want to keep.
    """

    run: str
    step: int
    tokens: int
    model: GPT
    loss: float
    heldout_loss: float | None
    learning_rate: float
    grad_norm: float
    weight_norm: float
    folder: Path


Callback = Callable[[TrainingStep], object]


class DivergedError(InputError):
    """The loss is no longer finite."""


def train_run(
    recipe: TrainingRecipe,
    data: TokenData,
    folder: RunFolder,
    *,
    run: str,
    device: str = "cpu",
    on_step: Callback | None = None,
    on_checkpoint: Callback | None = None,
    progress: Callable[[int], object] | None = None,
) -> files.Metric:
    """Train the one model of `recipe` into `folder`, from its last checkpoint; return the last metrics.

    `progress` is called with the number of steps done since the last call.

    Raises
    ------
    DivergedError
        If the loss or the gradient is not finite; finished checkpoints are kept.
    BusyError
        When another process is training this run.
    """
    with files.claimed(folder, run), _deterministic(device):
        return _Loop(recipe, data, folder, run=run, device=device).run(on_step, on_checkpoint, progress)


class _Loop:
    def __init__(
        self, recipe: TrainingRecipe, data: TokenData, folder: RunFolder, *, run: str, device: str
    ) -> None:
        self.recipe, self.data, self.folder, self.name = recipe, data, folder, run
        self.shape = GPTShape.in_recipe(recipe.models[0], recipe)
        first = first_values(self.shape, seed=recipe.seeds[0], std=recipe.init_std)
        self.engine = Engine(self.shape, recipe, first, device=device)
        self.heldout = fixed_batches(data, recipe)
        rows = recipe.batch_size if data.train.ndim == 1 else len(data.train)
        self.tokens_per_step = rows * recipe.context
        self.rows: list[files.Metric] = []
        self.part_start = 0

    def run(
        self,
        on_step: Callback | None,
        on_checkpoint: Callback | None,
        progress: Callable[[int], object] | None,
    ) -> files.Metric:
        start = self._resume()
        if progress is not None and start:
            progress(start)
        checkpoints = frozenset(self.recipe.checkpoint_steps())
        for step in range(start, self.recipe.steps + 1):
            began = time.perf_counter()
            heldout_loss = self._checkpoint(step) if step in checkpoints else None
            event = self._measure(step, heldout_loss)
            if on_step is not None:
                on_step(event)
            if on_checkpoint is not None and heldout_loss is not None:
                on_checkpoint(event)
            if step < self.recipe.steps:
                self.engine.update(event.learning_rate, grad_norm=event.grad_norm)
            self._record(event, time.perf_counter() - began)
            if progress is not None:
                progress(1)
        self._flush(self.recipe.steps + 1)
        return files.last_row(self.folder, self.recipe.steps)

    def _resume(self) -> int:
        remove_leftovers(self.folder)
        files.write_tensors(self.folder.heldout_file, {"tokens": self.heldout.astype(np.int32)})
        resumed = files.read_state(self.folder, size=self.shape.parameters)
        if resumed is None:
            return 0
        step, state = resumed
        self.engine.restore(state, step=step)
        self.part_start = step
        return step

    def _measure(self, step: int, heldout_loss: float | None) -> TrainingStep:
        recipe = self.recipe
        tokens = training_batch(self.data, recipe, step)
        loss = self.engine.gradients(tokens)
        grad_norm, weight_norm = self.engine.norms()
        if not math.isfinite(loss) or not math.isfinite(grad_norm):
            raise DivergedError(
                f"{self.name}: loss {loss} and gradient norm {grad_norm} at step {step:,}; "
                f"lower learning_rate (now {recipe.learning_rate:g})",
                remedy=f"for example {option('set')} learning_rate={recipe.learning_rate / 2:g}",
            )
        return TrainingStep(
            run=self.name,
            step=step,
            tokens=step * self.tokens_per_step,
            model=self.engine.model,
            loss=loss,
            heldout_loss=heldout_loss,
            learning_rate=learning_rate(recipe, step),
            grad_norm=grad_norm,
            weight_norm=weight_norm,
            folder=self.folder.path,
        )

    def _checkpoint(self, step: int) -> float:
        """Write everything up to `step`, the state last; a kill in between repeats at most one interval."""
        if step > self.part_start:
            self._flush(step)
        heldout_loss = math.fsum(self.engine.loss(tokens) for tokens in self.heldout) / len(self.heldout)
        state = self.engine.state()
        metadata = {
            "step": str(step),
            "tokens": str(step * self.tokens_per_step),
            "heldout_loss": repr(heldout_loss),
        }
        weights = {name: view.copy() for name, view in split(self.shape, state["values"]).items()}
        files.write_tensors(self.folder.checkpoint(step), weights, {**metadata, "format": "pt"})
        if self.recipe.gradients:
            self.engine.gradients(self.heldout[0])
            gradients = split(self.shape, self.engine.gradient_values())
            gradients = {name: view.copy() for name, view in gradients.items()}
            files.write_tensors(self.folder.gradients(step), gradients, metadata)
        names = [name for name, _ in parameter_shapes(self.shape)]
        last = learning_rate(self.recipe, max(0, step - 1))  # of the update that led to this step
        files.write_state(self.folder, step, state, names, self.engine.settings(last))
        return heldout_loss

    def _record(self, event: TrainingStep, seconds: float) -> None:
        self.rows.append(
            {
                "run": event.run,
                "step": event.step,
                "tokens": event.tokens,
                "loss": event.loss,
                "heldout_loss": event.heldout_loss,
                "learning_rate": event.learning_rate,
                "grad_norm": event.grad_norm,
                "weight_norm": event.weight_norm,
                "seconds": seconds,
            }
        )

    def _flush(self, stop: int) -> None:
        files.write_metrics(self.folder, self.rows, start=self.part_start, stop=stop)
        self.rows = []
        self.part_start = stop


@contextlib.contextmanager
def _deterministic(device: str) -> Iterator[None]:
    """Run with one thread and deterministic algorithms, then restore the caller's settings."""
    threads = torch.get_num_threads()
    algorithms = torch.are_deterministic_algorithms_enabled()
    if device == "cpu":
        torch.set_num_threads(1)
    else:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.use_deterministic_algorithms(True)
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(algorithms)
