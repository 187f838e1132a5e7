"""Tests of the rule of a learning rate that has ended."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.rules.registry import assess
from toposcope.rules.rule import LOOK, STOP

STEP = np.arange(1, 401)
LOSS = 2 + 5 / np.sqrt(STEP) + 0.01 * np.random.default_rng(7).standard_normal(400)


def log(rate: np.ndarray) -> pd.DataFrame:
    """Return a healthy log with a learning rate."""
    return pd.DataFrame({"step": STEP, "loss": LOSS, "learning_rate": rate})


def cosine(end: int) -> np.ndarray:
    """Return a rate that falls to 0 at a step and stays there."""
    return 5e-4 * (1 + np.cos(np.pi * np.minimum(STEP / end, 1)))


def levels(rate: np.ndarray, **how: object) -> list[str]:
    """Return the levels of what is said of a rate."""
    return [one.level for one in assess(log(rate), **how) if one.kind == "rate ended"]


@pytest.mark.parametrize("rate", [cosine(360), np.where(STEP > 370, 0.0, 3e-4)], ids=["decayed", "cut"])
def test_a_rate_of_zero_in_the_last_rows_of_a_finished_log_is_looked_at(rate):
    assert levels(rate, horizon=400) == [LOOK]
    (run,) = ts.check(log(rate)).runs
    (ground,) = run.judgement.grounds
    assert (ground.kind, ground.level) == ("rate ended", LOOK)
    assert f"in the last {int((rate == 0).sum()):,} rows" in ground.sentence


@pytest.mark.parametrize(
    "rate",
    [cosine(400), cosine(385), np.round(cosine(400), 4), np.round(cosine(420), 3), np.full(400, 3e-4)],
    ids=["to its last row", "within 5% of the rows", "written with four digits", "with three", "constant"],
)
def test_a_rate_that_decays_to_the_end_of_its_log_is_all_right(rate):
    assert levels(rate, horizon=400) == []


def test_a_rate_that_has_ended_before_the_planned_end_is_a_stop():
    assert levels(cosine(360), horizon=1000) == [STOP]
