"""The interval of the whole remaining curve."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from toposcope.forecasting import constant, cosine, forecast, forecast_planned
from toposcope.forecasting.backtests import AHEAD, curve_interval, path_errors
from toposcope.forecasting.families import Pow3
from toposcope.forecasting.siblings import SiblingTransfer
from toposcope.logs.curve import curve_from_metrics
from toposcope.logs.schedule import drop
from toposcope.study.forecasts.topology import FeatureTransfer

STEP = np.arange(5, 2001, 5.0)


def power_law(random):
    """Return a power law of the step with drawn floor, height and exponent."""
    floor, height, exponent = random.uniform(1.5, 2.5), random.uniform(3, 6), random.uniform(0.3, 0.5)
    return lambda step: floor + height * (step + 1.0) ** -exponent


def run(truth, random, name="a"):
    loss = truth(STEP) * np.exp(random.normal(0, 0.005, len(STEP)))
    return curve_from_metrics(name, pd.DataFrame({"step": STEP, "loss": loss}))


def held(made, truth):
    inside = (made.curve_low <= truth(made.step)) & (truth(made.step) <= made.curve_high)
    return float(inside.mean())


@pytest.mark.calibration
def test_the_band_of_siblings_holds_the_true_curve_as_often_as_it_says():
    shares, ends = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)
        truths = [power_law(random) for _ in range(7)]
        curves = [run(truth, random, f"r{i}") for i, truth in enumerate(truths)]
        made = forecast(SiblingTransfer(), curves[0].seen(500), curves[1:])
        shares.append(held(made, truths[0]))
        ends.append(made.low <= curves[0].final_loss() <= made.high)
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(ends) > 0.8
    assert abs(np.mean(shares) - 0.9) < 0.03 + 2.5 * error


def test_the_band_of_a_run_alone_holds_the_true_curve_at_least_as_often_as_it_says():
    shares = []
    for seed in range(60):
        random = np.random.default_rng([1, seed])
        truth = power_law(random)
        made = forecast(Pow3(), run(truth, random).seen(600))
        shares.append(held(made, truth))
    assert np.mean(shares) >= 0.9


def test_the_band_ends_as_wide_as_the_interval_of_the_final_loss():
    random = np.random.default_rng(3)
    curves = [run(power_law(random), random, f"r{i}") for i in range(7)]
    made = forecast(SiblingTransfer(), curves[0].seen(500), curves[1:])
    assert made.curve_high[-1] / made.loss[-1] == pytest.approx(made.high / made.final)
    assert made.curve_high[0] / made.loss[0] < made.high / made.final
    ends_only = forecast(FeatureTransfer("none", ("x",)), curves[0].seen(500), curves[1:])
    assert len(ends_only.curve_low) == len(ends_only.loss) == 0


def test_the_errors_of_a_backtest_are_read_along_the_curve():
    curve = run(power_law(np.random.default_rng(4)), np.random.default_rng(5))
    right = path_errors(curve, 500, curve.step, curve.loss)
    assert np.abs(right).max() < 1e-12
    low = path_errors(curve, 500, curve.step, curve.loss * np.linspace(1.0, 0.9, len(curve.step)))
    assert (np.diff(low) > 0).all()
    assert low[-1] == pytest.approx(-np.log(0.901), abs=2e-3)
    assert np.isnan(path_errors(curve, 500, np.empty(0), np.empty(0))).all()


def test_without_backtests_the_band_runs_from_the_noise_to_the_end():
    step = np.array([100.0, 1000.0, 10000.0])
    low, high = curve_interval(
        step, np.ones(3), cut=100, end=10000, paths=[np.zeros(len(AHEAD))], half=0.3, noise=0.01, level=0.9
    )
    quantile = 1.6448536
    assert np.log(high) == pytest.approx([0.01 * quantile, (0.01 * quantile + 0.3) / 2, 0.3], rel=1e-6)
    assert low * high == pytest.approx(np.ones(3))


@pytest.mark.slow
def test_a_run_to_come_has_a_band():
    def annealed(name, plan, random):
        area = plan.area(STEP) * 1e3
        loss = (2.0 + 0.5 * area**-0.5 + 200.0 * plan.at(STEP)) * np.exp(random.normal(0, 0.001, len(STEP)))
        return curve_from_metrics(name, pd.DataFrame({"step": STEP, "loss": loss}), schedule=plan)

    plans = [cosine(peak=1e-3, last=1e-4, steps=2000), constant(peak=1e-3, steps=2000),
             drop(peak=1e-3, last=3e-4, at=1000, steps=2000)]  # fmt: skip
    random = np.random.default_rng(0)
    curves = [annealed(f"r{i}", plan, random) for i, plan in enumerate(plans)]
    for made in forecast_planned(drop(peak=1e-3, last=2e-4, at=1500, steps=2000), curves):
        assert made.status == "ok"
        assert made.curve_low.shape == made.curve_high.shape == made.loss.shape
        assert (made.curve_low <= made.loss).all()
        assert (made.loss <= made.curve_high).all()


def test_the_command_gives_the_band(call, tmp_path):
    random = np.random.default_rng(8)
    table = pd.concat([
        pd.DataFrame({"run": f"r{i}", "step": STEP, "loss": run(power_law(random), random).loss})
        for i in range(5)
    ])  # fmt: skip
    table = table[(table["run"] != "r0") | (table["step"] <= 500)]
    table.to_csv(tmp_path / "runs.csv", index=False)
    code, out, _ = call(tmp_path / "runs.csv", "--json")
    made = {row["method"]: row for row in json.loads(out)["forecasts"]}["auto"]
    assert code == 0
    assert len(made["curve_low"]) == len(made["curve_high"]) == len(made["losses"]) > 10
    assert all(
        a < b < c for a, b, c in zip(made["curve_low"], made["losses"], made["curve_high"], strict=True)
    )
