"""A logged rate that has begun to fall shows the rest of its plan."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.forecasting import constant, cosine, curve_from_metrics, forecast
from toposcope.forecasting._begun_decay import continued
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.plain_law import PlainLaw, counted_by_rate
from toposcope.logs.schedule import Schedule

STEPS = 6000
STEP = np.arange(40.0, STEPS + 1, 40.0)


def line(last=0.0, end=STEPS):
    return Schedule(np.array([0.0, 200.0, end]), 1e-3 * np.array([0.0, 1.0, last]))


def half_cosine(last=0.0, end=STEPS):
    return cosine(peak=1e-3, last=1e-3 * last, steps=end, warmup=200)


def trained(plan, seed=0, gain=0.02, noise=0.005):
    """Return a run whose loss falls with the sum of its rates, and by `gain` as its rate goes to 0."""
    g = np.random.default_rng(seed)
    whole = plan.area(STEP) / plan.area(np.array([float(STEPS)]))[0]
    loss = 1.5 + 0.15 * (whole + 0.002) ** -0.45 - 1.5 * gain * (1 - plan.at(STEP) / plan.peak)
    rate = [float(f"{one:.3g}") for one in plan.at(STEP)]  # as it is printed
    table = {"step": STEP, "loss": loss * np.exp(g.normal(0, noise, len(STEP))), "learning_rate": rate}
    return curve_from_metrics("a", pd.DataFrame(table))


@pytest.mark.parametrize("shape", [line, half_cosine])
@pytest.mark.parametrize("last", [0.0, 0.1])
@pytest.mark.parametrize("cut", [0.3, 0.6])
def test_a_decay_is_read_from_the_rate_so_far(shape, last, cut):
    plan = shape(last)
    found = continued(trained(plan).seen(cut * STEPS))
    assert found is not None
    assert found.end == STEPS
    assert np.abs(found.at(STEP) - plan.at(STEP)).max() < 2.5e-5


@pytest.mark.parametrize(
    "plan",
    [
        constant(peak=1e-3, steps=STEPS, warmup=200),
        line(end=4000),  # at 0 before the run's end
        half_cosine(end=2 * STEPS),  # the plan of a longer run
        Schedule(np.append(0.0, STEP), np.append(0.0, 1e-2 * (STEP + 100) ** -0.5)),
        Schedule(np.append(0.0, STEP), np.append(0.0, 1e-3 * np.exp(-3 * STEP / STEPS))),
        Schedule(np.array([0, 1499, 1500, STEPS]), 1e-3 * np.array([1, 1, 0.5, 0.5])),
    ],
    ids=["constant", "ends early", "longer", "root", "exponential", "step"],
)
def test_no_decay_is_read_from_a_rate_of_another_shape(plan):
    assert continued(trained(plan).seen(0.4 * STEPS)) is None


def test_a_run_that_shows_its_decay_is_forecast_by_it_and_says_so():
    """Its final loss was above the interval: all steps ahead counted alike."""
    held = []
    for seed in range(12):
        run = trained(half_cosine(), seed, gain=0.05 * seed / 11)
        made = forecast(Auto(), run.seen(0.5 * STEPS))
        assert made.status == "ok"
        held.append(made.low <= run.final_loss() <= made.high)
    assert sum(held) >= 10
    assert made.reason.startswith(
        "its learning rate falls, and is taken to fall on to 0% of its peak at its end"
    )


def test_the_upper_end_allows_that_a_planned_decay_gains_no_more():
    run = trained(half_cosine(), gain=0.0)
    seen = run.planned().seen(0.4 * STEPS)
    made, counted = forecast(Auto(), seen), PlainLaw().predict(counted_by_rate(seen))
    assert made.final < counted.final < made.high
    assert made.low <= run.final_loss() <= made.high
    assert made.curve_high[-1] == pytest.approx(made.high, rel=0.01)
