"""Tests of what `check` and `forecast` say of runs whose loss has no trend."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.cli.main import main
from toposcope.core.seeding import rng

COUNT = 200
STEP = np.arange(1, COUNT + 1)


def logged(kind: str) -> pd.DataFrame:
    """Return a healthy log of a kind of objective."""
    noise = rng(test="policy runs", kind=kind).standard_normal((4, COUNT))
    policy = {
        "loss": 0.02 * noise[0],
        "reward": 0.2 + 0.4 * STEP / COUNT + 0.05 * noise[1],
        "kl": 0.05 * np.exp(0.2 * noise[2]),
        "entropy": 0.6 * np.exp(-STEP / 150 + 0.05 * noise[3]),
        "grad_norm": np.exp(0.2 * noise[2]),
    }
    margin = STEP / COUNT + 0.2 * noise[1]
    preference = {
        "loss": np.log1p(np.exp(-margin)) * np.exp(0.3 * noise[0]),
        "rewards/chosen": margin,
        "rewards/rejected": 0.1 * noise[2],
        "rewards/margins": margin,
    }
    made = {
        "policy": policy,
        "zeros": policy | {"loss": np.where(STEP % 7, 0.0, 1e-4)},
        "rises": policy | {"loss": 1e-4 + 0.02 * STEP / COUNT + 1e-3 * np.abs(noise[0])},
        "value loss": policy | {"loss": 5 + 20 * STEP / COUNT + np.exp(noise[0])},
        "preference": preference,
        "signed": {"loss": -1 - STEP / COUNT + 0.1 * noise[0]},
        "jump": policy | {"loss": np.where(STEP > 150, 3.0, 0.02) * np.abs(noise[0])},
    }
    return pd.DataFrame({"step": STEP, **made[kind]})


def code_of(*arguments: str) -> int:
    """Return the exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


KINDS = ("policy", "zeros", "rises", "value loss", "preference", "signed", "jump")


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_without_a_trend_is_all_right_and_is_said_to_be_one(kind):
    answer = ts.check(logged(kind))
    (run,) = answer.runs
    assert (answer.level, answer.ok) == ("all right", True), answer.lines
    assert "a forecast does not apply" in answer.line
    assert run.forecast is not None
    assert (run.forecast.status, run.objective) == ("does not apply", run.objective)
    assert run.objective in ("policy", "preference", "signed")


def test_the_answer_names_the_columns_that_judge():
    assert (
        "that of a policy: judged by reward, KL, entropy and gradient norm" in ts.check(logged("policy")).line
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_does_not_apply_and_is_no_problem(kind, tmp_path: Path, capsys):
    path = tmp_path / "run.csv"
    logged(kind).to_csv(path, index=False)
    assert code_of("forecast", str(path)) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "no forecast" in one]
    assert "does not apply" in line
    assert code_of("forecast", str(path), "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["forecasts"]
    assert row["status"] == "does not apply"


def test_a_policy_beside_a_language_model_leaves_the_forecast_of_the_other(tmp_path: Path, capsys):
    falling = pd.DataFrame({"step": STEP, "loss": 2 + 5 * STEP**-0.5})
    falling.to_csv(tmp_path / "a.csv", index=False)
    logged("policy").to_csv(tmp_path / "b.csv", index=False)
    args = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    code = code_of("forecast", *args, "--horizon", "400")
    out = capsys.readouterr().out
    assert code == 0
    assert "b: no forecast: the loss is that of a policy" in out
    assert "2.2" in out


def test_a_collapse_is_in_the_answer():
    rows = logged("policy")
    rows["entropy"] *= np.clip((170 - STEP) / 20, 0, 1)
    answer = ts.check(rows)
    assert answer.level == "look"
    assert answer.runs[0].judgement.grounds[0].kind == "entropy collapse"
    assert any("the loss is that of a policy" in line for line in answer.lines)


def test_a_loss_of_a_policy_that_is_not_finite_is_a_stop():
    rows = logged("policy")
    rows.loc[STEP > 180, "loss"] = np.nan
    rows.loc[STEP > 180, ["reward", "kl", "entropy", "grad_norm"]] = np.nan
    rows["learning_rate"] = 1e-5
    path_free = rows.assign(loss=rows["loss"].where(STEP <= 180, np.inf))
    assert ts.check(path_free).level == "stop"


def test_the_planned_end_of_a_policy_is_known():
    (run,) = ts.check(logged("policy"), horizon=COUNT).runs
    assert (run.ended, run.horizon) == (True, COUNT)
    assert run.forecast is None
    assert "has reached its last step" in run.line


@pytest.mark.parametrize("column", ["aux_loss", "router_z_loss", "loss_G", "contrastive_loss"])
def test_an_auxiliary_loss_neither_diverges_nor_is_on_a_plateau(column):
    noise = rng(test="auxiliary").standard_normal(COUNT)
    shapes = {"rises": 0.01 + 0.02 * STEP / COUNT, "flat": np.full(COUNT, np.log(64.0))}
    for shape in shapes.values():
        rows = pd.DataFrame({"step": STEP, "loss": 2 + 5 * STEP**-0.5, column: shape * (1 + 0.01 * noise)})
        answer = ts.check(rows, column=column)
        assert answer.level == "all right", answer.lines
        assert "an auxiliary loss" in answer.line


def test_a_masked_loss_that_waits_and_then_falls_does_not_diverge():
    noise = rng(test="masked").standard_normal(600)
    step = np.arange(1, 601)
    loss = np.where(step < 200, 7.0, 7.0 * np.maximum(1, step / 200) ** -0.8) * (1 + 0.02 * noise)
    assert ts.check(pd.DataFrame({"step": step, "loss": loss})).level == "all right"


def test_the_json_says_what_the_loss_is():
    (run,) = ts.check(logged("policy")).to_dict()["runs"]
    assert run["objective"] == "policy"
    assert run["forecast"]["status"] == "does not apply"


def test_several_runs_with_a_policy_make_a_table():
    falling = pd.DataFrame({"step": STEP, "loss": 2 + 5 * STEP**-0.5, "run": "a"})
    both = pd.concat([falling, logged("policy").assign(run="b")])
    answer = ts.check(both)
    assert answer.ok, answer.lines
    columns, rows = answer.cells
    ends = {row[0]: row[columns.index("where it ends")] for row in rows}
    assert ends["the table: b"] == "does not apply"
    answer.plot()


def test_a_rate_that_ends_with_a_run_counted_in_epochs_is_no_fault():
    epoch = np.linspace(0.02, 3, 168)
    rate = 1e-4 * (1 + np.cos(np.pi * epoch / 3.01)) + 1e-9
    rows = pd.DataFrame({"step": epoch, "loss": 0.5 + np.exp(-epoch), "learning_rate": rate})
    assert rate[-1] < 1e-3 * rate.max()
    assert ts.check(rows).level == "all right"


def test_the_rate_of_an_earlier_run_in_the_first_row_is_no_peak():
    rate = np.full(COUNT, 3e-4)
    rate[0] = 1.0
    rows = pd.DataFrame({"step": STEP, "loss": 2 + 5 * STEP**-0.5, "learning_rate": rate})
    assert ts.check(rows, horizon=400).level == "all right"


def test_a_rate_that_is_rounded_to_zero_has_not_ended():
    rate = np.round(4e-8 * (1 - STEP / 215), 8)
    rows = pd.DataFrame({"step": STEP, "loss": 2 + 5 * STEP**-0.5, "learning_rate": rate})
    assert (rate[-10:] == 0).all()
    assert ts.check(rows, horizon=400).level == "all right"
    rows["learning_rate"] = np.where(STEP > 120, 0.0, 4e-4)
    assert ts.check(rows, horizon=400).level == "stop"
