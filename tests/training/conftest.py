from __future__ import annotations

import random
from pathlib import Path

import pytest

_RECIPE = """
name = "small"
corpus = "{corpus}"
vocabulary = 128
context = 16
batch_size = 4
steps = 12
checkpoint_every = 4
heldout_batches = 2
seeds = [7]
warmup_steps = 3
learning_rate = 1e-2

[[models]]
name = "one"
width = 8
layers = 1
heads = 1

[[models]]
name = "two"
width = 12
layers = 2
heads = 2
"""


@pytest.fixture(scope="session")
def small_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 4,000 characters with some order in it."""
    words = ["persistence", "diagram", "birth", "death", "–", "weights\n", "loss "]
    generator = random.Random(5)
    text = " ".join(generator.choice(words) for _ in range(1000))[:4000]
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_recipe(small_text: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a recipe that trains two tiny models for twelve steps."""
    path = tmp_path_factory.mktemp("recipe") / "small.toml"
    path.write_text(_RECIPE.format(corpus=small_text), encoding="utf-8")
    return str(path)
