"""A run beyond the sizes of its siblings: its interval is tested as it is used."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from toposcope.forecasting import Curve, curve_from_metrics, forecast
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.plain_law import PlainLaw
from toposcope.forecasting.siblings import MeanFall

STEP = np.arange(10.0, 2001.0, 10.0)
SIZES = (1e6, 2e6, 4e6, 8e6, 16e6, 32e6, 64e6)


def run_of(size, seed, bend=1.0, power=2.0):
    """Return a run whose later fall grows with its size: smaller ones do not tell it."""
    late = 0.05 * bend * (math.log2(size / 1e6) / 3) ** power * np.log1p(STEP / 400)
    noise = np.random.default_rng(seed).normal(0, 0.002, len(STEP))
    loss = (2 + 8 * size**-0.1 * STEP**-0.3 - late) * np.exp(noise)
    return curve_from_metrics(f"n{size:g}", pd.DataFrame({"step": STEP, "loss": loss}), parameters=int(size))


def half(made):
    return math.log(made.high / made.final)


def added(method, curves, share, ahead):
    """Return what an extrapolation adds, by hand: each larger run forecast from the smaller ones alone."""
    squares, distances = 0.0, 0.0
    for i in range(3, len(curves)):
        point = method.fit(curves[:i], share).predict(curves[i].seen(share * curves[i].horizon))
        squares += math.log(curves[i].final_loss() / point.final) ** 2
        distances += abs(math.log(curves[i].parameters / curves[i - 1].parameters))
    return math.sqrt(squares / distances * ahead)


def unsized(curves):
    """Return runs of unknown size: nothing tells that a run is beyond them."""
    return [replace(curve, parameters=0) for curve in curves]


@pytest.fixture(scope="module")
def ladder():
    return [run_of(size, i) for i, size in enumerate(SIZES)]


@pytest.mark.parametrize("order", [1, -1])
def test_the_interval_of_a_run_beyond_its_siblings_gains_what_they_show(ladder, order):
    *known, last = ladder[::order]
    made = forecast(MeanFall(), last.seen(600), known)
    plain = forecast(MeanFall(), last.seen(600), unsized(known))
    assert half(made) ** 2 == pytest.approx(
        half(plain) ** 2 + added(MeanFall(), known, 0.3, math.log(2)) ** 2
    )
    assert half(made) > 1.1 * half(plain)
    assert made.status == "ok"
    assert made.reason.startswith(
        f"the run is {'larger' if order > 0 else 'smaller'} than all its siblings by a factor of 2"
    )
    assert "than all its siblings" not in plain.reason


def test_the_gain_grows_with_the_distance_and_with_the_level(ladder):
    near, far = (forecast(MeanFall(), run.seen(600), ladder[:5]) for run in ladder[5:])
    plain = [forecast(MeanFall(), run.seen(600), unsized(ladder[:5])) for run in ladder[5:]]
    gains = [half(made) ** 2 - half(alone) ** 2 for made, alone in zip((near, far), plain, strict=True)]
    assert gains[1] == pytest.approx(2 * gains[0])
    at_half = forecast(MeanFall(), ladder[6].seen(600), ladder[:5], level=0.5)
    assert half(at_half) < half(far)


def test_a_run_between_its_siblings_keeps_its_width(ladder):
    middle, others = ladder[3], [*ladder[:3], *ladder[4:]]
    made, plain = (forecast(MeanFall(), middle.seen(600), known) for known in (others, unsized(others)))
    assert (made.low, made.high) == (plain.low, plain.high)
    assert "than all its siblings" not in made.reason


def test_larger_runs_that_fall_ever_faster_are_held_more_often():
    """Forty ladders whose falls bend with size: forecasts from smaller runs are off, all one way."""
    held, plain = [], []
    for seed in range(40):
        curves = [run_of(size, [seed, i], bend=0.6, power=1.5) for i, size in enumerate(SIZES)]
        *known, last = curves
        for found, siblings in ((held, known), (plain, unsized(known))):
            made = forecast(MeanFall(), last.seen(600), siblings)
            found.append(made.low <= last.final_loss() <= made.high)
    assert np.mean(held) >= np.mean(plain) + 0.2


@pytest.mark.parametrize("law", [True, False])
def test_the_largest_run_is_forecast_by_the_plain_law_where_its_siblings_followed_it(law):
    step = np.arange(50.0, 20_001.0, 50.0)
    curves = []
    for size in (1, 2, 4, 8, 16):
        floor, height = 2 + size**-0.3, 10 * size**-0.1
        fall = height * step**-0.5 if law else np.where(step > 14_000, 0.5, 1.0) * (1 + 0.2 * size)
        noise = np.random.default_rng(size).normal(0, 1e-3, len(step))
        loss = (floor + fall) * np.exp(noise)
        curves.append(
            Curve(str(size), step, loss, np.full(len(step), np.nan), 20_000, parameters=size * 10**6)
        )
    seen = curves[-1].planned().seen(4000)
    made = forecast(Auto.without_laws(), seen, curves[:-1])
    actual = curves[-1].final_loss()
    own = PlainLaw().predict(seen).final
    weights = dict(made.used)
    if law:  # as exact on the siblings as the families of curves, far more than the loss that it has now
        assert weights["plain law"] > 1000 * weights["last value"]
        assert abs(made.final / actual - 1) < 0.001
    else:  # a drop that the law cannot know of: its errors on the siblings take its weight
        assert weights.get("plain law", 0.0) < 0.05
        assert abs(made.final / actual - 1) < 0.5 * abs(own / actual - 1)
