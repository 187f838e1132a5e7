"""Plain tables, runs that have not begun, and what the forecast command says to bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import InputError
from toposcope.forecasting import constant, cosine, fit_law, forecast, forecast_planned
from toposcope.forecasting.annealing import DEFAULT, PUBLISHED
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.ends import split_runs
from toposcope.forecasting.evaluate import ablate, score_forecasts
from toposcope.forecasting.families import LastValue
from toposcope.forecasting.laws import MultiPower
from toposcope.forecasting.siblings import SiblingTransfer
from toposcope.logs import log_of_table
from toposcope.logs.curve import curve_from_metrics
from toposcope.logs.schedule import drop
from toposcope.runs import judging
from toposcope.runs.log_results import LogResults
from toposcope.runs.reading import Reading, log_of
from toposcope.study.forecasts.compare import forecast_table, worth_of_features
from toposcope.study.forecasts.gather import with_features
from toposcope.study.forecasts.topology import FeatureTransfer
from toposcope.study.study_rows import StudyRows, log_from_frame

STEP = np.arange(10, 2001, 10.0)


def table(name="a", n=3.0, seed=0, **columns):
    noise = np.random.default_rng([seed, int(n * 10)]).normal(0, 0.002, len(STEP))
    loss = (2.0 + (3.0 + n) * STEP**-0.4) * np.exp(noise)
    return pd.DataFrame({"run": name, "step": STEP, "loss": loss, "parameters": int(100 * n), **columns})


@pytest.fixture
def family():
    return pd.concat([table(f"run{i}", 1.0 + i) for i in range(5)], ignore_index=True)


# -- which column is what


def test_synonyms_are_understood_and_likeness_is_said():
    frame = table().rename(columns={"run": "run_name", "loss": "final_loss", "parameters": "params_active"})
    log = log_from_frame(frame.assign(LR=1e-3, width=64, h0=STEP), label="x")
    assert {"run", "step", "loss", "learning_rate"} <= set(log.metrics)
    assert log.runs.to_dict("records") == [{"run": "a", "parameters": 300}]
    assert log.wide is not None
    assert list(log.wide) == ["run", "step", "h0"]
    assert log_of_table(frame).said == "recognised as table: step from 'step', loss from 'final_loss'"
    assert log.notes == (
        "column 'params_active' is taken as parameters",
        "left out, text or the same at every step: width",
        "taken as features: h0",
    )


def test_a_held_out_loss_is_never_taken_for_the_loss():
    frame = table().rename(columns={"loss": "val_loss"})
    with pytest.raises(InputError, match="no column 'loss' among run, step, val_loss"):
        log_from_frame(frame, label="x")
    assert "heldout_loss" in log_from_frame(frame, label="x", column="heldout_loss").metrics


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"a": [1.0]}),
            "x: no column 'step' among a; say which one it is: `rename={'COLUMN': 'step'}`",
        ),
        (
            pd.DataFrame({"it": [1], "nll": [2.0]}),
            "no column 'step' among it, nll; say which one it is: "
            "`rename={'COLUMN': 'step'}`; did you mean 'it'",
        ),
        (
            pd.DataFrame({"step": [1], "train_los": [2.0]}),
            "no column 'loss' among step, train_los; say which one it is: `column='COLUMN'`, or "
            "`rename={'COLUMN': 'loss'}`; did you mean 'train_los'",
        ),
        (pd.DataFrame({"step": [], "loss": []}), "the table has no rows"),
        (table().rename(columns={"loss": "a_loss"}).assign(b_loss=1.0), "choose one with `column='a_loss'`"),
        (table().assign(parameters=STEP), "run a has parameters 10 and 2000; give one size"),
    ],
)
def test_unclear_tables_name_the_column_and_the_remedy(frame, message):
    with pytest.raises(InputError, match=message):
        log_from_frame(frame, label="x")


def test_a_second_learning_rate_is_not_read_and_named():
    log = log_from_frame(table(lr=2.0, learning_rate=1.0))
    assert log.metrics["learning_rate"].eq(1.0).all()
    assert (
        "'learning_rate' is taken as learning_rate, not 'lr' (to choose the other: "
        "`rename={'lr': 'learning_rate'}`)" in log_of_table(table(lr=2.0, learning_rate=1.0)).said
    )


def test_a_misspelt_column_is_answered_by_the_nearest():
    with pytest.raises(
        InputError, match=r"no column 'los' among .*: `column='COLUMN'`, or .*did you mean 'loss'"
    ):
        log_from_frame(table(), label="x", column="los")


def test_functions_of_the_loss_or_the_step_are_no_features(tmp_path):
    step = np.arange(0, 4000, 50)
    loss = 2 + 4 * (step + 60.0) ** -0.3 * np.exp(0.03 * np.random.default_rng(0).standard_normal(len(step)))
    gauge = np.random.default_rng(1).standard_normal(len(step))
    frame = pd.DataFrame(
        {"_step": step, "loss": loss, "ppl": np.exp(loss), "epoch": step / 700, "gauge": gauge}
    )
    frame.to_csv(tmp_path / "log.csv", index=False)
    for source in (frame, str(tmp_path / "log.csv")):
        log, problems = with_features(log_of(source, "log", Reading()), "loss", None)
        assert not problems
        assert list(log.runs[0].features) == ["step", "gauge"]
        assert "left out: ppl (a function of the loss), epoch (a function of the step)" in log.assumed
        assert "taken as features: gauge" in log.assumed


def test_text_among_the_losses_is_left_out_and_said():
    frame = table().astype({"loss": object})
    frame.loc[4, "loss"] = "diverged"
    curve = curve_from_metrics("a", log_from_frame(frame, label="x").metrics)
    assert curve.notes == ("1 row without a finite loss left out",)


# -- the command


def test_a_table_of_finished_runs_is_scored(call, family, tmp_path):
    family.to_csv(tmp_path / "runs.csv", index=False)
    code, out, _ = call(tmp_path / "runs.csv", "--cuts", "0.3", "--json")
    found = json.loads(out)
    auto = next(row for row in found["summary"] if row["method"] == "auto")
    assert (code, auto["n"]) == (0, 5)
    assert auto["mae"] < 0.02
    assert found["unseen_largest"][0]["run"] == "run4"


def test_a_begun_run_learns_from_siblings_in_another_file_and_format(call, family, tmp_path):
    family[family["run"] != "run2"].to_parquet(tmp_path / "others.parquet")
    family[(family["run"] == "run2") & (family["step"] <= 600)].to_csv(tmp_path / "begun.csv", index=False)
    code, out, _ = call(tmp_path / "begun.csv", "--siblings", tmp_path / "others.parquet", "--json")
    made = {row["method"]: row for row in json.loads(out)["forecasts"]}
    actual = family[(family["run"] == "run2") & (family["step"] > 1960)]["loss"].mean()
    assert code == 0
    assert made["auto"]["low"] <= actual <= made["auto"]["high"]
    assert made["auto"]["final_loss"] == pytest.approx(actual, abs=0.02)
    assert made["auto"]["steps"][-1] == 2000


def test_files_without_a_run_column_are_told_apart_by_their_folders(call, tmp_path):
    for size, n in (("small", 1.0), ("middle", 2.0), ("large", 3.0)):
        (tmp_path / size).mkdir()
        table(n=n).drop(columns="run").to_csv(tmp_path / size / "log.csv", index=False)
    code, out, _ = call(*(tmp_path / size / "log.csv" for size in ("small", "middle", "large")), "--json")
    assert code == 0
    assert {row["run"] for row in json.loads(out)["scores"]} == {"small", "middle", "large"}


def test_columns_are_renamed_and_unused_names_refused(call, family, tmp_path):
    family.rename(columns={"loss": "a_loss"}).assign(b_loss=1.0).to_csv(tmp_path / "runs.csv", index=False)
    code, out, _ = call(tmp_path / "runs.csv", "--rename", "a_loss=loss", "--cuts", "0.5", "--json")
    assert code == 0
    assert len(json.loads(out)["scores"]) > 0
    code, _, err = call(tmp_path / "runs.csv", "--rename", "c_loss=loss")
    assert (code, "no such column among run, step, a_loss" in err) == (2, True)
    code, _, err = call(tmp_path / "runs.csv", "--rename", "loss")
    assert (code, "not OLD=NEW" in err) == (2, True)


def test_bad_rows_leave_the_rest_and_end_with_one(call, family, tmp_path):
    family.loc[family["run"] == "run1", "loss"] = np.nan
    rows = pd.concat([family, family.iloc[:3], table("single", 9.0).iloc[:1]])
    rows.to_csv(tmp_path / "runs.csv", index=False)
    code, _, err = call(tmp_path / "runs.csv", "--cuts", "0.3")
    assert code == 1
    assert "left out: run1: run run1: 0 usable losses" in err
    assert "left out: single: run single: 1 usable losses" in err
    assert "3 rows that repeat earlier ones left out" in err


@pytest.mark.parametrize(
    ("plan", "options", "message"),
    [
        ("0,1\n2000,1\n", (), "the schedule differs from the logged learning rate by up to"),
        ("0,1\n1000,0.5\n", ("--horizon", "2000"), "its schedule ends at step 1,000, the run at 2,000"),
        ("0,1\n300,0.85\n", (), "its schedule ends at step 300, the run at 600; give the whole plan"),
        ("0,0\n2000,0\n", (), "highest lr 0; give steps from 0 on and a rate above 0"),
    ],
)
def test_schedules_that_cannot_be_the_runs(call, family, tmp_path, plan, options, message):
    begun = table("begun", 2.5, lr=1 - STEP / 2000).query("step <= 600")
    begun.to_csv(tmp_path / "begun.csv", index=False)
    (tmp_path / "plan.csv").write_text("step,lr\n" + plan)
    code, _, err = call(tmp_path / "begun.csv", "--schedule", tmp_path / "plan.csv", *options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_begun_run_takes_the_end_of_the_sibling_it_follows(call, tmp_path):
    cosine_like = 0.5 + 0.5 * np.cos(np.pi * STEP / 2000)
    pd.concat([table(f"r{i}", 1.0 + i, lr=cosine_like) for i in range(3)]).to_csv(tmp_path / "done.csv")
    same = table("begun", 2.5, lr=0.3 * cosine_like).query("step <= 1200")
    same.to_csv(tmp_path / "same.csv", index=False)
    code, out, err = call(tmp_path / "same.csv", "--siblings", tmp_path / "done.csv", "--json")
    assert code == 0
    assert json.loads(out)["forecasts"][0]["share_seen"] == pytest.approx(0.6)
    assert "end assumed at step 2,000, as for r0" in json.loads(out)["notes"]["begun"][0]
    other = same.assign(lr=0.5 + 0.5 * np.cos(np.pi * same["step"] / 6000))
    other.to_csv(tmp_path / "other.csv", index=False)
    code, out, err = call(tmp_path / "other.csv", "--siblings", tmp_path / "done.csv", "--json")
    made = json.loads(out)["forecasts"]
    assert code == 1
    assert {row["status"] for row in made} == {"failed"}
    why = "end unknown: its learning rate follows no sibling's; give --horizon or --schedule, "
    why += "or --finished if it ended where its log does"
    assert {row["reason"] for row in made} == {why}
    code, out, _ = call(tmp_path / "other.csv", "--siblings", tmp_path / "done.csv")
    assert (code, "seen to step 1,200, end unknown" in out) == (1, True)
    code, _, err = call(
        tmp_path / "other.csv", "--siblings", tmp_path / "done.csv", "--advise", "--budget", "1e9"
    )
    assert (code, why in err) == (2, True)


def test_siblings_of_one_rate_that_end_apart_lend_no_end():
    runs = [log_from_frame(table(f"r{i}", lr=1.0).query("step <= @end"), label="x").metrics
            for i, end in enumerate((600, 1000, 2000))]  # fmt: skip
    curves = [curve_from_metrics(f"r{i}", rows) for i, rows in enumerate(runs)]
    _, begun = split_runs(curves[:1], curves[1:])
    assert "siblings that end at steps 1,000 and 2,000; give `horizon`" in begun[0].endless
    assert not begun[0].finished
    _, begun = split_runs(curves[:1], curves[2:])
    assert (begun[0].endless, begun[0].horizon) == ("", 2000)


def test_a_begun_run_whose_main_forecast_fails_ends_with_one(call, family, tmp_path, monkeypatch):
    def refuse(self, seen):
        raise InputError("auto: refused")

    family[(family["run"] == "run2") & (family["step"] <= 600)].to_csv(tmp_path / "begun.csv", index=False)
    call_it = (tmp_path / "begun.csv", "--horizon", "2000", "--json")
    assert call(*call_it)[0] == 0
    monkeypatch.setattr(Auto, "predict", refuse)
    code, out, _ = call(*call_it)
    status = {row["method"]: row["status"] for row in json.loads(out)["forecasts"]}
    assert (code, status["auto"], status["pow3"]) == (1, "failed", "no plan")


def test_infinite_cells_are_left_out_and_listed(call, family, tmp_path):
    family = family.assign(h0=family["step"] ** 0.5 + family["parameters"])
    family.loc[5, ["h0", "loss"]] = [np.inf, -np.inf]
    family.to_csv(tmp_path / "runs.csv", index=False)
    code, out, _ = call(tmp_path / "runs.csv", "--cuts", "0.3", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["problems"] == [
        {"run": "run0", "reason": "1 infinite values of 'loss' left out"},
        {"run": "run0", "reason": "1 infinite values of 'h0' left out"},
    ]
    by_features = [row for row in found["scores"] if row["method"].endswith("+ features")]
    assert {row["status"] for row in by_features} == {"ok"}
    log = log_from_frame(family, label="x")
    assert (forecast_table(log, cuts=(0.3,))["cut"].notna()).all()


@pytest.mark.parametrize("size", [0, -7])
def test_a_size_that_cannot_be_is_unknown_and_used_nowhere(call, family, tmp_path, size):
    family.loc[family["run"] == "run0", "parameters"] = size
    family.to_csv(tmp_path / "runs.csv", index=False)
    code, out, err = call(tmp_path / "runs.csv", "--cuts", "0.3", "--json")
    assert (code, "size unknown, parameters not above 0: run0" in err) == (0, True)
    by_size = json.loads(out)["unseen_largest"][0]
    family[family["run"] != "run0"].to_csv(tmp_path / "runs.csv", index=False)
    _, out, _ = call(tmp_path / "runs.csv", "--cuts", "0.3", "--json")
    assert by_size["predicted"] == json.loads(out)["unseen_largest"][0]["predicted"]
    family.drop(columns="parameters").to_csv(tmp_path / "runs.csv", index=False)
    _, out, _ = call(tmp_path / "runs.csv", "--cuts", "0.3", "--json")
    assert json.loads(out)["unseen_largest"][0]["reason"] == "the size of no run is known"
    assert "The largest run" not in call(tmp_path / "runs.csv", "--cuts", "0.3")[1]


def test_rounding_is_no_effect():
    rows = [(m, r, 0.3, 3.0, e) for m, es in (("a", (0.0, 1e-16, 2e-16)), ("b", (4e-16, 0.0, 1e-16)))
            for r, e in enumerate(es)]  # fmt: skip
    scores = pd.DataFrame(rows, columns=["method", "run", "cut", "actual", "error"])
    row = ablate(scores, "a").iloc[0]
    assert (row["effect"], row["status"], row["reason"]) == (0.0, "failed", "no run differs")
    scores.loc[4, "error"] = np.nan
    assert (ablate(scores, "a").iloc[0]["n"], ablate(scores, "a").iloc[0]["effect"]) == (2, 0.0)
    scores.loc[3, "error"] = 1e-6
    assert ablate(scores, "a").iloc[0]["status"] == "ok"


def test_constant_losses_have_no_interval_of_width_zero(family):
    log = log_from_frame(family.assign(loss=3.0), label="x")
    scores = forecast_table(StudyRows(log.metrics, log.runs))
    good = scores[scores["method"] == "last value"]
    assert set(good["status"]) == {"degenerate"}
    assert good["low"].isna().all()
    assert "without any error" in good["reason"].iloc[0]


def test_features_that_tell_nothing_are_a_failed_row(family):
    step = family["step"]
    log = log_from_frame(family.assign(h0=step, flat=np.where(step > 0, 1.0, 0.0)), label="x")
    assert log.wide is not None
    assert "flat" not in log.wide
    scores = forecast_table(log, cuts=(0.3,)).set_index("method")
    assert set(scores.loc["sibling transfer + features", "status"]) == {"failed"}
    assert "the same in all siblings" in scores.loc["sibling transfer + features", "reason"].iloc[0]


# -- runs that have not begun


def annealing(plan, step, floor=2.0):
    """Losses of a law of the published shape with fading 0.1."""
    from toposcope.forecasting.annealing import drive, multi_power

    theta = np.array([floor, np.log(0.5), 0.5, np.log(200.0), np.log(2.0)])
    return multi_power(theta, drive(plan, step), DEFAULT)[0]


PEAK = {"peak": 1e-3, "warmup": 200}
SEEN = np.arange(300, 6001, 20.0)


@pytest.fixture
def schedules():
    return {
        "cosine": cosine(last=1e-4, steps=6000, **PEAK),
        "constant": constant(steps=6000, **PEAK),
        "drop": drop(last=3e-4, at=3000, steps=6000, **PEAK),
    }


@pytest.fixture
def annealed_runs(schedules):
    random = np.random.default_rng(1)
    return [
        curve_from_metrics(
            name,
            pd.DataFrame({"step": SEEN, "loss": annealing(plan, SEEN) + random.normal(0, 1e-3, len(SEEN))}),
            schedule=plan,
        )
        for name, plan in schedules.items()
    ]


def test_the_law_of_three_runs_tells_a_longer_one(annealed_runs):
    plan = cosine(last=1e-4, steps=18000, **PEAK)
    actual = annealing(plan, np.array([17820.0, 18000.0])).mean()
    made = {one.method: one for one in forecast_planned(plan, annealed_runs)}
    ours = made["multi-power law"]
    assert ours.final == pytest.approx(actual, abs=0.01)
    assert ours.low < actual < ours.high
    assert abs(ours.final - actual) < abs(made["multi-power law (published)"].final - actual)
    step = np.array([5000.0, 17820.0, 18000.0])
    assert fit_law(annealed_runs).along(plan, step)[1:].mean() == pytest.approx(ours.final, abs=1e-3)


def test_the_default_fades_and_the_published_law_stays_at_hand(annealed_runs):
    assert MultiPower().shape == DEFAULT
    assert MultiPower(shape=PUBLISHED).name == "multi-power law (published)"
    assert fit_law(annealed_runs, shape=PUBLISHED).shape.kappa == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs: runs[:1], "1 finished siblings with a learning rate; at least 2 are needed"),
        (lambda runs: [curve_from_metrics("a", table()), *runs[:1]], "1 finished siblings with a learning"),
    ],
)
def test_too_few_siblings_for_a_run_to_come(annealed_runs, change, message):
    with pytest.raises(InputError, match=message):
        forecast_planned(constant(steps=9000, **PEAK), change(annealed_runs))


def test_a_plan_that_ends_before_the_siblings_begin(annealed_runs):
    with pytest.raises(InputError, match="its schedule ends at step 250, before the siblings' losses begin"):
        forecast_planned(constant(steps=250, **PEAK), annealed_runs)


def test_two_sizes_are_no_one_law(annealed_runs):
    other = curve_from_metrics(
        "big", pd.DataFrame({"step": SEEN, "loss": 2.0 + SEEN**-0.5, "learning_rate": 1e-3}), parameters=9
    )
    with pytest.raises(InputError, match=r"runs of 2 sizes \[0, 9\]; give runs of one size"):
        fit_law([other, *annealed_runs])


def test_the_command_forecasts_a_run_to_come(call, schedules, annealed_runs, tmp_path):
    for name, plan in schedules.items():
        curve = next(c for c in annealed_runs if c.run == name)
        columns = {"step": curve.step, "lr": plan.at(curve.step), "loss": curve.loss}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    step = np.arange(200, 9001, 100)
    plan = drop(last=1e-4, at=6000, steps=9000, **PEAK)
    pd.DataFrame({"step": step, "lr": plan.at(step)}).to_csv(tmp_path / "plan.csv", index=False)
    siblings = [part for name in schedules for part in ("--siblings", tmp_path / f"{name}.csv")]
    code, out, _ = call("--schedule", tmp_path / "plan.csv", *siblings, "--json")
    made = json.loads(out)["forecasts"][0]
    assert (code, made["method"]) == (0, "multi-power law")
    assert made["final_loss"] == pytest.approx(annealing(plan, np.array([8820.0, 9000.0])).mean(), abs=0.01)
    assert set(step[step >= 300]) <= set(made["steps"])
    code, _, err = call("--schedule", tmp_path / "plan.csv")
    assert (code, "give --siblings and --schedule" in err) == (2, True)


@pytest.mark.slow
def test_runs_of_several_schedules_are_scored_along_their_own(annealed_runs):
    """A finished run's log is its plan: without a sibling of its schedule the law still knows the rate."""
    bare = [
        curve_from_metrics(
            c.run, pd.DataFrame({"step": c.step, "loss": c.loss, "learning_rate": c.schedule.at(c.step)})
        )
        for c in annealed_runs
    ]
    scores = score_forecasts(bare, [MultiPower()], (0.3,))
    assert scores["error"].abs().max() < 0.02


@pytest.mark.slow
def test_a_plan_is_borrowed_only_where_all_agree(annealed_runs):
    cosine_run, constant_run, drop_run = annealed_runs
    seen = curve_from_metrics(
        "new", pd.DataFrame({"step": SEEN, "loss": constant_run.loss, "learning_rate": 1e-3}), horizon=6000
    ).seen(2000)
    made = forecast(MultiPower(), seen, [cosine_run, constant_run])
    assert (made.status, made.reason) == ("ok", "the planned learning rate is that of constant")
    assert forecast(MultiPower(), seen, [constant_run, drop_run]).status == "failed"  # either may be its plan


# -- features


def with_saturating(curves):
    """A feature whose asymptote is the final loss, seen while it is still far from it."""
    out = []
    for curve in curves:
        step = np.arange(0, 2001, 50)
        value = curve.final_loss() * (1 - np.exp(-step / 600))
        rows = pd.DataFrame({"step": step, "h0_total": value + 1e-9})
        out.append(curve_from_metrics(curve.run, pd.DataFrame({"step": curve.step, "loss": curve.loss}),
                                      parameters=curve.parameters, features=rows))  # fmt: skip
    return out


def test_the_asymptote_of_a_feature_is_read_before_it_is_reached():
    random = np.random.default_rng(2)
    runs = []
    for i in range(8):
        end = random.uniform(2.0, 3.0)
        loss = np.interp(STEP, [10, 700, 2000], [4.0, 3.4, end]) * np.exp(random.normal(0, 2e-3, len(STEP)))
        runs.append(curve_from_metrics(f"r{i}", pd.DataFrame({"step": STEP, "loss": loss}), parameters=i + 1))
    runs = with_saturating(runs)
    method = FeatureTransfer("saturating topology", ("h0_total",), "saturation")
    scores = score_forecasts(runs, [SiblingTransfer(), method], (0.3,))
    row = worth_of_features(scores).iloc[0]
    assert row["method"] == "sibling transfer + saturating topology"
    assert row["effect"] < 0
    assert row["high"] < 0


@pytest.mark.slow
def test_many_looks_at_whether_features_help_are_corrected_for_being_many():
    """Fourteen looks at noise: a third of the tables has a raw p below .05, 5% a corrected one."""
    base, runs = SiblingTransfer().name, 8
    raw, corrected = [], []
    for draw in range(60):
        random = np.random.default_rng(draw)
        rows = [
            {"method": name, "run": f"r{i}", "cut": cut, "actual": 2.0, "error": random.normal()}
            for cut in (0.2, 0.5)
            for name in (base, *(f"{base} + f{j}" for j in range(7)))
            for i in range(runs)
        ]
        worth = worth_of_features(pd.DataFrame(rows))
        assert len(worth) == 14
        assert worth["t_holm"].min() == pytest.approx(min(1.0, 14 * worth["t_p"].min()))
        raw.append(worth["t_p"].min() < 0.05)
        corrected.append(worth["t_holm"].min() < 0.05)
    assert np.mean(raw) > 0.2
    assert np.mean(corrected) < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 60)


def test_a_saturating_fit_asks_for_enough_checkpoints():
    runs = with_saturating([curve_from_metrics(f"r{i}", table(n=1.0 + i)) for i in range(4)])
    method = FeatureTransfer("saturating topology", ("h0_total",), "saturation")
    made = forecast(method, runs[0].seen(250), runs[1:])
    assert made.status == "failed"
    assert "6 measured checkpoints of r1 seen; it needs 8" in made.reason


def test_checkpoints_that_lack_a_feature_are_not_called_unmeasured():
    runs = with_saturating([curve_from_metrics(f"r{i}", table(n=1.0 + i)) for i in range(4)])
    runs = [replace(run, features=run.features.assign(late=np.nan)) for run in runs]
    made = forecast(FeatureTransfer("features", ("h0_total", "late")), runs[0].seen(250), runs[1:])
    said = "6 measured checkpoints of r1 seen, 0 of them with every column (late is missing most often)"
    assert said in made.reason


# -- the table behind analyze and the report


def test_few_or_unfinished_runs_are_rows_with_their_reason(family):
    log = log_from_frame(family[family["run"].isin(["run0", "run1"])], label="x")
    scores = forecast_table(StudyRows(log.metrics, log.runs))
    assert set(scores["status"]) == {"failed"}
    assert scores["reason"].iloc[0] == "2 finished runs; forecasts are compared over at least 3"
    short = family[(family["run"] != "run0") | (family["step"] <= 500)]
    log = log_from_frame(short, label="x")
    scores = forecast_table(StudyRows(log.metrics, log.runs), cuts=(0.3,))
    last = scores[scores["cut"].isna()].iloc[0]
    assert (last["run"], last["status"]) == ("run0", "failed")
    assert "not finished, seen to step 500 of 2,000" in last["reason"]
    assert (
        forecast_table(StudyRows(log.metrics.iloc[:0], log.runs))["reason"]
        .iloc[0]
        .startswith("0 finished runs")
    )


@pytest.mark.slow
def test_only_some_of_many_runs_are_compared():
    many = pd.concat([table(f"r{i:02d}", 1.0 + i / 3) for i in range(10)])
    log = log_from_frame(many, label="x")
    scores = forecast_table(StudyRows(log.metrics, log.runs), cuts=(0.3,))
    assert scores.loc[scores["cut"].notna(), "run"].nunique() == 8
    assert "8 of 10 runs are compared here" in scores["reason"].iloc[-1]


def test_a_choice_between_schedules_leaves_the_laws_out():
    assert not any("schedule" in c.needs for c in Auto.without_laws().candidates)


def test_an_advice_on_a_run_of_unknown_size_names_the_option(tmp_path, call):
    step = np.arange(1, 401)
    pd.DataFrame({"step": step, "loss": 2 + 5 * step**-0.5}).to_csv(tmp_path / "log.csv", index=False)
    asked = (tmp_path / "log.csv", "--horizon", "1000", "--advise", "--budget", "1e15")
    code, _, err = call(*asked, "--tokens-per-step", "64")
    assert (code, "its number of parameters (--parameters) is not stated" in err) == (2, True), err
    code, _, err = call(*asked)
    both = "(--parameters) and the number of tokens in a step (--tokens-per-step) are not stated"
    assert (code, both in err) == (2, True), err


# -- folders of logs


def test_a_folder_of_logs_gives_its_runs(call, tmp_path):
    """As `check` and `compare` read it: one level down, two files of one name, others named."""
    logs = tmp_path / "logs"
    for i, name in enumerate("abc"):
        (logs / name).mkdir(parents=True)
        rows = table(n=1.0 + i).drop(columns=["run", "parameters"])
        rows.to_csv(logs / name / "train.csv", index=False)
    begun = table("begun", 2.5).drop(columns="parameters").query("step <= 600")
    begun.to_csv(tmp_path / "begun.csv", index=False)
    (logs / "notes.txt").write_text("nothing to see\n")
    (logs / "broken.csv").write_text("x,y\n")
    code, out, err = call(tmp_path / "begun.csv", "--siblings", logs, "--horizon", 2000, "--json")
    found = json.loads(out)
    assert code == 1  # a file that is named like a log cannot be read
    assert {one["run"] for one in found["problems"]} == {"broken"}
    assert found["forecasts"][0]["interval_from"] == "3 held-out siblings"
    assert "notes.txt: is not a log" in err
    (logs / "broken.csv").unlink()
    code, out, err = call(logs, "--json")
    assert code == 0
    assert {row["run"] for row in json.loads(out)["scores"]} == {"a/train", "b/train", "c/train"}


def test_a_folder_without_a_log_is_refused_with_its_reason(call, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "broken.csv").write_text("x,y\n")
    code, _, err = call(tmp_path / "logs")
    assert (code, err.count("\n")) == (2, 1)
    assert "broken.csv" in err


def test_forecasts_without_features_are_made_once_for_all_studies(family):
    """The studies of weights and of gradients share a log: its losses are forecast once."""
    results, made = LogResults(), []

    class Counted(LastValue):
        def predict(self, seen):
            made.append(seen.run)
            return super().predict(seen)

    curves = [curve_from_metrics(run, rows) for run, rows in family.groupby("run")]
    first = results.forecast(Counted(), curves[0].seen(600), curves[1:])
    count = len(made)
    again = results.forecast(Counted(), curves[0].seen(600), curves[1:])
    assert again is first
    assert len(made) == count > 0
    assert results.forecast(Counted(), curves[0].seen(900), curves[1:]) is not first


def test_of_siblings_that_ended_nothing_is_judged_that_is_not_printed(monkeypatch):
    """Judging thirteen finished siblings took a fifth of the time of a forecast."""
    told = []
    made = judging.judged

    def counted(rows, *given, **named):
        told.append(int(rows["step"].max()))
        return made(rows, *given, **named)

    monkeypatch.setattr(judging, "judged", counted)
    step = np.arange(10, 1001, 10)
    g = np.random.default_rng(0)
    logs = pd.concat(
        pd.DataFrame({"run": name, "step": step, "loss": 2 + 5 * step**-0.5 + g.normal(0, 0.01, 100)})[:last]
        for name, last in (("a", 100), ("b", 100), ("c", 100), ("d", 40))
    )
    answer = ts.forecast(logs, horizon=1000)
    assert (str(answer).startswith("d should end near "), answer.verdict, told) == (True, "all right", [400])
    assert set(answer.judgements) == set("abcd")
