"""A column that a logger makes from the loss is no finding; neither is a clock. What is neither stays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.logs.copies import copies

STEP = np.arange(1, 241)


def losses(seed: int) -> pd.Series:
    g = np.random.default_rng(seed)
    return pd.Series(2 + 5 * STEP**-0.4 + 0.05 * g.standard_normal(len(STEP)))


MADE = {
    "best": (lambda x: x.cummin(), "the running minimum of the loss"),
    "worst": (lambda x: x[::-1].cummax()[::-1], ""),  # of what is still to come: no logger writes it
    "highest": (lambda x: (-x).cummax(), ""),
    "mean so far": (lambda x: x.expanding().mean(), "the running mean of the loss"),
    "mean of 20": (lambda x: x.rolling(20).mean(), "a moving average of the loss"),
    "centred": (lambda x: x.rolling(9, center=True).mean(), "a moving average of the loss"),
    "ema": (lambda x: x.ewm(alpha=0.1, adjust=False).mean(), "an exponential average of the loss"),
    "ema .98": (lambda x: x.ewm(alpha=0.02, adjust=False).mean(), "an exponential average of the loss"),
    "corrected": (lambda x: x.ewm(alpha=0.1).mean(), "an exponential average of the loss"),
    "corrected .98": (lambda x: x.ewm(alpha=0.02).mean(), "an exponential average of the loss"),
    "before": (lambda x: x.shift(1), "a shifted copy of the loss"),
    "after": (lambda x: x.shift(-3), "a shifted copy of the loss"),
    "the same": (lambda x: x, "a function of the loss"),
}


@pytest.mark.parametrize("digits", [4, 9])
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("name", [name for name, (_, why) in MADE.items() if why])
def test_what_is_made_from_the_loss_is_left_out_by_name(name, runs, digits):
    make, why = MADE[name]
    parts = []
    for seed in range(runs):
        x = losses(seed)
        parts.append(pd.DataFrame({"run": f"r{seed}", "step": STEP, "loss": x.round(digits),
                                   "made": make(x).round(digits)}))  # fmt: skip
    assert copies(pd.concat(parts), ["loss"], ["made"]) == {"made": why}


@pytest.mark.parametrize("seed", range(20))
def test_what_only_resembles_the_loss_stays(seed):
    g = np.random.default_rng(100 + seed)
    own = losses(seed + 50)
    table = pd.DataFrame({
        "run": "r", "step": STEP, "loss": losses(seed).round(4), "heldout": (own + 0.3).round(4),
        "its best": own.cummin().round(4), "its mean": own.ewm(alpha=0.1).mean().round(4),
        "walk": g.standard_normal(len(STEP)).cumsum().round(4), "norm": g.gamma(4.0, 0.2, len(STEP)).round(4),
    })  # fmt: skip
    assert copies(table, ["loss"], list(table.columns[3:])) == {}


SPEEDS = [
    "ms", "dt_ms", "tokens_per_second", "tokens/sec", "samples/s", "iter_time", "time per step (ms)",
    "throughput", "tok/s", "mfu", "step_time",
]  # fmt: skip


@pytest.mark.parametrize("name", SPEEDS)
def test_a_clock_is_no_finding_though_it_goes_both_ways(name):
    values = 100 + 3 * np.random.default_rng(1).standard_normal(len(STEP)) + 5 * losses(0)
    table = pd.DataFrame({"run": "r", "step": STEP, "loss": losses(0), name: values})
    assert copies(table, ["loss"], [name]) == {name: "a clock"}


@pytest.mark.parametrize("name", ["learning_rate", "grad_norm", "entropy", "mean_reward", "h0_total", "rate"])
def test_other_names_are_no_clocks(name):
    values = np.random.default_rng(1).standard_normal(len(STEP))
    table = pd.DataFrame({"run": "r", "step": STEP, "loss": losses(0), name: values})
    assert copies(table, ["loss"], [name]) == {}


def test_with_nothing_else_logged_the_title_is_about_the_loss():
    x = losses(3)
    table = pd.DataFrame({"step": STEP, "loss": x, "best": x.cummin(), "ms": 100.0 + np.sin(STEP)})
    first = ts.analyze(table).findings.first
    assert first.title.startswith("run trained without a fault (minibatch loss ")
    assert "best (the running minimum of the loss)" in first.left_out
    assert "ms (a clock)" in first.left_out


@pytest.mark.parametrize("name", ["train_loss", "train/loss", "avg_loss", "batch_loss", "minibatch_loss"])
def test_a_loss_that_is_logged_twice_is_no_other_column(name):
    g = np.random.default_rng(8)
    table = pd.DataFrame({"step": STEP, "loss": losses(0), name: losses(0) + 0.02 * g.standard_normal(240)})
    first = ts.analyze(table).findings.first
    assert first.title.startswith("run trained without a fault (minibatch loss ")
    assert "the loss again" in first.left_out


@pytest.mark.parametrize("name", ["aux_loss", "z_loss", "balance_loss"])
def test_another_loss_is_a_column_of_its_own(name):
    values = 0.1 + 0.01 * np.random.default_rng(8).standard_normal(240)
    table = pd.DataFrame({"run": "r", "step": STEP, "loss": losses(0), name: values})
    assert copies(table, ["loss"], [name]) == {}
