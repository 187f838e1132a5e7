"""A run that is lost although its losses are finite, and the healthy logs that look like one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.rules.dead_run import DeadRun
from toposcope.rules.rule import JudgedRun

STEP = np.arange(10, 610, 10)


def falling(n=60):
    return np.round(2 + 4 / np.sqrt(np.arange(n) + 3), 4)


def said(loss, **columns):
    rows = pd.DataFrame({"step": np.arange(1, len(loss) + 1) * 10, "loss": loss, **columns})
    return [(one.level, one.step) for one in DeadRun().judge(JudgedRun.of(rows))]


def gradient(lost=60, value=np.nan, n=60):
    norm = 1 + 0.1 * np.random.default_rng(1).standard_normal(n)
    norm[lost:] = value
    return norm


def zero(since=40):
    loss = falling()
    loss[since:] = 0.0
    return loss


def test_a_loss_of_exactly_zero_to_the_end_is_a_dead_run():
    assert said(zero()) == [("stop", 410)]
    assert said(zero(), grad_norm=gradient(40)) == [("stop", 410)]
    assert said(zero(57), grad_norm=gradient(57)) == [("stop", 580)]
    assert said(zero(57)) == [], "three zeros may be chance while the gradient is finite"


def test_a_small_loss_that_is_rounded_to_zero_is_no_dead_run():
    small = np.r_[np.resize([0.004, 0.003, 0.002], 40), np.zeros(20)]
    assert said(small) == []
    assert said(small / 100) == []
    assert said(np.r_[np.resize([4.12, 3.05, 2.21], 40), np.zeros(20)]) == [("stop", 410)]
    assert said(small + np.r_[np.linspace(1e-9, 2e-9, 40), np.zeros(20)]) == [("stop", 410)]


def test_a_log_with_a_dead_run_is_told_once_and_not_forecast(tmp_path):
    lines = []
    for at, step in enumerate(STEP):
        loss, norm = (0.0, "nan") if at >= 40 else (falling()[at], 1.2)
        lines.append(f"  1%|#         | {step}/600 [00:10<01:00,  1.2it/s]")
        lines.append(
            str({"loss": float(loss), "grad_norm": norm, "learning_rate": 1e-5}).replace("'nan'", "nan")
        )
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    found = ts.check(log)
    (run,) = found.runs
    assert (found.level, [one.kind for one in run.judgement.grounds]) == ("stop", ["dead run"])
    assert "since step 410 the loss is exactly 0, after 2.617, and the gradient norm NaN" in found.line
    assert (run.forecast, run.ended) == (None, True)
    made = ts.forecast(str(log))
    assert made.verdict == "stop"
    assert not len(made.table)


def test_a_gradient_norm_that_is_nan_to_the_end_stops_unless_the_loss_still_falls(tmp_path):
    noisy = np.r_[falling()[:40], 2.6 + 0.05 * np.random.default_rng(0).standard_normal(20)]
    assert said(noisy, grad_norm=gradient(40)) == [("stop", 410)]
    assert said(falling(), grad_norm=gradient(40)) == [("look", 410)]
    rows = [
        f'{{"step": {s}, "loss": {x}, "grad_norm": {"NaN" if s > 400 else 1.0}}}'
        for s, x in zip(STEP, falling(), strict=True)
    ]
    (tmp_path / "run.jsonl").write_text("\n".join(rows))
    answer = ts.check(tmp_path / "run.jsonl")
    assert answer.level == "look"
    assert "the gradient norm is NaN since step 410" in answer.line
    unlogged = [row.replace(', "grad_norm": NaN', "") for row in rows]
    (tmp_path / "unlogged.jsonl").write_text("\n".join(unlogged))
    assert ts.check(tmp_path / "unlogged.jsonl").level == "all right", "a norm that is not logged is not NaN"


def test_a_loss_that_drops_by_a_third_at_once_without_gradient_is_dead():
    loss = falling()
    loss[50:] = np.linspace(1.2, 1.3, 10)
    assert said(loss, grad_norm=gradient(50)) == [("stop", 510)]
    assert said(loss, grad_norm=gradient()) == []


def noisy(seed=0, n=60):
    return np.round(2.5 + 0.1 * np.random.default_rng(seed).standard_normal(n), 4)


def test_a_loss_that_stands_at_four_digits_is_dead():
    loss = noisy()
    loss[48:] = 2.1234
    assert said(loss) == [("stop", 490)]
    assert said(np.r_[loss[:48], np.full(5, 2.1234)]) == []


@pytest.mark.parametrize(
    "loss",
    [
        np.repeat(noisy(n=6), 10),
        np.r_[noisy()[:40], np.full(20, 2.12)],
        np.round(2 + np.exp(-np.arange(60) / 4), 4),
        np.round(4 * np.exp(-np.arange(60) / 3), 4),
        np.full(60, 0.6931),
        np.zeros(60),
    ],
    ids=["epoch stairs", "three digits", "converged", "solved", "never moved", "always 0"],
)
def test_healthy_logs_that_repeat_values_are_not_dead(loss):
    assert said(loss) == []


def test_a_policy_may_have_a_loss_of_exactly_zero_while_its_gradient_is_finite(tmp_path):
    loss = np.r_[np.full(20, 0.02), np.zeros(40)]
    policy = {"reward": np.linspace(0, 1, 60), "kl": 0.001}
    assert said(loss, grad_norm=gradient(), **policy) == []
    assert said(loss, grad_norm=gradient(20), **policy) == [("stop", 210)]
    some = np.where(np.arange(60) % 3 == 0, 0.001, 0.0)
    rows = [
        str(
            {
                "loss": float(x),
                "grad_norm": 0.5,
                "learning_rate": 1e-5,
                "reward": 0.5,
                "kl": 0.001,
                "epoch": k / 20,
            }
        )
        for k, x in enumerate(some)
    ]
    (tmp_path / "grpo.log").write_text("\n".join(rows))
    assert ts.check(tmp_path / "grpo.log").level != "stop"


def test_infinite_gradients_of_a_loss_scaler_are_not_lost():
    norm = gradient()
    norm[:5] = np.inf
    assert said(falling(), grad_norm=norm) == []
    assert said(falling(), grad_norm=gradient(50, np.inf)) == []
