"""The plan that a trainer's own file beside a log states: read, and not used where the log contradicts it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import toposcope as ts
from tests.check.written import falling, write
from toposcope.logs.schedule import cosine

STEP = np.arange(1, 401)
COSINE = cosine(peak=1e-3, last=1e-4, steps=1000, warmup=50)


def log(folder, rate=None, n: int = 400):
    rate = COSINE.at(np.arange(1, n + 1)) if rate is None else rate
    rows = [f"{s},{x:.5f},{r:.6g}" for s, (x, r) in enumerate(zip(falling(n), rate, strict=True), 1)]
    return write(folder / "train.csv", "step,loss,lr\n" + "\n".join(rows) + "\n")


FILES = {
    "config.yaml": "max_steps: 1000\nlr_scheduler_type: cosine\nlearning_rate: 1e-3\n"
    "min_lr: 1e-4\nwarmup_steps: 50\n",
    "args.json": json.dumps(
        {"max_iters": 1000, "decay_lr": True, "learning_rate": 1e-3, "min_lr": 1e-4, "warmup_iters": 50}
    ),
    "config.toml": "[training]\nsteps = 1000\n[optimizer]\nlr = 1e-3\nmin_lr = 1e-4\n"
    '[lr_scheduler]\nwarmup_steps = 50\nname = "cosine"\n[dataset]\nsteps = 7\n',
    "hparams.yaml": "kind: !!python/object:some.Thing {}\nmax_steps: 1000\nscheduler: cosine\nmax_lr: 0.001\n"
    "min_lr: 0.0001\nwarmup_ratio: 0.05\n",
}  # fmt: skip


@pytest.mark.parametrize("name", list(FILES))
def test_steps_rate_and_warm_up_are_read_and_make_the_forecast_that_the_schedule_makes(name, tmp_path):
    file = log(tmp_path)
    knots = np.linspace(0, 1000, 501)
    plan = write(
        tmp_path / "plan" / "plan.csv",
        "step,lr\n" + "".join(f"{s},{r}\n" for s, r in zip(knots, COSINE.at(knots), strict=True)),
    )
    (given,) = ts.check(str(file), schedule=plan).runs
    write(tmp_path / name, FILES[name])
    (found,) = ts.check(str(file)).runs
    assert (found.level, found.horizon, found.forecast.status) == ("all right", 1000, "ok")
    assert found.forecast.final == pytest.approx(given.forecast.final, rel=2e-3)
    assert f"planned by {name} beside the log" in found.limits


def test_a_state_beside_states_the_steps_alone(tmp_path):
    file = log(tmp_path, np.full(400, 1e-3))
    write(
        tmp_path / "checkpoint-400" / "trainer_state.json", json.dumps({"max_steps": 1000, "log_history": []})
    )
    (found,) = ts.check(str(file)).runs
    assert (found.horizon, found.forecast.status) == (1000, "no plan")
    assert "planned by checkpoint-400/trainer_state.json beside the log" in found.limits


def test_a_plan_that_the_log_contradicts_is_not_used_and_this_is_said(tmp_path):
    write(tmp_path / "config.yaml", FILES["config.yaml"])
    (found,) = ts.check(str(log(tmp_path, np.full(400, 1e-3)))).runs
    assert found.horizon is None
    assert any(
        "the plan of config.yaml beside the log is not used: the schedule differs" in one
        for one in found.limits
    )
    write(tmp_path / "config.yaml", "max_steps: 300\n")
    (found,) = ts.check(str(log(tmp_path))).runs
    assert found.horizon is None
    assert (
        "config.yaml beside the log plans 300 steps, but the log goes on to step 400: not used"
        in found.limits
    )


def test_where_log_and_file_plan_other_steps_the_logs_count(tmp_path):
    text = "".join(f"step:{s}/1000 train_loss:{x:.5f} train_time:{s}ms\n" for s, x in enumerate(falling(), 1))
    file = write(tmp_path / "train.log", text)
    write(tmp_path / "config.json", json.dumps({"max_steps": 5000}))
    (found,) = ts.check(str(file)).runs
    assert found.horizon == 1000
    assert any(
        "plans 5,000 steps, the log itself 1,000: the log's plan is used" in one for one in found.limits
    )


def test_a_rate_of_another_height_and_one_shape_counts(tmp_path):
    write(tmp_path / "config.yaml", FILES["config.yaml"])
    (found,) = ts.check(str(log(tmp_path, COSINE.at(STEP) / 1e-3))).runs
    assert (found.horizon, found.forecast.status) == (1000, "ok")


@pytest.mark.parametrize(
    "text", ["max_steps: -1\n", "model:\n  max_steps: 900\n", "steps: many\n", "- 1\n- 2\n", "a: [1\n"]
)
def test_what_states_no_plan_states_none(text, tmp_path):
    write(tmp_path / "config.yaml", text)
    (found,) = ts.check(str(log(tmp_path))).runs
    assert (found.level, found.horizon) == ("all right", None)


@pytest.mark.parametrize("name", list(FILES))
def test_an_analysis_reads_the_plan_that_a_check_reads(name, tmp_path):
    """The report of such a log said that its columns tell nothing, and had no forecast."""
    file = log(tmp_path)
    write(tmp_path / name, FILES[name])
    one = ts.check(str(file)).runs[0]
    (ahead,) = ts.analyze(str(file)).findings["on"].numbers["ahead"]
    assert (ahead["horizon"], ahead["final"], ahead["interval"]) == (
        1000, pytest.approx(one.forecast.final), pytest.approx([one.forecast.low, one.forecast.high]),
    )  # fmt: skip


def test_an_analysis_of_groups_keeps_the_plans_of_their_runs(tmp_path):
    rows = [
        json.dumps({"run": run, "tokenizer": run[0], "step": s, "loss": x})
        for times, run in ((1, "a1"), (2, "b1"))
        for s, x in enumerate(falling() * times, 1)
    ]
    file = write(tmp_path / "both.jsonl", "\n".join(rows) + "\n")
    made = ts.analyze(str(file))
    assert len(made.studies) == 2
    assert sorted(run for study in made.studies for run in study.log.metrics["run"].unique()) == ["a1", "b1"]
    assert all(list(study.log.runs["run"]) == study.series.run_names for study in made.studies)


def test_the_rate_of_lightnings_monitor_is_the_learning_rate(tmp_path):
    rows = [f"0,{s},{x:.5f},{1e-3 * (1 - s / 1000):.6g}" for s, x in enumerate(falling(), 1)]
    file = write(tmp_path / "metrics.csv", "epoch,step,train_loss,lr-AdamW\n" + "\n".join(rows) + "\n")
    (found,) = ts.check(str(file)).runs
    assert "learning rate (not logged)" not in found.unseen
