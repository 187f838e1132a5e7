"""The published data sets: nothing is chosen on the run that is scored."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.forecast_shapes import choose_shape
from toposcope.forecasting import fit_law, forecast
from toposcope.forecasting.annealing import DEFAULT, PUBLISHED, drive, fit_multi_power
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.laws import MultiPower, Tissue
from toposcope.forecasting.siblings import PathTransfer, SiblingTransfer
from toposcope.logs.curve import Binned

FITTED = ("cosine_24000", "constant_24000", "wsdcon_9")
PREDICTED = (
    "constant_72000",
    "cosine_72000",
    "wsd_20000_24000",
    "wsdld_20000_24000",
    "wsdcon_3",
    "wsdcon_18",
)


def left_out(method, curves, share):
    return [
        (curve, forecast(method, curve.seen(share * curve.horizon), [c for c in curves if c is not curve]))
        for curve in curves
    ]


@pytest.mark.parametrize(("cut", "bar"), [(900, 0.075), (1400, 0.012), (2400, 0.0065)])
def test_final_loss_of_five_models_each_from_the_other_four(seed_curves, cut, bar):
    made = left_out(Auto(), seed_curves, cut / 5000)
    assert np.mean([abs(f.final - c.final_loss()) for c, f in made]) <= bar
    window = left_out(SiblingTransfer(window=True), seed_curves, cut / 5000)
    published = {900: 0.073, 1400: 0.0112, 2400: 0.0054}[cut]
    assert np.mean([abs(f.final - c.final_loss()) for c, f in window]) == pytest.approx(published, abs=6e-4)


def test_gemstones_from_a_fifth_of_their_tokens(gemstones):
    made = left_out(PathTransfer(), gemstones, 0.2)
    assert np.mean([abs(f.final / c.final_loss() - 1) for c, f in made]) <= 0.002


def test_nine_tenths_intervals_cover_nine_tenths_pooled(seed_curves, gemstones):
    covered = [
        f.low <= c.final_loss() <= f.high
        for curves, shares in ((seed_curves, (0.18, 0.28, 0.48)), (gemstones, (0.2, 0.3, 0.5)))
        for share in shares
        for c, f in left_out(SiblingTransfer(), curves, share)
    ]
    n = len(covered)
    error = np.sqrt(0.9 * 0.1 / n)
    assert abs(np.mean(covered) - 0.9) <= 2 * error, f"{sum(covered)} of {n}"


def as_run(curve):
    return Binned(curve.step, curve.loss, np.ones(len(curve.step))), curve.plan()


@pytest.mark.slow
@pytest.mark.parametrize(("size", "mae", "r2"), [(25, 0.0038, 0.9988), (100, 0.0044, 0.9983)])
def test_schedules_by_the_command_with_raw_files_and_defaults(shared_data, call, size, mae, r2):
    """Three runs of a size as siblings, two others' logged rates as plans, nothing else given."""
    folder = shared_data / "curves" / "multipowerlaw" / f"csv_{size}"
    siblings = [part for name in FITTED for part in ("--siblings", folder / f"{name}.csv")]
    scores, finals = [], []
    for name in ("cosine_72000", "wsdld_20000_24000"):
        code, out, _ = call("--schedule", folder / f"{name}.csv", *siblings, "--json")
        made = json.loads(out)["forecasts"][0]
        assert (code, made["method"], made["status"]) == (0, "multi-power law", "ok")
        log = pd.read_csv(folder / f"{name}.csv")
        miss = np.interp(log["step"], made["steps"], made["losses"]) - log["loss"]
        spread = np.sum((log["loss"] - log["loss"].mean()) ** 2)
        scores.append((np.abs(miss).mean(), 1 - np.sum(miss**2) / spread))
        finals.append(made["final_loss"] - log["loss"][log["step"] > 0.98 * log["step"].max()].mean())
    assert np.mean(scores, axis=0)[0] <= mae
    assert np.mean(scores, axis=0)[1] >= r2
    assert np.abs(finals).max() <= 0.02


@pytest.mark.parametrize(("size", "mae", "r2"), [(25, 0.0038, 0.9988), (100, 0.0044, 0.9983)])
def test_six_schedules_by_the_default_law(annealed, size, mae, r2):
    law = fit_law([annealed(size, name) for name in FITTED])
    scores = []
    for name in PREDICTED:
        curve = annealed(size, name)
        miss = law.along(curve.schedule, curve.step) - curve.loss
        spread = np.sum((curve.loss - curve.loss.mean()) ** 2)
        scores.append((np.abs(miss).mean(), 1 - np.sum(miss**2) / spread))
    assert np.mean(scores, axis=0)[0] <= mae
    assert np.mean(scores, axis=0)[1] >= r2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "other", "mae", "r2"), [(25, 100, 0.0038, 0.9988), (100, 25, 0.0044, 0.9983)]
)
def test_six_schedules_from_three_at_the_level_of_the_laws_authors(annealed, size, other, mae, r2):
    """The fading kappa is chosen on the other size's nine curves, never on the size that is scored."""
    shape = choose_shape([as_run(annealed(other, name)) for name in FITTED + PREDICTED])
    assert shape == DEFAULT
    fit = fit_multi_power([as_run(annealed(size, name)) for name in FITTED], shape=shape)
    plain = fit_multi_power([as_run(annealed(size, name)) for name in FITTED], shape=PUBLISHED)
    scores = {"chosen": [], "published": []}
    for name in PREDICTED:
        curve = annealed(size, name)
        run = drive(curve.plan(), curve.step)
        for key, law in (("chosen", fit), ("published", plain)):
            miss = law.losses(run) - curve.loss
            spread = np.sum((curve.loss - curve.loss.mean()) ** 2)
            scores[key].append((np.abs(miss).mean(), 1 - np.sum(miss**2) / spread))
    ours = np.mean(scores["chosen"], axis=0)
    assert ours[0] <= mae
    assert ours[1] >= r2
    assert np.mean(scores["published"], axis=0)[0] <= 0.0045  # the law as published, without kappa


@pytest.mark.calibration
@pytest.mark.parametrize("size", [25, 100])
@pytest.mark.parametrize("method", [MultiPower(), Tissue(), Auto()], ids=lambda m: m.name)
def test_long_cosine_from_its_first_third_and_short_finished_runs(annealed, size, method):
    run = annealed(size, "cosine_72000")
    siblings = [annealed(size, n) for n in ("cosine_24000", "constant_24000", "wsd_20000_24000")]
    made = forecast(method, run.seen(0.3 * 72000), siblings)
    assert abs(made.final - run.final_loss()) <= 0.02
    assert made.low < made.final < made.high
