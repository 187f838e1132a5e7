from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.forecasting import curve_from_metrics, forecast, read_schedule
from toposcope.forecasting.auto import Auto, default_candidates
from toposcope.forecasting.evaluate import ablate, paired, score_forecasts, summarise, unseen_largest
from toposcope.forecasting.families import (
    Exp4,
    ILog2,
    Janoschek,
    LastValue,
    Pow3,
    Pow4,
    SmoothedPow3,
)
from toposcope.forecasting.siblings import SiblingTransfer, ridge_predict
from toposcope.logs.schedule import constant, cosine, drop, schedule_from_log
from toposcope.published.forecasters import CombinedRule, LastLossControl, LossOnlyRule, TdaOnlyRule
from toposcope.study.forecasts._vectors import image_columns, landscape_columns, vector_table
from toposcope.study.forecasts.topology import FeatureTransfer

STEP = np.arange(1.0, 3001.0)


def run_of(loss, **options):
    return curve_from_metrics("run", pd.DataFrame({"step": STEP, "loss": loss}), **options)


@pytest.mark.parametrize(
    ("method", "loss", "within"),
    [
        (Pow3(), 2.0 + 3.0 * (STEP + 1) ** -0.4, 0.004),
        (SmoothedPow3(), 2.0 + 3.0 * (STEP + 1) ** -0.4, 0.01),
        (Pow4(), 2.0 + 30.0 * (STEP + 200) ** -0.5, 0.01),
        (Exp4(), 2.0 + 3.0 * np.exp(-((STEP / 200) ** 0.6)), 0.03),
        (Janoschek(), 2.0 + 3.0 * np.exp(-((STEP / 200) ** 0.8)), 0.03),
        (ILog2(), 2.0 + 1.5 / np.log(STEP + 1), 0.004),
        (LastValue(), np.full(3000, 2.5) + 1e-9 * STEP, 1e-6),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_each_family_extrapolates_its_own_curve(method, loss, within):
    run = run_of(loss)
    made = forecast(method, run.seen(1000))
    assert made.final == pytest.approx(run.final_loss(), rel=within)
    assert made.step[-1] == run.horizon
    assert made.low <= made.final <= made.high


def test_nothing_after_the_cut_reaches_a_forecast(family):
    run, siblings = family[2], family[:2] + family[3:]
    seen = run.seen(600)
    changed = replace(run, loss=np.where(run.step > 600, 9.0, run.loss)).seen(600)
    for method in (Auto(), *default_candidates()):
        a, b = forecast(method, seen, siblings), forecast(method, changed, siblings)
        assert a.final == b.final or (math.isnan(a.final) and math.isnan(b.final))


def test_auto_chooses_by_the_siblings_and_beats_the_last_value(family):
    scores = score_forecasts(family, [Auto(), SiblingTransfer(), LastValue()], [0.3])
    mae = summarise(scores).set_index("method")["mae"]
    assert mae["auto"] < 0.2 * mae["last value"]
    assert summarise(scores).set_index("method").loc["auto", "rank_correlation"] == pytest.approx(1.0)


def test_the_remaining_curve_is_forecast_as_well(family):
    run = family[3]
    made = forecast(SiblingTransfer(), run.seen(600), [c for c in family if c is not run])
    actual = np.interp(made.step[:-3], run.step, pd.Series(run.loss).rolling(40).mean().bfill())
    assert np.mean(np.abs(made.loss[:-3] / actual - 1)) < 0.01


def test_unseen_largest_size_from_the_smaller_ones(family):
    table = unseen_largest(family, [SiblingTransfer()], [0.3]).set_index("method")
    assert abs(table.loc["sibling transfer", "error"]) < 0.03
    alone = table.loc["size alone"]
    assert alone["low"] <= alone["actual"] <= alone["high"]


# -- bad input: a row with its status and reason, never a silent number


def metrics(**columns):
    return pd.DataFrame({"step": np.arange(20.0), "loss": np.linspace(4, 3, 20), **columns})


def test_nan_losses_are_left_out_and_said():
    table = metrics()
    table.loc[3, "loss"] = np.nan
    table.loc[5, "loss"] = np.inf
    curve = curve_from_metrics("a", table)
    assert len(curve.step) == 18
    assert "2 rows without a finite loss" in curve.notes[0]


def test_duplicate_steps_are_averaged_and_said():
    table = pd.concat([metrics(), pd.DataFrame({"step": [4.0], "loss": [9.0]})])
    curve = curve_from_metrics("a", table)
    assert curve.loss[4] == pytest.approx((9.0 + table["loss"].iloc[4]) / 2)
    assert "1 repeated steps averaged" in curve.notes


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (metrics().iloc[:1], {}, "1 usable losses; a forecast needs at least 3"),
        (metrics(loss=np.nan), {}, "0 usable losses"),
        (
            metrics().rename(columns={"loss": "los"}),
            {},
            r"no 'loss' by step \(they have step, los.*\); choose one with `column` NAME; did you mean 'los'",
        ),
        (metrics(), {"horizon": 5}, "horizon 5 is before its last logged step 19"),
        (
            metrics(learning_rate=1e-3),
            {"schedule": cosine(peak=1e-3, last=0.0, steps=19)},
            "the schedule differs from the logged learning rate by up to 100%",
        ),
    ],
)
def test_unusable_runs_name_the_reason(table, options, message):
    with pytest.raises(InputError, match=message):
        curve_from_metrics("a", table, **options)


def test_what_a_method_cannot_do_is_a_failed_row(family):
    seen = replace(family[0], rate=np.full(len(family[0].rate), np.nan)).seen(400)
    for method in (SiblingTransfer(), *default_candidates()):
        made = forecast(method, seen, [])
        if made.status == "failed":
            assert math.isnan(made.final)
            assert made.reason
    assert (
        forecast(SiblingTransfer(), seen, []).reason
        == "sibling transfer: 0 finished siblings; it needs at least 2"
    )
    law = next(m for m in default_candidates() if m.name == "tissue")
    assert "give a schedule" in forecast(law, seen, []).reason
    assert "no features of run0 were measured" in forecast(TdaOnlyRule(), seen, []).reason


def test_ties_between_siblings_do_not_break_the_transfer(family):
    same = [replace(family[0], run=f"copy{i}") for i in range(4)]
    made = forecast(SiblingTransfer(), family[0].seen(500), same)
    assert made.final == pytest.approx(family[0].final_loss(), rel=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("step,rate\n0,1\n1,1\n", "it needs step and lr"),
        ("step,lr\n0,1\n0,1\n", "must ascend without repeats"),
        ("step,lr\n0,1\n5,-1\n", "finite number >= 0"),
        ("step,lr\n0,1\n5,nan\n", "finite number >= 0"),
    ],
)
def test_schedule_files_are_checked(tmp_path, content, message):
    path = tmp_path / "plan.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_schedule(path)
    with pytest.raises(InputError, match="no such file"):
        read_schedule(tmp_path / "absent.csv")


def test_schedules_know_their_area_and_a_log_shows_its_jump():
    plan = constant(peak=2.0, steps=100, warmup=10)
    assert plan.area(np.array([10.0, 100.0])).tolist() == [10.0, 190.0]
    shown = schedule_from_log(np.array([100.0, 200.0, 300.0]), np.array([1.0, 1.0, 0.1]))
    assert shown is not None
    assert shown.at(np.array([249.0, 251.0])).tolist() == [1.0, 0.1]
    assert not drop(peak=1.0, last=0.1, at=250, steps=300).mismatch(
        np.array([100.0, 300.0]), np.array([1.0, 0.1])
    )


# -- topology and its controls


def with_features(curves, signal, seed=0):
    random = np.random.default_rng(seed)
    out = []
    for curve in curves:
        steps = np.arange(0, curve.horizon + 1, 100)
        value = np.log(curve.final_loss()) if signal else random.normal()
        drift = np.log1p(steps)
        table = pd.DataFrame({"step": steps, "neural_persistence": 0.4 + 0.01 * drift + 0.0 * value})
        table["h0_total"] = np.exp(value + 0.1 * drift + random.normal(0, 1e-3, len(steps)))
        out.append(replace(curve, features=table))
    return out


def test_a_planted_feature_helps_and_the_ablation_says_so():
    """Losses that say nothing of the end, a feature that knows it: the paired effect must be negative."""
    random = np.random.default_rng(5)
    curves = []
    for i in range(10):
        end = random.uniform(2.0, 3.0)
        loss = np.interp(STEP, [1, 900, 3000], [4.0, 3.5, end]) * np.exp(random.normal(0, 0.002, 3000))
        curves.append(replace(run_of(loss, parameters=10 + i), run=f"r{i}"))
    methods = [SiblingTransfer(), FeatureTransfer("topology", ("h0_total",))]
    row = ablate(score_forecasts(with_features(curves, True), methods, [0.3]), "sibling transfer").iloc[0]
    assert row["high"] < 0
    assert row["wilcoxon_p"] == pytest.approx(row["smallest_wilcoxon_p"], rel=8)
    noise = ablate(score_forecasts(with_features(curves, False), methods, [0.3]), "sibling transfer").iloc[0]
    assert noise["high"] > 0


def test_five_pairs_cannot_reach_five_percent():
    row = paired(pd.Series([-1.0, -2.0, -3.0, -4.0, -5.0]))
    assert row["wilcoxon_p"] == row["smallest_wilcoxon_p"] == 0.0625
    assert paired(pd.Series([0.0, 0.0]))["status"] == "failed"


def test_published_rules_and_their_control(family):
    run = with_features(family, True)[0]
    seen = run.seen(1000)
    loss_only = forecast(LossOnlyRule(), seen).final
    tda, mixed = forecast(TdaOnlyRule(), seen).final, forecast(CombinedRule(), seen).final
    assert mixed == pytest.approx(0.6 * loss_only + 0.4 * tda)
    last = seen.loss[np.searchsorted(seen.step, 1000)]
    assert forecast(LastLossControl(), seen).final == pytest.approx(0.6 * loss_only + 0.4 * last)
    persistence = seen.features["neural_persistence"].to_numpy()
    rate = abs((persistence[-1] - persistence[0]) / (len(persistence) - 1))
    assert tda == pytest.approx(last - 0.1 * rate * (21 - len(persistence)))


def test_vectors_have_no_range_to_leak_and_average_draws():
    rows = pd.DataFrame(
        {
            "run": "a", "step": [0, 0, 100], "probe": "rips", "scope": "pooled", "draw": [0, 1, 0], "dim": 1,
            "birth": [[0.1], [0.2], [1.0]], "death": [[0.3], [0.4], [3.0]],
        }
    )  # fmt: skip
    table = vector_table(rows, "image")
    alone = vector_table(rows.iloc[:2], "image")
    pd.testing.assert_frame_equal(table.iloc[:1], alone)
    scaled = rows.assign(birth=[[1.0], [2.0], [10.0]], death=[[3.0], [4.0], [30.0]])
    lengths = vector_table(scaled, "landscape").iloc[:, -1] - vector_table(rows, "landscape").iloc[:, -1]
    assert np.allclose(lengths, np.log(10))
    assert landscape_columns(np.array([[0.0, 1.0]])).max() == pytest.approx(0.5, abs=0.05)
    assert image_columns(np.array([[0.0, 1.0]])).shape == (36,)


def test_ridge_finds_the_line_and_shrinks_noise():
    random = np.random.default_rng(3)
    x = random.normal(size=(30, 4))
    y = 2.0 * x[:, 0] + random.normal(0, 0.1, 30)
    assert ridge_predict(x, y, np.array([[1.0, 0, 0, 0]]), free=1)[0] == pytest.approx(2.0, abs=0.1)


def test_ridge_leaves_out_what_refitting_leaves_out():
    """The penalty is the one that refitting without each row in turn finds best, more columns than rows."""
    random = np.random.default_rng(8)
    for free in (0, 1):
        x = random.normal(size=(6, 9))
        x -= x.mean(axis=0)
        y = x[:, 0] + 0.3 * random.normal(size=6)
        penalties = np.array([1e-9, 1e-3, 0.1, 1.0])
        design = np.column_stack([np.ones(6), x / x.std()])
        weights = np.r_[np.zeros(1 + free), np.ones(9 - free)]

        def fit(rows, penalty, design=design, y=y, weights=weights):
            gram = design[rows].T @ design[rows] + 6 * penalty * np.diag(weights)
            return np.linalg.lstsq(gram, design[rows].T @ y[rows], rcond=None)[0]

        def error(penalty, design=design, y=y, fit=fit):
            rows = [np.arange(6) != i for i in range(6)]
            return sum((y[i] - design[i] @ fit(keep, penalty)) ** 2 for i, keep in enumerate(rows))

        best = min(penalties, key=error)
        found = ridge_predict(x, y, x[:2], free=free, penalties=penalties)
        assert found == pytest.approx(design[:2] @ fit(np.arange(6) >= 0, best), abs=1e-6)


# -- no work twice, and none whose result means nothing


@pytest.mark.slow
def test_leaving_out_runs_in_turn_fits_the_same_runs_once(monkeypatch):
    from toposcope.forecasting import annealing

    counts: dict[int, int] = {}
    fit = annealing._huber_fit

    def counted(*args):
        counts[len(args[1])] = counts.get(len(args[1]), 0) + 1
        return fit(*args)

    monkeypatch.setattr(annealing, "_huber_fit", counted)
    step = np.arange(20, 1001, 20.0)
    runs = []
    for k in range(4):  # schedules that differ: the laws of the rate take part
        plan = cosine(peak=1e-3 * (1 + 0.2 * k), last=1e-4, steps=1000)
        loss = 2.0 + 0.5 * plan.area(step) ** -0.5 + 500.0 * plan.at(step) + 1e-3 * np.sin(7 * step + k)
        runs.append(curve_from_metrics(f"r{k}", pd.DataFrame({"step": step, "loss": loss}), schedule=plan))
    for cut in (200, 200):
        for run in runs:
            forecast(Auto(), run.seen(cut), [one for one in runs if one is not run])
    starts = 4 + 8  # of the multi-power law and of Tissue's
    # each run from the three others, each of three from the two others, each of two from the other one
    assert counts == {4: 4 * starts, 3: 12 * starts, 2: 12 * starts}


def test_no_run_of_one_size_is_the_largest(family):
    same = [replace(run, parameters=1000) for run in family]
    table = unseen_largest(same, [SiblingTransfer()], [0.3])
    assert table[["status", "reason"]].to_numpy().tolist() == [["failed", "the runs have one size"]]


def test_seeds_of_the_largest_size_do_not_forecast_one_another(family):
    largest = max(family, key=lambda run: run.parameters)
    twin = replace(largest, run="twin", loss=largest.loss + 0.5)
    plain = unseen_largest([*family, largest], [SiblingTransfer()], [0.3])
    beside = unseen_largest([*family, twin, largest], [SiblingTransfer()], [0.3])
    assert beside["predicted"].tolist() == plain["predicted"].tolist()
