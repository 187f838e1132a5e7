"""A column has moved where its ends lie further apart than neighbouring values scatter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.study.net_change import beyond_scatter
from toposcope.study.table import SeriesTable

STEPS = np.arange(50, 50 * 62, 50)


def said_to_move(values: np.ndarray) -> bool:
    rows = pd.DataFrame({"run": "one", "step": np.arange(len(values)), "mine": values})
    return beyond_scatter(SeriesTable(rows, rows, pd.DataFrame(), ()), "mine", "one")


@pytest.mark.calibration
@pytest.mark.parametrize("n", [6, 12, 61, 300])
def test_pure_noise_is_said_to_move_in_one_of_twenty(n):
    draws = np.random.default_rng(n).standard_normal((2000, n))
    rate = np.mean([said_to_move(1.3 + 0.05 * one) for one in draws])
    assert 0.015 < rate < 0.065  # 5% is stated; standard error .5 points


@pytest.mark.parametrize("n", [6, 12, 61, 300])
def test_a_move_of_five_times_the_noise_is_seen(n):
    draws = np.random.default_rng(n).standard_normal((200, n)) + 5.0 * np.linspace(0, 1, n)
    assert np.mean([said_to_move(one) for one in draws]) > (0.5 if n == 6 else 0.9)


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(3, 2, 6), 0.5 ** np.arange(8), np.log(STEPS), np.r_[np.zeros(20), np.ones(20)],
        np.random.default_rng(0).standard_normal(60) * 0.01 + STEPS[:60] ** -0.3,
    ],
)  # fmt: skip
def test_what_moves_without_noise_has_moved(values):
    assert said_to_move(values)


def test_two_to_five_values_are_not_judged_by_their_scatter():
    assert said_to_move(np.array([1.0, 1.1]))
    assert not said_to_move(np.array([1.0, 1.1, 1.0, 1.1, 1.0, 1.05]))


@pytest.mark.parametrize(("rise", "word"), [(0.0, "shows no clear trend"), (1.0, "rose")])
def test_a_tables_noise_is_not_said_to_have_risen(rise, word):
    draw = np.random.default_rng(77)
    loss = 4.0 * STEPS**-0.18 + 1.0 + 0.01 * draw.standard_normal(61)
    norm = 1.3 + 0.05 * draw.standard_normal(61) + rise * np.linspace(0, 1, 61)
    table = pd.DataFrame({"step": STEPS, "loss": loss, "grad_norm": norm})
    findings = ts.analyze(table).studies[0].findings
    assert f"grad_norm {word}" in findings.said(findings["changed"]).act


@pytest.mark.parametrize(("last", "said"), [(600, True), (STEPS[-1], False)])
def test_ends_at_different_steps_are_said_to_be(last, said):
    draw = np.random.default_rng(5)
    tables = []
    for run, end in (("a", STEPS[-1]), ("b", last)):
        step = STEPS[end >= STEPS]
        loss = 1.0 + 4.0 * step**-0.18 + 0.01 * draw.standard_normal(len(step))
        tables.append(
            pd.DataFrame({"run": run, "step": step, "loss": loss, "mine": draw.standard_normal(len(step))})
        )
    findings = ts.analyze(pd.concat(tables)).studies[0].findings
    text = findings.said(findings["changed"]).act
    assert ("at the runs' last steps, 600-3,050" in text.replace("\u2013", "-")) is said
