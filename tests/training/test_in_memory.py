"""A run that keeps no files: the losses of the run that does, and its weights in hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.recipes import load_training_recipe
from toposcope.training import InMemoryRun, token_data, train
from toposcope.training.engine import Engine
from toposcope.training.shapes import GPTShape, first_values


@pytest.fixture
def recipe(small_recipe):
    return load_training_recipe(small_recipe, {"models": "two"})


def test_its_losses_and_weights_are_those_of_the_run_in_files(recipe, small_recipe, tmp_path):
    (trained,) = train(small_recipe, tmp_path, overrides={"models": "two"}, jobs=1, quiet=True)
    found = list(InMemoryRun(recipe, token_data(recipe)).checkpoints())
    assert [one.step for one in found] == [0, 4, 8, 12]
    assert found[-1].heldout_loss == pytest.approx(trained.heldout_loss, rel=1e-4)
    assert found[-1].loss == pytest.approx(trained.loss, rel=1e-4)
    assert found[2].tokens == 8 * 4 * 16
    assert found[1].weights["layers.1.mlp.fc1.weight"].shape == (48, 12)


def test_timing_a_step_leaves_no_trace(recipe):
    data = token_data(recipe)
    timed = InMemoryRun(recipe, data)
    assert timed.seconds_per_step() > 0
    losses = [[one.loss for one in run.checkpoints()] for run in (timed, InMemoryRun(recipe, data))]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_a_loss_that_is_not_finite_ends_the_run(recipe, monkeypatch):
    monkeypatch.setattr(Engine, "gradients", lambda self, tokens: float("nan"))
    with pytest.raises(InputError, match="loss nan"):
        list(InMemoryRun(recipe, token_data(recipe)).checkpoints())


def test_half_precision_is_near_the_single(recipe):
    shape = GPTShape.in_recipe(recipe.models[0], recipe)
    values = first_values(shape, seed=1, std=0.02)
    tokens = np.random.default_rng(0).integers(0, 128, (4, 17))
    single, half = (Engine(shape, recipe, values, device="cpu", half=one) for one in (False, True))
    assert half.gradients(tokens) == pytest.approx(single.gradients(tokens), rel=1e-2)
    assert half.norms()[0] == pytest.approx(single.norms()[0], rel=5e-2)
    half.update(1e-2, grad_norm=half.norms()[0])
    assert half.loss(tokens) < single.loss(tokens)
    assert all(one.dtype.is_floating_point and not one.requires_grad for one in half.weights().values())


def test_the_smoothed_loss_is_the_mean_of_the_last_steps(recipe):
    found = pd.DataFrame(
        [
            (one.step, one.loss, one.loss_smooth)
            for one in InMemoryRun(recipe, token_data(recipe)).checkpoints()
        ],
        columns=["step", "loss", "smooth"],
    )
    assert found["smooth"][0] == found["loss"][0]
    assert found["smooth"].is_monotonic_decreasing
