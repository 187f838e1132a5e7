"""The loss after a decay that starts now: a plan made from the log, and its forecast."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.errors import InputError
from toposcope.forecasting import constant, curve_from_metrics, stable_decay
from toposcope.forecasting.annealed import decayed

STEP = np.arange(20.0, 4001.0, 20.0)


def law(plan, step=STEP, size=1.0, seed=0):
    """Return losses that lower rates lower: 2 + A / sqrt(area) + what the rate of now costs."""
    noise = np.random.default_rng(seed).normal(0, 0.002, len(step))
    return (2 + size * 0.5 * plan.area(step) ** -0.5 + 100 * plan.at(step)) * np.exp(noise)


def log_of(plan, *, size=1.0, seed=0):
    step = STEP[plan.end >= STEP]
    return pd.DataFrame({"step": step, "loss": law(plan, step, size, seed), "learning_rate": plan.at(step)})


PEAK, DECAY = 1e-3, 800
FLAT = constant(peak=PEAK, steps=3200)
WHOLE = stable_decay(peak=PEAK, last=0.0, decay_from=3200, steps=4000, warmup=0, exponential=False)


def test_siblings_that_decayed_tell_what_a_decay_now_would_give():
    siblings = pd.concat(
        [log_of(WHOLE, size=size, seed=i).assign(run=f"s{i}") for i, size in enumerate((0.8, 0.9, 1.1, 1.2))]
    )
    truth = law(WHOLE)[STEP > 0.98 * 4000].mean()
    made = ts.forecast(log_of(FLAT, seed=9), siblings=siblings, annealed=DECAY, finished=False)
    (one,) = made.made
    assert (made.unfinished[0].horizon, one.status) == (4000, "ok")
    assert one.final == pytest.approx(truth, rel=0.005)
    assert one.low <= truth <= one.high
    kept = ts.forecast(log_of(FLAT, seed=9), schedule=constant(peak=PEAK, steps=4000)).made[0]
    assert one.final < kept.final - 0.05  # the decay is worth .1 of the loss


def test_alone_the_law_lends_what_a_decay_gives_and_says_so():
    made = ts.forecast(log_of(FLAT), annealed=DECAY).made[0]
    kept = ts.forecast(log_of(FLAT), schedule=constant(peak=PEAK, steps=4000)).made[0]
    assert made.final < kept.final
    assert "B and C come from published runs" in made.reason


def test_the_plan_is_what_was_logged_and_then_a_straight_line_to_nothing():
    run = decayed(curve_from_metrics("a", log_of(FLAT)), DECAY)
    assert (run.horizon, run.schedule.end) == (4000, 4000)
    assert run.schedule.at(np.array([1000, 3200, 3600, 4000])) == pytest.approx([PEAK, PEAK, PEAK / 2, 0])
    assert "from step 3,200 to step 4,000" in run.notes[-1]
    again = decayed(curve_from_metrics("b", log_of(WHOLE).iloc[:170], schedule=WHOLE), 600)
    assert again.schedule.at(np.array([3400])) == pytest.approx(WHOLE.at(np.array([3400])))
    assert again.schedule.end == 4000


@pytest.mark.parametrize(
    ("rows", "steps", "message"),
    [
        (log_of(FLAT).drop(columns="learning_rate"), DECAY, "needs its learning rate so far"),
        (log_of(WHOLE), DECAY, "already annealed"),
        (log_of(FLAT), 20, "give 67 steps or more"),
        (log_of(FLAT), 0, "annealed 0: not a finite number above 0; give one"),
    ],
)
def test_what_cannot_be_annealed_is_refused_with_its_remedy(rows, steps, message):
    with pytest.raises(InputError, match=message):
        ts.forecast(rows, annealed=steps)
    with pytest.raises(InputError, match="leave `horizon` and `schedule` out"):
        ts.forecast(rows, annealed=max(steps, 1), horizon=5000)


def test_the_command_forecasts_the_decay_and_says_what_it_assumed(call, tmp_path):
    log_of(FLAT).to_csv(tmp_path / "flat.csv", index=False)
    code, out, err = call(tmp_path / "flat.csv", "--annealed", DECAY)
    assert (code, out.split()[0]) == (0, "flat")
    assert "80% seen" in out.splitlines()[0]
    assert "flat: forecast as if its learning rate fell to 0 from step 3,200 to step 4,000" in err
    code, out, _ = call(tmp_path / "flat.csv", "--annealed", DECAY, "--json")
    assert json.loads(out)["forecasts"][0]["steps"][-1] == 4000
