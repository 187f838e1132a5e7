"""Studies as data: TOML files in the package, each value overridable, unknown keys refused."""

from __future__ import annotations

from toposcope.recipes.training import (
    ModelShape,
    TrainingRecipe,
    load_training_recipe,
    parse_seeds,
    training_recipes,
)

__all__ = ["ModelShape", "TrainingRecipe", "load_training_recipe", "parse_seeds", "training_recipes"]
