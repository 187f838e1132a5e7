from __future__ import annotations

import numpy as np
import pytest

from toposcope.scaling import fit_loss_to_loss, fit_two_stage


def test_planted_loss_to_loss_is_recovered_with_its_floors():
    x = np.linspace(2.0, 4.5, 14)
    y = 1.1 * (x - 1.6) ** 1.3 + 1.2
    fit = fit_loss_to_loss(x, y, draws=0)
    assert fit.predict(np.array([5.0])) == pytest.approx(1.1 * 3.4**1.3 + 1.2, abs=1e-3)
    assert fit.floor_x == pytest.approx(1.6, abs=0.05)
    assert np.isnan(fit.predict(np.array([0.5])))[0]


@pytest.mark.calibration
def test_loss_to_loss_interval_covers_the_planted_power():
    hits = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        x = np.linspace(2.0, 4.5, 20)
        y = 1.1 * (x - 1.6) ** 1.3 + 1.2 + random.normal(0, 0.01, 20)
        low, high = fit_loss_to_loss(x, y, floor_x=1.6, floor_y=1.2, draws=60).interval()["power"]
        hits += low <= 1.3 <= high
    assert hits >= 14


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [([2, 3], [1, 2], "2 distinct losses for 4"), ([2, 3, 4], [1, 2], "3 losses on one side")],
)
def test_loss_to_loss_bad_input(x, y, reason):
    fit = fit_loss_to_loss(np.array(x, float), np.array(y, float))
    assert fit.status == "failed"
    assert reason in fit.reason


def test_two_stage_recovers_a_planted_chain_and_bounds_a_larger_compute():
    compute = np.geomspace(1e18, 1e22, 12)
    loss = 60.0 * compute**-0.08 + 1.7
    score = 0.25 + 0.75 / (1 + np.exp(4.0 * (loss - 2.9)))
    noisy = loss + np.random.default_rng(0).normal(0, 0.004, 12)
    fit = fit_two_stage(compute, noisy, score, chance=0.25, draws=60)
    target = 1e23
    truth = 0.25 + 0.75 / (1 + np.exp(4.0 * (60.0 * target**-0.08 + 1.7 - 2.9)))
    low, high = fit.predict_interval(np.array([target]))
    assert fit.predict(np.array([target]))[0] == pytest.approx(truth, abs=0.03)
    assert low[0] <= truth <= high[0]


def test_two_stage_with_too_few_models_fails_with_its_reason():
    fit = fit_two_stage(np.array([1e18, 1e19]), np.array([3.0, 2.5]), np.array([0.3, 0.4]))
    assert fit.status == "failed"
    assert "at least 4" in fit.reason
