"""Logs as they come: glitches, few losses, no plan, runs that are unhealthy, columns of any name."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import InputError
from toposcope.core.forms import near
from toposcope.files.trainer_state import training_facts
from toposcope.forecasting import constant, curve_from_metrics, forecast
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.backtests import Backtest, leverage_half_width
from toposcope.forecasting.decision.advice import LOOK, STOP, advise
from toposcope.forecasting.ends import split_runs
from toposcope.forecasting.families import Pow3
from toposcope.forecasting.laws import MultiPower, Tissue
from toposcope.forecasting.siblings import MeanFall, ShrunkTransfer, SiblingTransfer, SizeTransfer
from toposcope.logs.curve import level_and_slope
from toposcope.logs.glitches import glitches
from toposcope.rules.registry import assess
from toposcope.sources import open_series
from toposcope.sources.audit import audit
from toposcope.study.forecasts.gather import gather_curves


def health(metrics, **given):
    return list(assess(metrics, **{"noticed": False} | given))


STEP = np.arange(10, 2001, 10.0)


def table(name="a", n=3.0, seed=0, end=2000, **columns):
    random = np.random.default_rng([seed, int(n * 10)])
    step = STEP[end >= STEP]
    loss = (2.0 + (3.0 + n) * step**-0.4) * np.exp(random.normal(0, 0.002, len(step)))
    return pd.DataFrame({"run": name, "step": step, "loss": loss, "parameters": int(100 * n), **columns})


def curve(name="a", n=3.0, **options):
    return curve_from_metrics(name, table(name, n, **options), parameters=int(100 * n))


SIBLINGS = [curve(f"r{i}", 1.0 + i) for i in range(5)]


# -- glitches


@pytest.mark.parametrize("at", [4, 60, 197, 198])
@pytest.mark.parametrize("factor", [1e4, 1e-3, 2.0])
def test_one_wrong_value_is_found_left_out_listed_and_changes_nothing(at, factor):
    clean = table()
    dirty = clean.copy()
    dirty.loc[at, "loss"] *= factor
    assert np.flatnonzero(glitches(dirty["loss"].to_numpy())).tolist() == [at]
    read = curve_from_metrics("a", dirty)
    assert f"1 glitch left out: {dirty['loss'][at]:.3g} at step {STEP[at]:,.0f}" in read.notes
    made = [
        forecast(SiblingTransfer(), c.seen(1990), SIBLINGS) for c in (curve_from_metrics("a", clean), read)
    ]
    assert made[1].final == pytest.approx(made[0].final, rel=2e-3)


def test_spikes_that_last_and_steep_starts_are_no_glitches():
    loss = table()["loss"].to_numpy(copy=True)
    assert not glitches(loss).any()
    loss[100:105] *= 3.0
    assert not glitches(loss).any()
    for seed in range(50):
        noisy = (2.0 + 8.0 * STEP**-0.6) * np.exp(np.random.default_rng(seed).normal(0, 0.05, len(STEP)))
        assert not glitches(noisy).any()


# -- the average


def test_auto_says_what_it_used_and_its_weights_add_up():
    made = forecast(Auto(), curve("x", 2.5).seen(600), SIBLINGS)
    assert sum(share for _, share in made.used) == pytest.approx(1.0)
    assert [share for _, share in made.used] == sorted((s for _, s in made.used), reverse=True)
    assert made.estimate.value == made.final
    assert (made.estimate.low, made.estimate.n) == (made.low, 5)


def test_a_better_method_weighs_more_by_the_fourth_power():
    exact = [
        curve_from_metrics(s.run, pd.DataFrame({"step": STEP, "loss": (1 + i / 5) * STEP**-0.05}))
        for i, s in enumerate(SIBLINGS)
    ]
    made = forecast(Auto(), replace_run(exact[2], "new").seen(600), exact[:2] + exact[3:])
    assert made.final == pytest.approx(exact[2].final_loss(), rel=1e-3)
    assert dict(made.used).get("last value", 0.0) < 1e-6


def replace_run(read, name):
    return curve_from_metrics(name, pd.DataFrame({"step": read.step, "loss": read.loss}))


def test_the_new_candidates_are_right_where_their_assumption_holds():
    """Every run falls by the same share: slope 1, whatever the level."""
    fall = lambda n: pd.DataFrame({"step": STEP, "loss": (1 + n) * (1 + 3 * STEP**-0.5)})  # noqa: E731
    runs = [curve_from_metrics(f"r{n}", fall(n)) for n in range(5)]
    for method in (MeanFall(), ShrunkTransfer()):
        made = forecast(method, runs[4].seen(400), runs[:4])
        assert made.final == pytest.approx(runs[4].final_loss(), rel=2e-3)


@pytest.mark.slow
def test_a_sibling_whose_log_begins_after_the_cut_is_left_out():
    late = SIBLINGS[-1]
    late = replace(late, run="late", step=late.step[120:], loss=late.loss[120:], rate=late.rate[120:])
    for method in (SiblingTransfer(), ShrunkTransfer(), MeanFall(), SizeTransfer()):
        own = method.fit(SIBLINGS[:4], 0.4).predict(SIBLINGS[4].seen(800))
        assert method.fit([*SIBLINGS[:4], late], 0.4).predict(SIBLINGS[4].seen(800)).final == own.final
        with pytest.raises(InputError, match="only 0 of 1 siblings have a loss by 40% of their steps"):
            method.fit([late], 0.4)
    with pytest.raises(InputError, match="no loss to smooth; cut the run at a later step"):
        level_and_slope(np.empty(0), np.empty(0))


def test_a_log_whose_finished_run_begins_where_the_other_stops_has_an_answer(tmp_path):
    step = 20 * np.arange(1, 101)
    loss = 2 + 5 / np.sqrt(step / 20) + np.random.default_rng(0).normal(0, 0.01, 100)
    runs = np.where(step <= 1000, "a", "b")
    log = tmp_path / "later.csv"
    pd.DataFrame({"run": runs, "step": step, "loss": loss}).to_csv(log, index=False)
    said = str(ts.forecast(str(log)))
    assert "a may end between 2.39 and " in said  # the range leads: a decay may come
    assert "93% of tests on 212 real runs" in said  # its own width, as no sibling can be compared
    assert "a (step 1,000 of 2,000) may end near 2.5" in str(ts.analyze(str(log)))


def test_three_losses_are_enough_with_siblings_and_refused_without():
    errors = []
    for seed in range(30):
        run = curve("x", 2.5, seed=seed + 1)
        made = forecast(Auto(), run.seen(30), SIBLINGS)
        errors.append(abs(made.final / run.final_loss() - 1))
    assert np.mean(errors) < 0.003
    alone = forecast(Pow3(), curve("x", 2.5).seen(30))
    assert alone.reason == "run x: 3 losses seen; pow3 needs at least 8"


def test_the_interval_is_that_of_a_line_beyond_its_points():
    """Against the closed form: left-out residuals of a least-squares line give its prediction interval."""
    random, held, plain = np.random.default_rng(0), [], []
    for _ in range(1500):
        x = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        y, new = 2 * x + random.normal(0, 1, 6), 2 * 8.0 + random.normal()
        left = [y[i] - np.polyval(np.polyfit(np.delete(x, i), np.delete(y, i), 1), x[i]) for i in range(6)]
        tests = [Backtest(float(e), np.empty(0), float(v)) for e, v in zip(left, x, strict=True)]
        miss = abs(new - np.polyval(np.polyfit(x, y, 1), 8.0))
        held.append(miss <= leverage_half_width(tests, 8.0))
        plain.append(miss <= leverage_half_width(tests, 2.5))
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)
    assert np.mean(plain) < 0.8


# -- plans


@pytest.mark.slow
def test_without_a_plan_the_row_says_so_and_what_annealing_would_add():
    step = np.arange(20, 1001, 10.0)
    rows = pd.DataFrame({"step": step, "loss": 2 + 3 * step**-0.4, "learning_rate": 1e-3})
    made = forecast(Auto(), curve_from_metrics("a", rows, horizon=2000))
    assert made.status == "no plan"
    assert "93% of such intervals contained the final loss, on 212 real runs" in made.reason
    assert made.reason.startswith(
        f"without a plan of the learning rate, quote {made.low:.4g} to {made.high:.4g}; if the rate"
    )
    on = [
        float(x)
        for x in re.findall(
            r"rate stays as it is, the run should end between ([\d.]+) and ([\d.]+);", made.reason
        )[0]
    ]
    assert (made.low, made.high) == pytest.approx((on[0] * 0.96, on[1]), rel=1e-3)
    assert (
        f"if the rate is annealed, it may end near {made.final * 0.972:.4g} to {made.final * 0.987:.4g}"
        in made.reason
    )
    annealed = rows.assign(learning_rate=np.linspace(1e-3, 1e-5, len(rows)))
    assert forecast(Auto(), curve_from_metrics("a", annealed, horizon=1100)).status == "ok"
    planned = curve_from_metrics("a", rows, horizon=2000, schedule=constant(peak=1e-3, steps=2000))
    assert forecast(Auto(), planned).status == "ok"


def test_in_python_too_the_range_leads_where_a_decay_may_come():
    """It led with the number that holds only if no decay comes, 4% above the end of a run that anneals."""
    rows = pd.DataFrame({"step": STEP, "loss": 2 + 3 * STEP**-0.4, "learning_rate": 1e-3})
    made = ts.forecast(rows, horizon=4000)
    (one,) = made.made
    final, low, high = near(one.final, one.low, one.high)
    assert repr(made) == (
        f"run may end between {low} and {high} without a plan of the learning rate "
        f"(near {final} if the rate stays as it is; right in 93% of tests on 212 real runs), by auto"
    )


def test_no_law_of_the_rate_is_tried_where_the_plan_ends_with_the_log(monkeypatch):
    def never(method, seen):
        raise AssertionError(f"{method.name} of {seen.run}")

    monkeypatch.setattr(MultiPower, "predict", never)
    monkeypatch.setattr(Tissue, "predict", never)
    rows = pd.DataFrame({"step": STEP, "loss": 2 + 3 * STEP**-0.4, "learning_rate": 1e-3})
    made = forecast(Auto(), curve_from_metrics("a", rows, horizon=4000))
    assert made.status == "no plan"
    planned = curve_from_metrics("a", rows, horizon=4000, schedule=constant(peak=1e-3, steps=4000))
    with pytest.raises(AssertionError, match="of a"):
        forecast(Auto(), planned)


def test_a_law_shared_with_runs_of_its_size_needs_three_losses(annealed):
    """Six losses seen of a 16k-step run with a drop ahead: other runs of 25M tell its law."""
    run = annealed(25, "wsdcon_9")
    siblings = [annealed(25, name) for name in ("cosine_24000", "constant_24000", "wsd_20000_24000")]
    seen = run.seen(0.2 * run.horizon)
    assert len(seen.step) == 6
    for method in (MultiPower(), Tissue()):
        assert forecast(method, seen, siblings).final == pytest.approx(run.final_loss(), rel=0.005)
    assert "a law of the rate needs 8" in forecast(MultiPower(), seen).reason


def test_a_plan_without_siblings_borrows_what_annealing_pays_and_says_so(annealed):
    run = annealed(100, "cosine_24000")
    made = forecast(MultiPower(), run.seen(0.2 * 24000))
    assert made.final == pytest.approx(run.final_loss(), rel=0.03)
    assert "B and C come from published runs" in made.reason
    assert "does not show the gain from annealing" in forecast(Tissue(), run.seen(0.2 * 24000)).reason


def test_a_real_run_alone_is_no_longer_off_by_half(seed_curves):
    for run in seed_curves:
        made = MultiPower().fit([], 0.3).predict(run.planned().seen(0.3 * run.horizon))
        assert made.final == pytest.approx(run.final_loss(), rel=0.06)


# -- health


def kinds(loss, **columns):
    rows = pd.DataFrame({"step": np.arange(1, len(loss) + 1), "loss": loss, **columns})
    return [symptom.kind for symptom in health(rows)]


def healthy(seed, n=400, noise=0.02):
    return (1.6 + 3 * np.arange(1, n + 1) ** -0.5) * np.exp(np.random.default_rng(seed).normal(0, noise, n))


def test_healthy_curves_are_called_healthy():
    assert sum(bool(kinds(healthy(seed))) for seed in range(100)) <= 2


def test_each_illness_is_named():
    climbing = healthy(0)
    climbing[300:] = np.linspace(1.62, 4.54, 100)
    assert kinds(climbing) == ["diverging"]
    ended = healthy(0)
    ended[380:] = np.nan
    assert kinds(ended) == ["not finite"]
    flat = np.full(400, 2.0) * np.exp(np.random.default_rng(0).normal(0, 0.003, 400))
    assert kinds(flat) == ["plateau"]
    spiking = healthy(0, noise=0.005)
    for at in (250, 300, 350):
        spiking[at : at + 4] *= 2.0
    assert kinds(spiking) == ["spikes"]
    rate = np.where(np.arange(400) < 300, 1e-3, 0.0)
    assert kinds(healthy(0), learning_rate=rate) == ["rate ended"]


def test_a_run_that_recovers_is_not_diverging():
    bump = healthy(0) + 2.0 * np.exp(-(((np.arange(400) - 250) / 30) ** 2))
    assert "diverging" not in kinds(bump)


def test_a_jump_in_the_last_losses_and_a_climb_of_a_short_log_are_diverging():
    jumped = healthy(0, n=600)
    jumped[588:] = 7.0
    assert kinds(jumped) == ["diverging"]
    found = health(pd.DataFrame({"step": np.arange(600), "loss": jumped}))[0]
    assert 580 <= found.step <= 588
    climbing = healthy(0, n=12)
    climbing[8:] = [2.4, 3.0, 3.8, 4.5]
    assert kinds(climbing) == ["diverging"]


@pytest.mark.calibration
def test_few_losses_and_correlated_noise_are_seldom_called_diverging():
    rng, alarms = np.random.default_rng(4), 0
    for _ in range(200):
        walk, shocks = np.zeros(400), rng.normal(0, 0.1 * np.sqrt(1 - 0.9**2), 400)
        for i in range(1, 400):
            walk[i] = 0.9 * walk[i - 1] + shocks[i]
        alarms += "diverging" in kinds(2.0 * np.exp(walk))
    assert alarms <= 20  # 18% before medians were held against how such medians scatter
    assert sum("diverging" in kinds(healthy(seed, n=12, noise=0.1)) for seed in range(200)) <= 4


def test_losses_that_were_not_finite_for_a_while_ask_for_a_look():
    loss = healthy(0)
    loss[200:240] = np.nan
    rows = pd.DataFrame({"step": np.arange(1, 401), "loss": loss, "learning_rate": 1e-3})
    found = health(rows)
    assert [(one.kind, one.level) for one in found] == [("not finite for a while", "look")]
    assert found[0].sentence == "40 logged losses from step 201 to 240 are not finite"


def test_rows_that_log_no_training_loss_are_no_fault():
    step, loss = np.arange(1, 401), healthy(0)
    held = pd.DataFrame({"step": step, "loss": loss})
    held["heldout_loss"] = np.where(step % 50 == 0, 2.0, np.nan)
    held.loc[held["heldout_loss"].notna(), "loss"] = (
        np.nan
    )  # evaluated on steps of their own, the last one too
    assert health(held) == []
    assert health(held, column="heldout_loss") == []
    every_tenth = np.where(step % 10 == 1, loss, np.nan)  # rates are logged at every step, losses at a tenth
    assert health(pd.DataFrame({"step": step, "loss": every_tenth, "learning_rate": 1e-3})) == []


def test_a_forecast_does_not_apply_below_zero_and_a_log_without_numbers_says_so(call, files):
    pd.DataFrame({"step": np.arange(100), "loss": np.linspace(2, -3, 100)}).to_csv(files / "a.csv")
    code, out, _ = call(files / "a.csv", "--horizon", "200")
    assert code == 0
    assert "a: no forecast: the loss is around or below 0" in out
    assert "a forecast does not apply" in out
    pd.DataFrame({"step": np.arange(100), "loss": np.nan}).to_csv(files / "a.csv")
    code, _, err = call(files / "a.csv", "--horizon", "200")
    assert code == 2
    assert "0 usable losses (100 rows without a finite loss left out)" in err


def test_health_overrides_advice():
    rows = table("x", 2.5, end=1000)
    rows.loc[rows.index[75:], "loss"] = np.linspace(2.4, 6, 25)
    found, _ = gather_curves(rows, rows[["run", "parameters"]].drop_duplicates(), horizon=2000)
    advice = advise(found[0], SIBLINGS, budget=1e9, larger=1000)
    assert (advice.action, advice.why.split(":")[0]) == (STOP, "diverging")
    rows = table("x", 2.5, end=1000)
    for at in (60, 75, 90):
        rows.loc[rows.index[at : at + 4], "loss"] *= 2
    found, _ = gather_curves(rows, rows[["run", "parameters"]].drop_duplicates(), horizon=2000)
    assert advise(found[0], SIBLINGS, budget=1e9, larger=1000).action == LOOK


# -- the command


@pytest.fixture
def files(tmp_path):
    pd.concat([table(f"r{i}", 1.0 + i) for i in range(5)]).to_csv(tmp_path / "done.csv", index=False)
    table("x", 2.5, end=600).to_csv(tmp_path / "begun.csv", index=False)
    return tmp_path


def test_one_line_per_run_comes_first(call, files):
    code, out, _ = call(files / "begun.csv", "--siblings", files / "done.csv")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("x should end near 2.2")
    assert "auto; interval from 5 siblings; 30% seen" in lines[0]
    assert " Methods in the average: " in lines[1]
    assert len(lines) == 2


def test_a_log_without_a_plan_says_how_to_state_one_and_that_its_rate_is_still_high(call, tmp_path):
    rows = table("x", 2.5, end=600).drop(columns="run")
    plain = tmp_path / "plain.csv"
    rows.to_csv(plain, index=False)
    code, _, err = call(plain)
    assert code == 2
    assert (
        "plain: the last step of this run is unknown, or it has ended; give --horizon STEP for a forecast, "
        "or --schedule FILE" in err
    )
    rated = tmp_path / "rated.csv"
    rows.assign(learning_rate=np.linspace(1e-3, 5e-4, len(rows))).to_csv(rated, index=False)
    code, _, err = call(rated)
    assert code == 2
    assert (
        "rated: the last step of this run is unknown (the learning rate is still high: rated at "
        "50% of its peak)" in err
    )
    code, out, _ = call(rated, "--horizon", "2000")
    assert (code, out.split()[0]) == (0, "rated")
    assert out.splitlines()[1].strip().startswith("Without a plan of the learning rate, quote ")


def test_what_several_runs_share_is_said_once(call, files):
    rows = [table(f"x{i}", 2.5, end=500 + 100 * i, seed=i) for i in range(3)]
    pd.concat(rows).to_csv(files / "begun.csv", index=False)
    code, out, _ = call(files / "begun.csv", "--horizon", "2000")
    lines = out.splitlines()
    assert code == 0
    assert sum("The interval's lower end is " in line for line in lines) == 1
    assert sum("If the rate stays as it is" in line for line in lines) == 3
    assert [line.split()[0] for line in lines if not line.startswith((" ", "The interval", "Final"))] == [
        "x0", "x1", "x2"
    ]  # fmt: skip


def test_all_methods_fit_a_terminal_of_80_columns(call, files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call(files / "begun.csv", "--siblings", files / "done.csv", "--methods", "all")
    assert code == 0
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert sum(line.strip().startswith(("auto ", "path transfer ")) for line in out.splitlines()) == 2
    assert "1: Path transfer: 5 finished siblings. It needs at least 6." in out


def test_a_diverging_log_is_said_first_and_ends_with_one(call, files):
    rows = table("x", 2.5, end=600)
    rows.loc[45:, "loss"] = np.linspace(2.5, 6.0, 15)
    rows.to_csv(files / "begun.csv", index=False)
    code, out, _ = call(files / "begun.csv", "--siblings", files / "done.csv")
    assert (code, out.splitlines()[0].split(": ")[:2]) == (1, ["stop", "x"])
    code, out, _ = call(files / "begun.csv", "--siblings", files / "done.csv", "--json")
    assert (code, json.loads(out)["problems"][0]["kind"]) == (1, "diverging")


@pytest.mark.parametrize(("top", "said"), [(3.2, " to "), (60.0, "without this problem, by")])
def test_in_python_too_an_ill_run_is_said_first_and_its_interval_is_none_of_its_level(top, said):
    rows = table("x", 2.5, end=1000)
    rows.loc[rows.index[75:], "loss"] = np.linspace(2.4, top, 25)
    lines = repr(ts.forecast(rows, horizon=2000)).splitlines()
    assert lines[0].startswith("stop: x: diverging: the loss rose from")
    assert said in next(line for line in lines if line.startswith("x would end near"))


def test_the_forecast_of_an_ill_run_is_none_of_its_level(call, files):
    rows = table("x", 2.5, end=1000)
    rows["loss"] = 2.5 * np.exp(np.random.default_rng(1).normal(0, 0.003, len(rows)))
    rows.to_csv(files / "begun.csv", index=False)
    code, out, _ = call(files / "begun.csv", "--siblings", files / "done.csv", "--json")
    made = json.loads(out)["forecasts"][0]
    assert (code, made["status"]) == (1, "unhealthy")
    assert made["reason"].startswith("plateau: forecast as if the run were healthy")
    code, out, _ = call(files / "begun.csv", "--siblings", files / "done.csv")
    assert [line.split(": ")[:2] for line in out.splitlines()[:1]] == [["look", "x"]]
    assert " without this problem (" in out.splitlines()[1]


@pytest.mark.parametrize("illness", ["diverging", "not finite"])
@pytest.mark.parametrize("also", [(), ("--budget", "1e9", "--advise")])
def test_an_ill_log_alone_is_said_without_a_plan_size_or_sibling(call, files, illness, also):
    step = np.arange(1, 401)
    loss = 1.6 + 3 * step**-0.5
    if illness == "diverging":
        loss[300:] = np.linspace(1.62, 4.54, 100)
    else:
        loss[380:] = np.nan
    pd.DataFrame({"step": step, "loss": loss}).to_csv(files / "alone.csv", index=False)
    code, out, _ = call(files / "alone.csv", *also)
    assert code == 1
    start = "alone: stop (" if also else "stop: alone: "
    assert out.startswith(f"{start}{illness}: ")
    assert "continue" not in out


def test_a_finished_run_that_stood_still_is_no_problem_but_one_that_diverged_is(call, files):
    done = pd.read_csv(files / "done.csv")
    flat = table("flat", 3.0)
    flat["loss"] = 2.5 * np.exp(np.random.default_rng(1).normal(0, 0.003, len(flat)))
    pd.concat([done, flat]).to_csv(files / "all.csv", index=False)
    code, out, _ = call(files / "all.csv", "--cuts", 0.5)
    assert (code, "plateau" in out) == (0, False)
    flat.loc[flat.index[150:], "loss"] = np.linspace(2.5, 6.0, 50)
    pd.concat([done, flat]).to_csv(files / "all.csv", index=False)
    code, out, _ = call(files / "all.csv", "--cuts", 0.5)
    assert (code, out.startswith("stop: flat: diverging: ")) == (1, True)


def test_each_illness_overrides_advice_by_the_command(call, files):
    given = ("--siblings", files / "done.csv", "--horizon", 2000, "--advise", "--budget", "1e9")
    base = table("x", 2.5, end=1000)
    rate = base.assign(lr=np.where(base["step"] < 800, 1e-3, 0.0))
    flat = base.assign(loss=2.5 * np.exp(np.random.default_rng(1).normal(0, 0.003, len(base))))
    spiky = base.copy()
    for at in (60, 75, 90):
        spiky.loc[spiky.index[at : at + 4], "loss"] *= 2
    for rows, action, ground in (
        (rate, "stop", "rate ended"),
        (flat, "look", "plateau"),
        (spiky, "look", "spikes"),
    ):
        rows.to_csv(files / "begun.csv", index=False)
        code, out, _ = call(files / "begun.csv", *given, "--tokens-per-step", 10)
        assert code == 1
        assert out.startswith(f"x: {action} ({ground}: ")


def test_rows_without_a_run_are_refused(call, files):
    rows = table("x", 2.5, end=600)
    rows.loc[3:5, "run"] = None
    rows.to_csv(files / "begun.csv", index=False)
    code, _, err = call(files / "begun.csv", "--siblings", files / "done.csv")
    assert code == 2
    assert "begun.csv: 3 rows have no run (empty, or a word such as nan" in err


def test_columns_of_one_table_are_renamed_and_those_of_others_left(call, files):
    rows = table("x", 2.5, end=600).rename(columns={"step": "T", "loss": "nll"})
    rows.to_csv(files / "odd.csv", index=False)
    given = (files / "odd.csv", "--siblings", files / "done.csv")
    code, out, _ = call(*given, "--rename", "T=step", "--rename", "nll=loss")
    assert (code, out.split()[0]) == (0, "x")
    code, _, err = call(*given, "--rename", "T=step", "--rename", "nll=loss", "--rename", "U=lr")
    assert (code, "--rename U=...: no such column in any of the tables" in err) == (2, True)
    code, _, err = call(*given, "--rename", "TT=step")
    assert (code, "--rename TT=...: no such column among run, T, nll" in err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("law", [(), ("--law", "power")])
def test_analyze_renames_columns_too(tmp_path, capsys, law):
    from toposcope.cli.main import main

    step = np.arange(1, 31)
    rows = {"T": step, "nll": 5.0 / (step + 2), "mine": step**0.5, "n": step * 100.0}
    pd.DataFrame(rows).to_csv(tmp_path / "m.csv", index=False)
    also = ("--rename", "T=step", "--rename", "nll=loss", "--rename", "n=parameters") if law else (
        "--rename", "T=step", "--rename", "nll=loss")  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(["analyze", str(tmp_path / "m.csv"), *law, *also, "--json"])
    assert ended.value.code == 0, capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["analyze", str(tmp_path / "m.csv"), *law, "--rename", "U=step"])
    assert (ended.value.code, "--rename U=...: no such column" in capsys.readouterr().err) == (2, True)


def test_a_step_pattern_names_the_steps_of_a_run_to_forecast(call, tmp_path):
    import torch

    for step in range(100, 501, 100):
        torch.save({"layer.weight": torch.ones(4, 4)}, tmp_path / f"mine_{step}k_of.pt")
    code, _, err = call(tmp_path, "--step-pattern", r"mine_(\d+)k")
    assert (code, "has no losses" in err) == (2, True)
    code, _, err = call(tmp_path)
    assert (code, "has no losses" in err) == (2, False)


def test_forecast_and_advice_have_one_interval(call, files):
    given = (files / "begun.csv", "--siblings", files / "done.csv", "--json")
    made = json.loads(call(*given)[1])["forecasts"][0]
    more = ("--advise", "--budget", "1e9", "--tokens-per-step", "10")
    on = json.loads(call(*given, *more)[1])["advice"][0]["options"][0]
    assert (on["loss"], on["low"], on["high"]) == pytest.approx(
        (made["final_loss"], made["low"], made["high"])
    )


def test_finished_runs_of_unequal_length_can_be_called_finished(call, files):
    rows = pd.concat([table(f"r{i}", 1.0 + i, end=2000 - 200 * i) for i in range(4)])
    rows.to_csv(files / "uneven.csv", index=False)
    assert "scores" not in json.loads(call(files / "uneven.csv", "--json")[1])
    code, out, _ = call(files / "uneven.csv", "--finished", "--cuts", "0.5", "--json")
    assert code == 0
    assert {row["run"] for row in json.loads(out)["scores"]} == {"r0", "r1", "r2", "r3"}


def test_a_column_is_found_by_the_name_it_has(call, files):
    table("x").rename(columns={"loss": "val_loss"}).to_csv(files / "val.csv", index=False)
    code, out, _ = call(files / "val.csv", "--column", "val_loss", "--horizon", "4000", "--json")
    assert code == 0
    assert json.loads(out)["forecasts"][0]["final_loss"] > 2


# -- what a trainer's state says


def test_an_unfinished_transformers_run_is_no_finished_sibling(tmp_path):
    import torch

    folder = tmp_path / "run" / "checkpoint-200"
    folder.mkdir(parents=True)
    torch.save({"layer.weight": torch.ones(4, 4)}, folder / "pytorch_model.bin")
    state = {
        "max_steps": 1000, "global_step": 200, "train_batch_size": 8, "total_flos": 1e9,
        "num_input_tokens_seen": 200 * 512,
        "log_history": [{"step": s, "loss": 4 - s / 100} for s in range(10, 201, 10)],
    }  # fmt: skip
    (folder / "trainer_state.json").write_text(json.dumps(state))
    series = open_series(str(tmp_path / "run"))
    (run,) = series.runs
    assert run.config["planned_steps"] == 1000
    rows = pd.DataFrame([{"run": run.run, "parameters": run.parameters, "config": dict(run.config)}])
    (read,), problems = gather_curves(series.metrics(run.run), rows)
    assert (read.finished, read.horizon, problems) == (False, 1000, [])
    assert read.covariates["tokens_per_step"] == 512
    assert [c.run for c in split_runs([curve("own")], [read])[0]] == ["own"]
    (folder / "trainer_state.json").write_text(json.dumps({**state, "global_step": 190}))
    series = open_series(str(tmp_path / "run"))
    assert "checkpoint-200 states global_step 190" in series.runs[0].config["step_conflict"]
    (stated,) = [one for one in audit(series) if one.fault == "step-mismatch"]
    assert (stated.step, stated.message) == (200, "its file or trainer's state says step 190")
    shutil.copytree(folder, folder.with_name("checkpoint-300"))  # not only the last one is looked at
    (folder.with_name("checkpoint-300") / "trainer_state.json").write_text(
        json.dumps({**state, "global_step": 300})
    )
    found = audit(open_series(str(tmp_path / "run")), cheap=True)
    assert [one.step for one in found if one.fault == "step-mismatch"] == [200]


@pytest.mark.parametrize("given", ["run/checkpoint-200/trainer_state.json", "run/checkpoint-200"])
def test_a_trainers_state_alone_is_enough_for_a_forecast(call, tmp_path, given):
    folder = tmp_path / "run" / "checkpoint-200"
    folder.mkdir(parents=True)
    losses = [{"step": s, "loss": 2 + 3 * s**-0.4, "learning_rate": 1e-3} for s in range(10, 201, 10)]
    state = {"max_steps": 1000, "global_step": 200, "log_history": losses}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    code, out, _ = call(tmp_path / given)
    assert (code, out.split()[0]) == (0, "run")
    assert "20% seen" in out.splitlines()[0]


def test_an_unfinished_lightning_run_is_no_finished_sibling(tmp_path):
    import torch

    folder = tmp_path / "lightning_logs" / "version_0"
    (folder / "checkpoints").mkdir(parents=True)
    state = {"state_dict": {"layer.weight": torch.ones(4, 4)}, "global_step": 200, "epoch": 1}
    torch.save(state, folder / "checkpoints" / "epoch=1-step=200.ckpt")
    (folder / "hparams.yaml").write_text("width: 4\nmax_steps: 1000\n")
    rows = "".join(f"0,{s},{4 - s / 100},\n1,{s},,{5 - s / 100}\n" for s in range(10, 201, 10))
    (folder / "metrics.csv").write_text("epoch,step,train_loss_step,val_loss\n" + rows)
    series = open_series(str(folder))
    (run,) = series.runs
    assert (run.run, run.config["planned_steps"]) == ("version_0", 1000)
    losses = series.metrics("version_0")
    assert losses[["step", "loss", "heldout_loss"]].iloc[0].tolist() == [10, 3.9, 4.9]
    described = pd.DataFrame([{"run": run.run, "parameters": 16, "config": dict(run.config)}])
    (read,), problems = gather_curves(losses, described)
    assert (read.finished, read.horizon, problems) == (False, 1000, [])


@pytest.mark.parametrize("given", ["version_0", "version_0/metrics.csv"])
def test_lightnings_log_without_checkpoints_is_unfinished_too(tmp_path, capsys, given):
    from toposcope.cli.main import main

    folder = tmp_path / "version_0"
    folder.mkdir()
    (folder / "hparams.yaml").write_text("width: 4\nmax_steps: 1000\n")
    rows = "".join(f"0,{s},{1.5 + 30 / s}\n" for s in range(10, 401, 10))
    (folder / "metrics.csv").write_text("epoch,step,train_loss\n" + rows)
    with pytest.raises(SystemExit) as ended:
        main(["forecast", str(tmp_path / given), "--json"])
    (made, *_) = json.loads(capsys.readouterr().out)["forecasts"]
    assert (ended.value.code, made["share_seen"]) == (0, 0.4)
    assert made["run"] == ("version_0" if given == "version_0" else "metrics")


def test_an_unfinished_nanogpt_run_is_no_finished_sibling(tmp_path):
    import torch

    content = {"model": {"lm_head.weight": torch.ones(4, 4)}, "iter_num": 600, "config": {"max_iters": 2000}}
    (tmp_path / "out").mkdir()
    torch.save(content, tmp_path / "out" / "ckpt.pt")
    series = open_series(str(tmp_path / "out"))
    (run,) = series.runs
    assert [c.step for c in series] == [600]
    described = pd.DataFrame([{"run": "out", "parameters": 16, "config": dict(run.config)}])
    (read,), _ = gather_curves(table("out", end=600), described)
    assert (read.finished, read.horizon) == (False, 2000)


NANOGPT = {"max_iters": 2000, "batch_size": 12, "block_size": 64, "gradient_accumulation_steps": 5}


def test_a_log_beside_nanogpts_checkpoint_is_unfinished_too(tmp_path, capsys):
    import torch

    from toposcope.cli.main import main
    from toposcope.runs.reading import Reading, read_curves

    content = {"model": {"lm_head.weight": torch.ones(4, 4)}, "iter_num": 600, "config": NANOGPT}
    torch.save(content, tmp_path / "ckpt.pt")
    log = tmp_path / "log.csv"
    table("own", end=600).drop(columns="run").to_csv(log, index=False)
    (read,), problems, _ = read_curves([str(log)], Reading())
    assert (read.finished, read.horizon, problems) == (False, 2000, [])
    assert read.covariates["tokens_per_step"] == 12 * 64 * 5
    (run,) = open_series(str(tmp_path)).runs
    facts = ("planned_steps", "trained_steps", "batch_size", "tokens_per_step")
    assert [run.config[name] for name in facts] == [2000, 600, 60, 3840]
    with pytest.raises(SystemExit) as ended:
        main(["forecast", str(log), "--json"])
    (made, *_) = json.loads(capsys.readouterr().out)["forecasts"]
    assert (ended.value.code, made["share_seen"]) == (0, 0.3)


def test_the_newest_of_numbered_checkpoints_beside_a_log_states_its_plan(tmp_path):
    import torch

    from toposcope.runs.reading import Reading, read_curves

    for step, planned in ((200, 1000), (600, 2000)):
        content = {"model": {"w": torch.ones(4, 4)}, "iter_num": step, "config": {"max_iters": planned}}
        torch.save(content, tmp_path / f"ckpt_{step}.pt")
    log = tmp_path / "log.csv"
    table("own", end=600).drop(columns="run").to_csv(log, index=False)
    (read,), problems, _ = read_curves([str(log)], Reading())
    assert (read.finished, read.horizon, problems) == (False, 2000, [])


def test_a_checkpoint_beside_a_log_that_cannot_be_read_or_is_of_many_runs_says_no_plan(tmp_path):
    import torch

    from toposcope.runs.reading import Reading, read_curves

    log = tmp_path / "log.csv"
    (tmp_path / "ckpt.pt").write_bytes(b"not a checkpoint")
    table("own", end=600).drop(columns="run").to_csv(log, index=False)
    (read,), _, notes = read_curves([str(log)], Reading())
    assert read.horizon == read.last
    assert any("ckpt.pt beside it states no plan" in note for note in notes)
    torch.save({"model": {"w": torch.ones(4, 4)}, "config": NANOGPT}, tmp_path / "ckpt.pt")
    pd.concat([table("a", end=600), table("b", end=600)]).to_csv(log, index=False)
    assert all(one.horizon == one.last for one in read_curves([str(log)], Reading())[0])


def test_numbers_that_are_none_are_left_out_of_the_facts():
    assert training_facts({"max_steps": -1, "global_step": True, "total_flos": "many"}) == {}


def test_a_law_reads_the_sizes_by_any_of_their_names(tmp_path, capsys):
    from toposcope.cli.main import main

    sizes = np.array([1e3, 1e4, 1e5, 1e6])
    pd.DataFrame({"params": sizes, "train_loss": 65.0 * sizes**-0.3}).to_csv(tmp_path / "m.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["analyze", str(tmp_path / "m.csv"), "--law", "power", "--json"])
    fit = {row["parameter"]: row["value"] for row in json.loads(capsys.readouterr().out)["fit"]}
    assert (ended.value.code, round(fit["exponent"], 3)) == (0, -0.3)


def test_a_run_whose_steps_are_epochs_is_not_beyond_its_own_end():
    epoch = np.arange(1, 121) / 100
    run = curve_from_metrics("a", pd.DataFrame({"step": epoch, "loss": 3 - epoch}))
    assert run.horizon == 2


def test_a_cut_before_the_first_loss_is_no_forecast():
    made = forecast(Pow3(), curve("x", 2.5).seen(-1))
    assert (made.status, made.reason) == ("failed", "run x: no loss was logged so far")


def test_runs_whose_logs_state_no_last_step_are_not_said_to_have_ended(tmp_path, call):
    """A check of the same logs says that their last step is unknown."""
    for seed in range(3):
        table(f"s{seed}", 2.5 + seed / 10).to_csv(tmp_path / f"s{seed}.csv", index=False)
    assert "its last step is unknown" in str(ts.check(tmp_path))
    _, out, _ = call(tmp_path)
    first = " ".join(out.split())
    assert first.startswith(
        "No run to forecast: 3 runs are taken as ended where their logs end, because their last step is "
        "unknown; give --horizon STEP if they go on."
    )
