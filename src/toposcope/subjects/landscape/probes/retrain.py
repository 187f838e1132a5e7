"""Jump and retrain from a checkpoint of a run folder: the cloud of iterates and its persistence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Feature, Row
from toposcope.core.wording import command
from toposcope.models.gpt import recipe_shape
from toposcope.models.loading import run_folder_of
from toposcope.recipes import TrainingRecipe, load_training_recipe
from toposcope.sources.layout import RunFolder
from toposcope.subjects.base import Cost, Measured, Probe
from toposcope.subjects.labels import Label
from toposcope.subjects.landscape.cost import cost_of_shapes, seconds_of
from toposcope.subjects.landscape.features import DECLARED, RETRAIN
from toposcope.subjects.landscape.geometry.cost import FORWARDS, ComputeCost
from toposcope.subjects.landscape.geometry.directions import random_directions
from toposcope.subjects.landscape.geometry.retrain import JUMPS, Retrained, jump_and_retrain
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.source import ObjectiveSource
from toposcope.subjects.snapshot import Snapshot

if TYPE_CHECKING:
    from toposcope.training.tokens import TokenData

MODEL = Label("model")
_BATCH_RATIO = 16
"""A training batch has roughly this many times the tokens of an evaluation batch; used for the cost."""


@dataclass(frozen=True)
class Retrain(Probe):
    """Four jumps along each random direction and the paths that training takes from there.

    One draw for each direction seed. The null is a random walk from the same jumps with steps of the same
    lengths. Only runs of `toposcope train` can be trained further: their recipe and corpus are known.
    """

    options: LandscapeOptions
    source: ObjectiveSource
    name: str = RETRAIN
    features: tuple[Feature, ...] = field(default=DECLARED[RETRAIN], repr=False)
    cost = Cost.COSTLY

    def work(self, shapes: Sequence[tuple[int, int]]) -> ComputeCost:
        """Return the cost of one checkpoint's updates as forward passes and FLOP."""
        updates = len(JUMPS) * (self.options.updates + 1) * self.options.draws
        return cost_of_shapes(shapes, self.options, FORWARDS["gradient"] * _BATCH_RATIO * updates)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return the rough time of one checkpoint on two cores."""
        return self.source.slowness * seconds_of(self.work(shapes))

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint.

        Raises
        ------
        InputError
            If it is not in a run folder, or the run's corpus is missing.
        """
        at = snapshot.checkpoint
        folder = run_folder_of(at)
        if folder is None:
            raise without_run(at.uri)
        recipe, data = _trained_on(folder)
        rows: list[Row] = []
        with self.source.objectives(snapshot, self.options) as objectives:
            start = objectives[0].parameters
            for seed in range(self.options.draws):
                drawn = random_directions(objectives[0], 1, run=at.run, seed=seed, jump="retrain")
                paths = jump_and_retrain(
                    recipe_shape(recipe), recipe, data, start.numpy(), drawn.vectors[0].numpy(), step=at.step,
                    updates=self.options.updates,
                )  # fmt: skip
                rows += self._rows(snapshot, paths, start.numpy(), seed)
        return Measured(rows)

    def _rows(self, snapshot: Snapshot, paths: Retrained, start: np.ndarray, seed: int) -> list[Row]:
        back = paths.returned(start)
        values = {
            "retrain_distance": float(back.mean()),
            "retrain_loss": float(paths.losses[:, -1].mean()),
            "retrain_loss_jump": float(paths.losses[:, 0].mean()),
            **_persistence(paths),
        }
        null = _persistence(paths.null(run=snapshot.checkpoint.run, step=snapshot.checkpoint.step, seed=seed))
        values |= {f"{name}_null": value for name, value in null.items()}
        ends = ", ".join(f"{c:g}: {far:.2f}" for c, far in zip(paths.jumps, back, strict=True))
        note = (
            f"distance from the start in lengths of the jump after {self.options.updates:,} updates: {ends}"
        )
        return MODEL.rows(snapshot.checkpoint, self.name, values, draw=seed, note=note)


def without_run(uri: str) -> InputError:
    """Return the error for weights outside a run folder: how to train them further is unknown."""
    return InputError(f"{uri}: retrain needs a run of {command('train')}; leave out retrain")


def _persistence(paths: Retrained) -> dict[str, float]:
    totals = []
    for diagram in paths.diagrams():
        bars = diagram.death - diagram.birth
        totals.append(float(bars[np.isfinite(bars)].sum()))
    return {"retrain_h0_total": totals[0], "retrain_h1_total": totals[1]}


def _trained_on(folder: RunFolder) -> tuple[TrainingRecipe, TokenData]:
    """Return the recipe and the tokens that a run was trained on."""
    from toposcope.training.corpus import load_corpus
    from toposcope.training.tokens import read_tokenizer, tokenize

    recipe = load_training_recipe(str(folder.recipe_file))
    if recipe.task != "language":
        raise InputError(
            f"{folder.path}: retrain works only for language models, but the task here is {recipe.task}",
            remedy="leave out retrain",
        )
    corpus = load_corpus(recipe.corpus, heldout_fraction=recipe.heldout_fraction)
    return recipe, tokenize(corpus, recipe, tokenizer=read_tokenizer(folder.tokenizer_file))
