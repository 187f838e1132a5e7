"""Jump and retrain: leave a checkpoint along random directions, train again, and follow the paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Diagram
from toposcope.topology.rips import rips

if TYPE_CHECKING:
    from toposcope.recipes import TrainingRecipe
    from toposcope.training.shapes import GPTShape
    from toposcope.training.tokens import TokenData

JUMPS = (0.25, 0.5, 0.75, 1.0)
"""Lengths of the jumps, in units of the weights' length, filter by filter (Horoi et al. 2022)."""


@dataclass(frozen=True)
class Retrained:
    """The cloud of iterates: `points` float32 (jumps, iterates, parameters), the first of each its jump.

    `losses` (jumps, iterates) is each iterate's loss on its training batch.
    """

    jumps: np.ndarray
    points: np.ndarray
    losses: np.ndarray

    def diagrams(self) -> list[Diagram]:
        """Return H0 and H1 of the cloud's Vietoris-Rips filtration."""
        return rips(self.points.reshape(-1, self.points.shape[-1]), maxdim=1)

    def null(self, **axes: int | str) -> Retrained:
        """Return random walks from the same jumps, with steps of the same lengths but random directions."""
        steps = np.diff(self.points, axis=1)
        drawn = np.asarray(rng(name="retrain null", **axes).standard_normal(steps.shape), np.float32)
        drawn *= np.linalg.norm(steps, axis=2, keepdims=True) / np.linalg.norm(drawn, axis=2, keepdims=True)
        walked = self.points[:, :1] + np.cumsum(drawn, axis=1)
        return Retrained(self.jumps, np.concatenate([self.points[:, :1], walked], axis=1), self.losses)

    def returned(self, start: np.ndarray) -> np.ndarray:
        """Return the distance of each path's end from `start`, in lengths of its jump, (jumps,)."""
        far = np.linalg.norm(self.points - start.astype(np.float32), axis=2)
        return far[:, -1] / far[:, 0]


def jump_and_retrain(
    shape: GPTShape,
    recipe: TrainingRecipe,
    data: TokenData,
    start: np.ndarray,
    direction: np.ndarray,
    *,
    step: int,
    jumps: Sequence[float] = JUMPS,
    updates: int = 40,
    every: int = 5,
) -> Retrained:
    r"""Train from :math:`\theta + c \, d` for every jump c, on the batches that follow `step`.

    Parameters
    ----------
    shape, recipe, data
        The model, its training recipe and its data; the learning rate is the recipe's highest, constant.
    start, direction : arrays of shape (parameters,)
        The flat parameters and the direction, whose unit is that of the jumps.
    step : int
        The checkpoint's step, which determines the batches.
    jumps : sequence of float
        Lengths along the direction.
    updates, every : int
        Number of AdamW updates of each path, and of updates between two kept iterates.

    Raises
    ------
    InputError
        If no iterate would be kept, or a path diverges.

    References
    ----------
    Horoi et al., *Exploring the geometry and topology of neural network loss landscapes* (2022).
    """
    from toposcope.training.engine import Engine
    from toposcope.training.tokens import training_batch

    if not 1 <= every <= updates:
        raise InputError(f"every is {every}; give a number between 1 and the {updates:,} updates")
    points, losses = [], []
    for jump in jumps:
        engine = Engine(shape, recipe, np.asarray(start + jump * direction, np.float32), device="cpu")
        path, values = [], []
        for update in range(updates + 1):
            loss = engine.gradients(training_batch(data, recipe, step + update))
            length, _ = engine.norms()
            if not np.isfinite(loss + length):
                raise InputError(
                    f"training diverged {update:,} updates after a jump of {jump:g}; use fewer updates"
                )
            if update % every == 0:
                path.append(engine.state()["values"])
                values.append(loss)
            if update < updates:
                engine.update(recipe.learning_rate, grad_norm=length)
        points.append(path)
        losses.append(values)
    return Retrained(np.array(jumps), np.array(points, np.float32), np.array(losses))
