"""The learning rate at every step."""

from __future__ import annotations

import math

from toposcope.recipes import TrainingRecipe


def learning_rate(recipe: TrainingRecipe, step: int) -> float:
    """Return the learning rate of the update that follows `step`.

    It is linear from 0 over the warm-up, then half a cosine down to the final rate at the last step.

    >>> from toposcope.recipes import load_training_recipe
    >>> recipe = load_training_recipe("seed004")
    >>> [round(learning_rate(recipe, step), 6) for step in (0, 100, 200, 2600, 5000)]
    [0.0, 0.0015, 0.003, 0.001505, 1e-05]
    """
    peak, final, warmup = recipe.learning_rate, recipe.final_learning_rate, recipe.warmup_steps
    if step < warmup:
        return peak * step / warmup
    progress = (step - warmup) / max(1, recipe.steps - warmup)
    return final + 0.5 * (peak - final) * (1.0 + math.cos(math.pi * min(1.0, progress)))


def describe(recipe: TrainingRecipe) -> str:
    """Return the schedule in words, for the table of runs."""
    return (
        f"cosine {recipe.learning_rate:g} to {recipe.final_learning_rate:g} over {recipe.steps} steps, "
        f"warm-up {recipe.warmup_steps}"
    )
