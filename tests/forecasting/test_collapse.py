"""A run that leaves the curve on which its siblings fall is to be looked at; a healthy one is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from benchmarks.collapse_rates import drawn
from toposcope.runs.collapse import collapse_residual, comparable


def judged(factor: float) -> list[bool]:
    """Return whether each run of three drawn families is called, its last tenth at a factor."""
    found = []
    for number in range(3):
        group = drawn(number)
        for curve in group:
            seen = curve.seen(0.6 * curve.horizon)
            loss = np.where(seen.step > 0.45 * curve.horizon, factor, 1.0) * seen.loss
            found.append(collapse_residual(replace(seen, loss=loss), group).off)
    return found


def test_healthy_runs_of_all_sizes_stay_and_hurt_ones_leave():
    assert np.mean(judged(1.0)) < 0.15
    assert np.mean(judged(1.1)) > 0.85


def test_only_runs_of_one_schedule_and_one_ratio_of_tokens_are_compared():
    one, other, *_ = drawn(0)
    assert comparable(one, other)
    assert not comparable(one, replace(other, covariates={"tokens_per_step": 1e7}))
    flat = replace(other, schedule=None, rate=np.full(len(other.rate), 1e-3))
    assert not comparable(one, flat)
    assert not comparable(one, other.seen(0.5 * other.horizon))
    assert collapse_residual(one.seen(0.5 * one.horizon), [other]) is None


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "all right"), (1.08, "look")])
def test_check_and_forecast_say_one_thing_of_a_run_and_its_siblings(factor, verdict):
    step = np.arange(1, 401)

    def table(seed: int, last: int = 400, end: float = 1.0) -> pd.DataFrame:
        noise = np.random.default_rng(seed).standard_normal(400)
        ramp = np.interp(step, [160, 240], [1.0, end])
        loss = (2 + 5 * step**-0.5) * (1 + seed / 100) * np.exp(0.003 * noise) * ramp
        return pd.DataFrame({"run": f"s{seed}", "step": step, "loss": loss})[:last]

    siblings = pd.concat([table(seed) for seed in range(6)])
    mine = table(9, 240, factor)
    made = ts.forecast(mine, siblings=siblings, horizon=400)
    (checked,) = ts.check(mine, siblings=siblings, horizon=400).runs
    kinds = [[one.kind for one in found] for found in (checked.judgement.grounds, made.grounds.get("s9", ()))]
    assert (checked.level, made.verdict, kinds[0]) == (verdict, verdict, kinds[1])
    assert ("off its siblings" in kinds[0]) == (verdict == "look")
