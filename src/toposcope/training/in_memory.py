"""A run that keeps no files: its checkpoints are handed over, with their weights still on the device."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.recipes import TrainingRecipe
from toposcope.training.corpus import load_corpus
from toposcope.training.engine import Engine
from toposcope.training.schedule import learning_rate
from toposcope.training.shapes import GPTShape, first_values
from toposcope.training.tokens import TokenData, fixed_batches, tokenize, training_batch

if TYPE_CHECKING:
    import torch

_SMOOTHED = 100
"""The number of steps over which `loss_smooth` is a mean, as in the rows of seed004."""
_TIMED, _LONG_ENOUGH = 25, 3.0
"""Steps whose time is measured, and seconds after which there are enough: the first ones load programs."""


@dataclass(frozen=True, slots=True)
class LiveCheckpoint:
    """What a run is at `step`, before its update; `weights` are live, so measure them before the next one."""

    step: int
    tokens: int
    loss: float
    loss_smooth: float
    heldout_loss: float
    learning_rate: float
    weight_norm: float
    weights: dict[str, torch.Tensor]


def token_data(recipe: TrainingRecipe) -> TokenData:
    """Return the recipe's corpus as tokens, the same for all its models."""
    return tokenize(load_corpus(recipe.corpus, heldout_fraction=recipe.heldout_fraction), recipe)


def parameters_of(recipe: TrainingRecipe) -> int:
    """Return the number of parameters of the recipe's first model."""
    return GPTShape.in_recipe(recipe.models[0], recipe).parameters


class InMemoryRun:
    """The one model of a recipe, trained step by step; nothing is written.

    On a GPU it trains in bfloat16 (`Engine`).
    """

    def __init__(self, recipe: TrainingRecipe, data: TokenData, *, device: str = "cpu") -> None:
        self.recipe, self.data = recipe, data
        self.shape = GPTShape.in_recipe(recipe.models[0], recipe)
        first = first_values(self.shape, seed=recipe.seeds[0], std=recipe.init_std)
        self._engine = Engine(self.shape, recipe, first, device=device, half=device != "cpu")
        self._first = self._engine.state()

    def seconds_per_step(self) -> float:
        """Return the median time of some steps; the run begins anew afterwards."""
        times: list[float] = []
        while len(times) < _TIMED and sum(times) < _LONG_ENOUGH:
            started = time.perf_counter()
            self._update(1)
            times.append(time.perf_counter() - started)
        self._engine.restore(self._first, step=0)
        return float(np.median(times))

    def checkpoints(self) -> Iterator[LiveCheckpoint]:
        """Train, and yield every checkpoint of the recipe.

        Raises
        ------
        InputError
            If the loss is no longer finite.
        """
        recipe, heldout = self.recipe, fixed_batches(self.data, self.recipe)
        due, recent = frozenset(recipe.checkpoint_steps()), deque[float](maxlen=_SMOOTHED)
        for step in range(recipe.steps + 1):
            held = math.fsum(map(self._engine.loss, heldout)) / len(heldout) if step in due else math.nan
            loss = self._engine.gradients(training_batch(self.data, recipe, step))
            grad_norm, weight_norm = self._engine.norms()
            if not math.isfinite(loss) or not math.isfinite(grad_norm):
                raise InputError(f"loss {loss} and gradient norm {grad_norm} at step {step:,}")
            recent.append(loss)
            if step in due:
                yield LiveCheckpoint(
                    step, step * recipe.batch_size * recipe.context, loss, sum(recent) / len(recent), held,
                    learning_rate(recipe, step), weight_norm, self._engine.weights(),
                )  # fmt: skip
            if step < recipe.steps:
                self._engine.update(learning_rate(recipe, step), grad_norm=grad_norm)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the live weights."""
        return self._engine.weights()

    def _update(self, step: int) -> None:
        self._engine.gradients(training_batch(self.data, self.recipe, step))
        self._engine.update(0.0, grad_norm=self._engine.norms()[0])  # the norm waits for the device
