"""Small real runs, and the same runs with a fault planted into their training.

    python -m benchmarks.planted --runs FOLDER --first 1 --healthy 20 --faulty 0

Every run draws its model, learning rate, weight decay, batch size and length from its number. A fault goes
into the live weights, the batch or the optimiser three updates after a checkpoint somewhere between 30% and
80% of the run, and the training goes on from there: what the loss makes of it is in its log. Only a corrupted
shard is on the disk alone (`corrupted`), as it is when a file is damaged. Runs from 9001 on have batches of
one to four sequences of 16 characters: the noise of their gradients is as large as it gets.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from toposcope.seeding import rng
from toposcope.train import loop, train
from toposcope.train.engine import Engine

EVERY, LATER = 10, 3
FOLLOWED = 60
"""Steps after the checkpoint before a fault for which a run with a fault is followed."""

ATTENTION, MLP, EMBEDDING = "layers.{}.attn.qkv.weight", "layers.{}.mlp.fc1.weight", "token_emb.weight"
OUTPUT = "layers.{}.mlp.fc2.weight"
TINY_BATCHES = 9001
"""The first number of the runs with tiny batches."""

MODELS = {"tiny-3k": (1, 1), "small-7k": (1, 2), "med-21k": (2, 2), "large-46k": (3, 4)}
"""Model -> its layers and heads."""


@dataclass(frozen=True)
class Plan:
    """One run: its number decides everything."""

    number: int

    @property
    def overrides(self) -> dict[str, Any]:
        """What differs from the demo's recipe."""
        if self.number >= TINY_BATCHES:
            return self._tiny_batches()
        draw = rng(run=self.number, what="planted/recipe")
        model = str(draw.choice(list(MODELS), p=[0.3, 0.3, 0.3, 0.1]))
        steps = int(draw.choice([300, 400]))
        return {
            "models": [model], "seeds": [self.number], "steps": steps, "checkpoint_every": EVERY,
            "context": 64, "batch_size": int(draw.choice([8, 16, 32])), "warmup_steps": steps // 12,
            "learning_rate": float(draw.choice([1e-3, 3e-3, 6e-3])), "heldout_batches": 1,
            "weight_decay": float(draw.choice([0.01, 0.1])),
        }  # fmt: skip

    def _tiny_batches(self) -> dict[str, Any]:
        draw = rng(run=self.number, what="planted/tiny")
        return {
            "models": [str(draw.choice(["tiny-3k", "small-7k"]))], "seeds": [self.number], "steps": 400,
            "checkpoint_every": int(draw.choice([5, 10, 20])), "context": 16,
            "batch_size": int(draw.choice([1, 2, 4])), "warmup_steps": int(draw.choice([2, 20, 40])),
            "learning_rate": float(draw.choice([1e-3, 3e-3, 6e-3])), "heldout_batches": 1,
        }  # fmt: skip

    @property
    def checkpoint(self) -> int:
        """The last checkpoint before the fault."""
        steps = self.overrides["steps"]
        share = rng(run=self.number, what="planted/when").uniform(0.3, 0.8)
        return int(share * steps) // EVERY * EVERY

    @property
    def where(self) -> tuple[int, int, int]:
        """Layer, head and number of heads that are hit."""
        draw = rng(run=self.number, what="planted/where")
        layers, heads = MODELS[self.overrides["models"][0]]
        return int(draw.integers(layers)), int(draw.integers(heads)), heads

    def folder(self, root: Path, fault: str) -> Path:
        """Return the folder of the run with a fault."""
        return root / fault / f"{self.number:03d}"


def scale_head(plan: Plan, weights: Mapping[str, np.ndarray]) -> str:
    """Multiply the query rows of one head by 1.5."""
    layer, head, heads = plan.where
    value = weights[ATTENTION.format(layer)]
    width = len(value) // 3 // heads
    value[head * width : (head + 1) * width] *= 1.5
    return ATTENTION.format(layer)


def kill_rows(plan: Plan, weights: Mapping[str, np.ndarray]) -> str:
    """Set every second row of an MLP's first matrix to zero; after every update, since the dead stay dead."""
    layer = plan.where[0]
    weights[MLP.format(layer)][::2] = 0
    return MLP.format(layer)


def kill_layer(plan: Plan, weights: Mapping[str, np.ndarray]) -> str:
    """Set an MLP's second matrix to zero, after every update: nothing comes out of the layer any more."""
    layer = plan.where[0]
    weights[OUTPUT.format(layer)][:] = 0
    return OUTPUT.format(layer)


def swap_rows(plan: Plan, weights: Mapping[str, np.ndarray]) -> str:
    """Exchange two rows of the token embedding: the largest and the middle one."""
    value = weights[EMBEDDING]
    norms = np.linalg.norm(value, axis=1)
    first, second = np.argsort(norms)[[-1, len(norms) // 2]]
    value[[first, second]] = value[[second, first]]
    return EMBEDDING


def corrupted(plan: Plan, weights: Mapping[str, np.ndarray]) -> str:
    """Put noise of the same scale in the place of a quarter of an MLP's first matrix."""
    layer = plan.where[0]
    value = weights[MLP.format(layer)]
    rows = len(value) // 4
    value[:rows] = value.std() * rng(run=plan.number, what="planted/shard").standard_normal(
        value[:rows].shape
    )
    return MLP.format(layer)


EDITS: Mapping[str, Callable[[Plan, Mapping[str, np.ndarray]], str]] = {
    "one head x 1.5": scale_head,
    "dead rows": kill_rows,
    "dead layer": kill_layer,
    "swapped embedding rows": swap_rows,
}
"""Faults of the live weights; each returns the name of the tensor that it hit."""

STAYING = ("dead rows", "dead layer")
"""Faults that are there after every update."""

TRAINED = (*EDITS, "bad batch", "learning rate x 10")


class EnoughError(Exception):
    """A run has been followed for long enough."""


def train_healthy(plan: Plan, root: Path, *, keep: bool) -> None:
    """Train one run; with `keep`, leave a copy for each fault at the checkpoint before it."""

    def copy(event: loop.TrainingStep) -> None:
        if event.step == plan.checkpoint:
            for fault in TRAINED:
                shutil.copytree(event.folder, plan.folder(root, fault) / event.folder.name)

    (made,) = train(
        "demo", plan.folder(root, "healthy"), overrides=plan.overrides, on_checkpoint=copy if keep else None
    )
    assert made.status != "failed", made.problem


def train_faulty(plan: Plan, root: Path, fault: str) -> None:
    """Go on from the checkpoint before the fault, with it."""
    at = plan.checkpoint + LATER

    def edit(event: loop.TrainingStep) -> None:
        if event.step == at and fault in EDITS:
            EDITS[fault](plan, _weights(event.model))
        if event.step == plan.checkpoint + FOLLOWED + EVERY:  # what comes later is not judged
            raise EnoughError

    def batch(data: Any, recipe: Any, step: int) -> np.ndarray:
        tokens = _batch(data, recipe, step)
        if fault == "bad batch" and step == at:
            return rng(run=plan.number, what="planted/batch").integers(
                0, int(tokens.max()) + 1, tokens.shape, dtype=tokens.dtype
            )
        return tokens

    steps = iter(range(plan.checkpoint, plan.overrides["steps"] + 1))

    def update(self: Engine, learning_rate: float, *, grad_norm: float) -> None:
        late = next(steps) >= at
        _update(
            self,
            learning_rate * (10.0 if late and fault == "learning rate x 10" else 1.0),
            grad_norm=grad_norm,
        )
        if late and fault in STAYING:
            EDITS[fault](plan, _weights(self.model))

    with (
        patch.object(loop, "training_batch", batch),
        patch.object(Engine, "update", update),
        suppress(EnoughError),
    ):
        train("demo", plan.folder(root, fault), overrides=plan.overrides, on_step=edit)


def _weights(model: Any) -> dict[str, np.ndarray]:
    """Return a model's live weights as arrays that share their memory."""
    return {name: value.detach().numpy() for name, value in model.state_dict().items()}


_batch, _update = loop.training_batch, Engine.update


def main() -> None:
    """Train runs FIRST, FIRST + 1, ...: so many healthy ones, the first of them with every fault as well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--faulty", type=int, default=0)
    given = parser.parse_args()
    for number in range(given.first, given.first + given.healthy):
        finished = given.runs / "finished" / str(number)
        if finished.exists():
            continue
        for left in given.runs.glob(f"*/{number:03d}"):  # by a process that was ended
            shutil.rmtree(left)
        plan, keep = Plan(number), number < given.first + given.faulty
        train_healthy(plan, given.runs, keep=keep)
        for fault in TRAINED if keep else ():
            train_faulty(plan, given.runs, fault)
        finished.parent.mkdir(parents=True, exist_ok=True)
        finished.touch()
        print(number, plan.overrides["models"], flush=True)


if __name__ == "__main__":
    main()
