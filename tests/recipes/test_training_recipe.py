from __future__ import annotations

from pathlib import Path

import pytest

from toposcope.core.errors import RecipeError
from toposcope.recipes import load_training_recipe, training_recipes
from toposcope.recipes.training import parse_override


@pytest.mark.parametrize("name", ["seed001", "seed004", "demo"])
def test_packaged_recipes_survive_being_written_and_read(name: str, tmp_path: Path) -> None:
    recipe = load_training_recipe(name)
    file = tmp_path / "recipe.toml"
    file.write_text(recipe.to_toml(), encoding="utf-8")
    assert load_training_recipe(str(file)) == recipe
    assert load_training_recipe(str(file)).hash() == recipe.hash()
    assert name in training_recipes()


def test_the_papers_train_with_these_settings() -> None:
    paper = load_training_recipe("seed004")
    assert (paper.batch_size, paper.context, paper.vocabulary, paper.seeds) == (64, 128, 128, (42,))
    assert (paper.learning_rate, paper.final_learning_rate, paper.warmup_steps) == (3e-3, 1e-5, 200)
    assert (paper.weight_decay, paper.gradient_clip) == (0.01, 1.0)
    assert paper.checkpoint_steps() == tuple(range(0, 5001, 100))
    plan = load_training_recipe("seed001")
    assert (plan.tokenizer, plan.vocabulary, plan.context, plan.steps) == ("bpe", 192, 64, 10_000)
    assert plan.checkpoint_steps() == tuple(range(0, 10_001, 200))


def test_the_last_step_is_kept_where_the_interval_does_not_divide() -> None:
    recipe = load_training_recipe("seed004", {"steps": 10, "checkpoint_every": 4})
    assert recipe.checkpoint_steps() == (0, 4, 8, 10)


def test_overrides_reach_the_recipe_a_model_and_the_choice_of_models() -> None:
    recipe = load_training_recipe(
        "seed004",
        {"learning_rate": 1, "models.tiny-3k.width": 16, "models": "small-7k,tiny-3k", "seeds": [1, 2]},
    )
    assert recipe.learning_rate == 1.0
    assert isinstance(recipe.learning_rate, float)
    assert [(shape.name, shape.width) for shape in recipe.models] == [("small-7k", 16), ("tiny-3k", 16)]
    assert recipe.seeds == (1, 2)
    assert recipe.hash() != load_training_recipe("seed004").hash()


def test_a_file_may_still_say_how_it_was_computed(tmp_path: Path) -> None:
    plain = load_training_recipe("demo")
    file = tmp_path / "recipe.toml"
    file.write_text(f'compute = "fused"\n{plain.to_toml()}')
    assert load_training_recipe(str(file)) == plain


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"stepz": 1}, "unknown key 'stepz': did you mean 'steps'"),
        ({"models.tiny-3k.widht": 1}, "unknown key 'widht': did you mean 'width'"),
        ({"models.tiny-4k.width": 1}, "is not the name of a model of the recipe: did you mean 'tiny-3k'"),
        ({"models": "tiny"}, "model 'tiny' is not in recipe seed004: did you mean 'tiny-3k'"),
        ({"models": 3}, "models is 3; give names"),
        ({"steps": "many"}, "steps is 'many'; give a whole number"),
        ({"steps": True}, "steps is True; give a whole number"),
        ({"steps": 0}, "steps is 0; give at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; give at least 0"),
        ({"beta2": 1.0}, "beta2 is 1.0; it must lie in"),
        ({"heldout_fraction": 1.0}, "heldout_fraction is 1.0"),
        ({"gradient_clip": 0.0}, "gradient_clip is 0.0"),
        ({"seeds": []}, "seeds are"),
        ({"seeds": [1, 1]}, "seeds are"),
        ({"seeds": 1}, "seeds is 1; give a list"),
        ({"tokenizer": "words"}, "choose from characters, bpe"),
        ({"compute": "fused"}, "has an unknown key 'compute': "),
        ({"models.tiny-3k.heads": 3}, "the width a multiple of the heads"),
        ({"models.tiny-3k.name": "../up"}, "cannot be a folder name"),
    ],
)
def test_a_wrong_override_is_named_with_its_remedy(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_training_recipe("seed004", overrides)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match="recipe 'seed04' is unknown: did you mean 'seed004'"):
        load_training_recipe("seed04")
    with pytest.raises(RecipeError, match="is not a file; name one of"):
        load_training_recipe("nowhere.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [("steps = [", "is not valid TOML"), ('name = "x"', "lacks a value for models, steps, checkpoint_every")],
)
def test_a_broken_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=message):
        load_training_recipe(str(file))


def test_override_texts() -> None:
    assert parse_override("seeds=[1, 2]") == ("seeds", [1, 2])
    assert parse_override("learning_rate=1e-3") == ("learning_rate", 0.001)
    assert parse_override("corpus=a=b.txt") == ("corpus", "a=b.txt")
    with pytest.raises(RecipeError, match="not of the form key=value"):
        parse_override("steps")
