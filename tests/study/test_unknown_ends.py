"""A log that states no last step, and whose learning rate is still high at its end, may go on."""

from __future__ import annotations

import numpy as np
import pandas as pd

import toposcope as ts

STEP = np.arange(10, 2001, 10)


def answer(last_share: float) -> str:
    """Return the first screen of a run whose cosine has come to a share of its steps."""
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(STEP))
    whole = STEP[-1] / last_share
    rate = 1e-3 * np.minimum(STEP / 200, 1) * 0.5 * (1 + np.cos(np.pi * STEP / whole))
    table = pd.DataFrame({"step": STEP, "loss": 2.2 + 6 * (STEP + 50.0) ** -0.35 + noise, "lr": rate})
    return " ".join(repr(ts.analyze(table)).split())


def test_a_run_that_may_go_on_has_no_fault_so_far():
    said = answer(0.4)
    assert "no fault so far" in said
    assert "last step is unknown" in said
    assert "trained without a fault" not in said
    assert "fell to the end of the log" in said


def test_a_run_whose_rate_has_come_down_trained_without_a_fault():
    said = answer(1.0)
    assert "trained without a fault" in said
    assert "unknown" not in said
