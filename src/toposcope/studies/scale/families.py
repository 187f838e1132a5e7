"""Trains the family within a limit of time, and measures every checkpoint where its weights are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from toposcope.core.errors import InputError
from toposcope.recipes import ModelShape, TrainingRecipe
from toposcope.studies.scale.measuring import GROUPS, CheckpointMeasurer, Row
from toposcope.training import InMemoryRun, parameters_of, token_data

_SHARE = 0.5
"""Measuring may take half the time of training steps, so that most of a limited time is training."""
_LEAST_MEASURING = 20.0
"""Seconds of measuring that every run may take: the smallest ones train faster than that."""
_FEWEST_STEPS = 400
"""A run with fewer steps would end within its warm-up's shadow; it is left out."""
_HALF = 0.5
"""The share of the time left that a size may take while larger ones wait."""
_CERTAIN = 0.92
"""The share of the time left that is planned: a run that is broken off at its end answers nothing."""
_FORWARD = 1 / 3
"""What a batch's loss costs, in training steps."""
_NANO = ModelShape("nano", 32, 1, 2)


@dataclass(frozen=True)
class FinishedRun:
    """The rows of a run: one for each checkpoint, and one for each of its matrices there."""

    run: str
    rows: list[Row]
    matrices: list[Row]
    problem: str = ""


@dataclass(frozen=True)
class Clock:
    """How much time is left; without a limit there is always enough."""

    end: float = math.inf

    @classmethod
    def of(cls, seconds: float | None) -> Clock:
        """Start now."""
        return cls(math.inf if seconds is None else time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()


def trained_families(
    recipe: TrainingRecipe,
    clock: Clock,
    *,
    device: str,
    finished: Collection[str] = (),
    say: Callable[[str], None] = print,
) -> Iterator[FinishedRun]:
    """Train every size with the first seed, smallest first, then with the next one; yield each run's rows.

    What does not fit into the time left is shortened with the first seed, and left out with the others.
    """
    todo = [
        (place, seed, shape)
        for place, seed in enumerate(recipe.seeds)
        for shape in recipe.models
        if _name(shape, seed) not in finished
    ]
    if not todo:
        return
    with ThreadPoolExecutor(1) as pool:  # kernels compile while the tokenizer learns
        ready = pool.submit(_warm_up, recipe, device)
        started = time.monotonic()
        data = token_data(recipe)
        say(
            f"{len(data.train):,} training tokens and {len(data.heldout):,} held-out tokens of "
            f"{data.corpus} {data.sha256[:12]} in {time.monotonic() - started:.0f} s"
        )
        ready.result()
    for place, seed, shape in todo:
        job = recipe.of_run(shape.name, seed)
        waiting = place == 0 and shape is not recipe.models[-1]
        try:
            yield _run(job, data, clock, device=device, first=place == 0, waiting=waiting, say=say)
        except (InputError, RuntimeError) as error:  # a loss that is not finite, or a device that is full
            yield FinishedRun(_name(shape, seed), [], [], f"failed: {error}")


def _name(shape: ModelShape, seed: int) -> str:
    return f"{shape.name}-seed{seed}"


def _warm_up(recipe: TrainingRecipe, device: str) -> None:
    nano = InMemoryRun(replace(recipe, models=(_NANO,)), data=None, device=device)  # type: ignore[arg-type]
    CheckpointMeasurer("nano").measure(nano.weights(), 0)


def _run(
    recipe: TrainingRecipe, data: Any, clock: Clock, *, device: str, first: bool, waiting: bool,
    say: Callable[[str], None],
) -> FinishedRun:  # fmt: skip
    name = _name(recipe.models[0], recipe.seeds[0])
    if clock.left <= 0:
        return FinishedRun(name, [], [], "the time was over")
    run, measurer = InMemoryRun(recipe, data, device=device), CheckpointMeasurer(name)
    step = run.seconds_per_step()
    points = len(recipe.checkpoint_steps())
    allowed = max(_LEAST_MEASURING, _SHARE * step * recipe.steps) / points
    look = measurer.plan(run.weights(), allowed if math.isfinite(clock.left) else math.inf)
    look += _FORWARD * step * recipe.heldout_batches
    steps = fitting_steps(recipe, step, look, clock.left * (_HALF if waiting else 1.0))
    if steps < recipe.steps and (not first or steps < _FEWEST_STEPS):
        return FinishedRun(name, [], [], f"{clock.left:.0f} s were left, too few for {recipe.steps:,} steps")
    run.recipe = shortened(recipe, steps)
    left_out = [group for group in GROUPS if group not in measurer.groups]
    say(
        f"{name}: {parameters_of(recipe):,} parameters, {steps:,} steps of {step * 1e3:.1f} ms, a checkpoint "
        f"{look:.2f} s" + (f", without {', '.join(left_out)}" if left_out else "")
    )
    return _measured(run, measurer, clock, device=device)


def fitting_steps(recipe: TrainingRecipe, step: float, look: float, seconds: float) -> int:
    """Return how many steps fit into the time, at most the recipe's, with as many checkpoints.

    `step` and `look` are the seconds of a step and of a checkpoint.
    """
    intervals = len(recipe.checkpoint_steps()) - 1
    room = _CERTAIN * seconds - look * (intervals + 1)
    if step * recipe.steps <= room:
        return recipe.steps
    return max(0, int(room / step / intervals)) * intervals


def shortened(recipe: TrainingRecipe, steps: int) -> TrainingRecipe:
    """Return the recipe with fewer steps: checkpoints and warm-up keep their share."""
    share = steps / recipe.steps
    return replace(
        recipe,
        steps=steps,
        checkpoint_every=max(1, round(recipe.checkpoint_every * share)),
        warmup_steps=round(recipe.warmup_steps * share),
    )


def _measured(run: InMemoryRun, measurer: CheckpointMeasurer, clock: Clock, *, device: str) -> FinishedRun:
    facts = _facts(run, measurer.run, device)
    rows: list[Row] = []
    matrices: list[Row] = []
    began = time.monotonic()
    for point in run.checkpoints():
        values, parts = measurer.measure(point.weights, point.step)
        seconds = time.monotonic() - began
        rows.append({**facts, **_seen(point), **values, "seconds": seconds})
        matrices += [{"run": measurer.run, "step": point.step, **part} for part in parts]
        if clock.left <= 0 and point.step < run.recipe.steps:
            return FinishedRun(measurer.run, rows, matrices, f"the time was over at step {point.step:,}")
    return FinishedRun(measurer.run, rows, matrices)


def _facts(run: InMemoryRun, name: str, device: str) -> Row:
    recipe = run.recipe
    return {
        "corpus": f"{run.data.corpus}:{run.data.sha256[:12]}",
        "tokenizer": f"{recipe.tokenizer}-{recipe.vocabulary}",
        "device": device.partition(":")[0],
        "model": recipe.models[0].name,
        "run": name,
        "parameters": run.shape.parameters,
        "seed": recipe.seeds[0],
        "steps": recipe.steps,
    }


def _seen(point: Any) -> Mapping[str, Any]:
    names = ("step", "tokens", "loss", "loss_smooth", "heldout_loss", "learning_rate", "weight_norm")
    return {name: getattr(point, name) for name in names}


def with_seeds(recipe: TrainingRecipe, seeds: int) -> TrainingRecipe:
    """Return the recipe for so many seeds, from its own on."""
    return replace(recipe, seeds=tuple(recipe.seeds[0] + place for place in range(seeds)))
