"""A spike or a dip is one thing, wherever it is: `check`, the page and `forecast` name the same losses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.forecasting import curve_from_metrics
from toposcope.logs.glitches import glitches

STEP = np.arange(1, 161)


def falling(seed: int = 0) -> np.ndarray:
    return (2.0 + 5.0 * STEP**-0.5) * np.exp(0.01 * np.random.default_rng(seed).standard_normal(len(STEP)))


PLACES = [(2, 1), *((at, width) for at in (3, 5, 6, 7, 8, 12, 60, 150) for width in (1, 3))]


@pytest.mark.parametrize("factor", [0.4, 1.5, 3.0])
def test_the_losses_left_out_are_those_that_were_planted(factor: float) -> None:
    """Of three wrong losses after the third one, others were left out: sound ones, as a dip."""
    for at, width in PLACES:
        loss = falling()
        loss[at : at + width] *= factor
        assert np.flatnonzero(glitches(loss)).tolist() == list(range(at, at + width)), (at, width)


@pytest.mark.parametrize(("at", "width"), [(2, 3), (3, 3), (5, 1), (5, 3), (8, 1), (8, 3), (60, 3), (150, 1)])
@pytest.mark.parametrize(("factor", "kind"), [(3.0, "loss spike"), (0.4, "loss dip")])
def test_check_page_and_forecast_agree_on_a_spike(at: int, width: int, factor: float, kind: str) -> None:
    loss = falling()
    loss[at : at + width] *= factor
    table = pd.DataFrame({"step": STEP, "loss": loss})
    run = ts.check(table, horizon=400).runs[0]
    assert run.level == "all right"
    assert [(one.kind, one.step) for one in run.judgement.noticed] == [(kind, at + 1)]
    (note,) = curve_from_metrics("a", table).notes
    assert note.count("at step") == width
    assert all(f"at step {step}" in note for step in range(at + 1, at + width + 1))
    passed = ts.analyze(table.assign(run="a")).findings["on"].numbers["passed"]
    assert [(one["kind"], one["step"]) for one in passed] == [(kind, at + 1)]


def test_a_steep_beginning_is_no_glitch() -> None:
    """Of 572 logs of parameter_golf, which fall from 7 to 3 in ten losses, 193 had a glitch there."""
    for start in (7.0, 11.0):
        step = np.arange(1, 61) * 25.0
        for seed in range(20):
            noise = 0.02 * np.random.default_rng(seed).standard_normal(60)
            loss = (2.3 + (start - 2.3) * np.exp(-step / 40.0) + 8.0 * step**-0.6) * np.exp(noise)
            assert not glitches(loss)[:12].any()
