"""A replay takes most rows of a log at once; its signals are those of the rows one by one, bit for bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.logs.metrics import tidy
from toposcope.rules.registry import family
from toposcope.rules.replaying import arrays_of, followers, replay, rows_of, signals_of
from toposcope.rules.rule import Rule
from toposcope.statistics.alarms.residuals import OneStepAhead, levels, lowest_level


def broken_log(seed: int, n: int = 1500) -> pd.DataFrame:
    """Return a log with spikes, drifts, gaps, infinities and evaluations; odd seeds have heavy tails."""
    random = np.random.default_rng(seed)
    step = np.arange(1, n + 1)
    tail = random.standard_t(2, (2, n)) if seed % 2 else random.standard_normal((2, n))
    loss = (2 + 5 / np.sqrt(step)) * np.exp(0.05 * tail[0])
    norm = np.exp(0.3 * tail[1])
    for at in random.integers(40, n, 12):
        length = int(random.integers(1, 60))
        column = (loss, norm)[int(random.integers(2))]
        near = column[at : at + length].copy()
        faults = (3 * near, 1e3 * near, np.nan, np.inf, 0.0, near * (1 + 0.01 * np.arange(len(near))))
        column[at : at + length] = faults[int(random.integers(len(faults)))]
    rows = pd.DataFrame({"step": step, "loss": loss, "grad_norm": norm, "learning_rate": 1e-3})
    rows["heldout_loss"] = np.where(step % 50 == 0, 2.0, np.nan)
    rows.loc[step % 100 == 0, ["loss", "grad_norm", "learning_rate"]] = np.nan
    return tidy(rows, "run")


def row_by_row(rule: Rule, table: pd.DataFrame) -> list[tuple[int, object]]:
    return [(place, one) for place, row in enumerate(rows_of(table)) for one in rule.on_row(row)]


@pytest.mark.parametrize("seed", range(12))
def test_the_signals_are_those_of_the_rows_one_by_one(seed):
    table, heard = broken_log(seed), []
    for at_once, slowly in zip(followers(family()), followers(family()), strict=True):
        signals = list(signals_of(at_once, arrays_of(table)))
        assert signals == row_by_row(slowly, table), at_once.name
        assert at_once.spending == slowly.spending
        heard += signals
    assert heard


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_after_a_replay_give_the_same_signals_too(seed):
    table, cut = broken_log(seed), 700
    for at_once, slowly in zip(followers(family()), followers(family()), strict=True):
        list(signals_of(at_once, arrays_of(table[:cut])))
        row_by_row(slowly, table[:cut])
        later = table[cut:].reset_index(drop=True)
        assert row_by_row(at_once, later) == row_by_row(slowly, later)


def test_a_replay_walks_few_rows_of_a_quiet_log(monkeypatch):
    walked = dict.fromkeys((type(rule) for rule in followers(family())), 0)

    def counting(rule, on_row):
        def counted(self, row):
            walked[rule] += 1
            return on_row(self, row)

        return counted

    for rule in walked:
        monkeypatch.setattr(rule, "on_row", counting(rule, rule.on_row))
    n = 50_000
    step, random = np.arange(1, n + 1), np.random.default_rng(0)
    loss = 2 + 5 / np.sqrt(step) + 0.02 * random.standard_normal(n)
    assert (
        replay(pd.DataFrame({"step": step, "loss": loss, "grad_norm": np.exp(random.normal(0, 0.1, n))}))
        == []
    )
    assert 0 < max(walked.values()) < n / 100


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.05, 1.0]), st.sampled_from([1e-7, 1e-3, 0.1, 0.4]))
@settings(max_examples=30, deadline=None)
def test_a_series_is_left_as_one_by_one_would_leave_it(seed, floor, level):
    values = np.random.default_rng(seed).standard_t(3, 600)
    at_once, slowly = (OneStepAhead(floor=floor) for _ in range(2))
    place = 0
    while place < len(values):
        taken = at_once.pass_over(values[place : place + 100], level)
        for value in values[place : place + taken].tolist():
            residual = slowly.update(value)
            assert residual.p > level
        place += taken
        if place < len(values):
            assert at_once.update(float(values[place])) == slowly.update(float(values[place]))
            place += 1


@given(st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=60), st.data())
@settings(max_examples=200, deadline=None)
def test_the_lowest_level_is_the_first_lowest_median(values, data):
    series = np.array(values)
    window = data.draw(st.integers(1, len(values)))
    medians = levels(series, window)
    assert lowest_level(series, window) == (int(medians.argmin()), medians.min())
