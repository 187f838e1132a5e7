"""Losses that fall too well: batches that are repeated, targets in the input, and what is no such fault."""

import numpy as np
import pandas as pd
import pytest

from toposcope.rules.registry import assess

STEPS = np.arange(400)


def _loss(seed=0):
    noise = np.random.default_rng(seed).normal(0, 0.04, len(STEPS))
    return (1.5 + 3 / np.sqrt(STEPS + 1)) * np.exp(noise)


def _kinds(**columns):
    return [(one.level, one.kind, one.step) for one in assess(pd.DataFrame({"step": STEPS, **columns}))]


def _faint(since, per_step):
    """Return factors that fall by `per_step` from a step on."""
    return np.exp(-per_step * np.maximum(0, STEPS - since))


@pytest.mark.parametrize(("what", "factors"), [
    ("targets in the input", np.where(STEPS < 200, 1.0, 0.2)),
    ("one batch again and again", _faint(200, 0.012)),
])  # fmt: skip
def test_a_loss_that_falls_as_it_never_did_calls_for_a_look(what, factors):
    ((level, kind, step),) = _kinds(loss=_loss() * factors)
    assert (level, kind) == ("look", "sudden fall")
    assert 150 <= step <= 220


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_falls_as_losses_do_is_all_right(seed):
    assert _kinds(loss=_loss(seed)) == []


def test_a_loss_that_comes_back_from_a_rise_did_not_fall_suddenly():
    risen = np.where((STEPS > 150) & (STEPS < 250), 3.0, 1.0)
    assert "sudden fall" not in [kind for _, kind, _ in _kinds(loss=_loss() * risen)]


def test_a_rate_that_fell_explains_a_fall():
    rate = np.where(STEPS < 195, 1e-3, 1e-4)
    assert _kinds(loss=_loss() * np.where(STEPS < 200, 1.0, 0.5), learning_rate=rate) == []


def test_a_rate_that_falls_slowly_explains_no_sudden_fall():
    rate = 1e-3 * (0.55 + 0.45 * np.cos(np.pi * STEPS / 400))
    kinds = _kinds(loss=_loss() * _faint(200, 0.012), learning_rate=rate)
    assert ("look", "sudden fall") in [(level, kind) for level, kind, _ in kinds]


def _held(factors):
    """Return a held-out loss every tenth step."""
    return np.where(STEPS % 10 == 9, _loss(1) * factors, np.nan)


def test_a_training_loss_that_is_suddenly_far_below_the_held_out_one_calls_for_a_look():
    fallen = np.where(STEPS < 200, 1.0, np.maximum(0.3, 1 - (STEPS - 200) / 30))
    kinds = _kinds(loss=_loss() * fallen, heldout_loss=_held(1.0))
    assert ("look", "far below held-out") in [(level, kind) for level, kind, _ in kinds]


def test_a_gap_that_opens_over_the_whole_run_is_no_sudden_one():
    slowly = np.exp(-STEPS / 400)
    kinds = [kind for _, kind, _ in _kinds(loss=_loss() * slowly, heldout_loss=_held(1.0))]
    assert "far below held-out" not in kinds
