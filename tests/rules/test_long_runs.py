"""A long log is judged part by part: with the same values, and in the memory of a few of its columns."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from toposcope.logs import glitches, run
from toposcope.rules import overfitting
from toposcope.rules.registry import assess
from toposcope.rules.replaying import Replays
from toposcope.statistics.alarms import residuals


def _series(seed: int, n: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    loss = np.exp(random.normal(0, random.choice([0.01, 0.3]), n)).round(3) + 1e-6
    for at in random.integers(0, n, 5):
        loss[at : at + random.integers(1, 6)] *= 10.0 ** random.integers(-2, 3)
    return loss


@pytest.mark.parametrize("seed", range(20))
def test_medians_and_glitches_are_those_of_the_whole_series(seed, monkeypatch):
    loss = _series(seed, 300 + seed)
    whole = glitches.glitches(loss), residuals.levels(loss, 8), glitches.medians_around(loss, 51, 26)
    monkeypatch.setattr(glitches, "_TOGETHER", 60 + seed)
    monkeypatch.setattr(residuals, "_TOGETHER", 60 + seed)
    in_parts = glitches.glitches(loss), residuals.levels(loss, 8), glitches.medians_around(loss, 51, 26)
    for one, other in zip(whole, in_parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(20))
def test_the_median_of_a_long_series_needs_no_copy_of_it(seed, monkeypatch):
    monkeypatch.setattr(glitches, "_TOGETHER", 50)
    loss = _series(seed, 3000 + seed)
    ties, lost = np.full(99, 2.5), np.append(loss, np.nan)
    for values in (loss, np.log(loss), loss.round(1), np.sort(loss), ties, lost):
        np.testing.assert_equal(glitches.median_of(values), np.median(values))
    random = np.random.default_rng(seed).normal(size=1_000_000)
    monkeypatch.undo()
    tracemalloc.start()
    try:
        median = glitches.median_of(random)
        assert tracemalloc.get_traced_memory()[1] < 0.6 * random.nbytes
    finally:
        tracemalloc.stop()
    assert median == np.median(random)


@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_level_is_that_of_the_whole_series(seed, monkeypatch):
    loss, window = _series(seed, 300 + seed), 3 + seed
    whole = residuals.lowest_level(loss, window)
    monkeypatch.setattr(residuals, "_TOGETHER", 7)
    assert residuals.lowest_level(loss, window) == whole


@pytest.mark.parametrize("seed", range(20))
def test_levels_are_the_medians_of_their_windows(seed, monkeypatch):
    monkeypatch.setattr(residuals, "_TOGETHER", 7)
    loss, window = _series(seed, 60), 1 + seed % 9
    windows = np.lib.stride_tricks.sliding_window_view(loss, window)
    np.testing.assert_array_equal(residuals.levels(loss, window), np.median(windows, axis=1))


@pytest.mark.parametrize("seed", range(10))
def test_a_sudden_fall_is_found_in_whichever_part_it_is(seed, monkeypatch):
    random = np.random.default_rng(seed)
    level = np.cumsum(random.normal(0, 0.01, 3000)) - 0.8 * (np.arange(3000) > random.integers(1000, 2900))
    whole = overfitting._sudden(level, 32)
    monkeypatch.setattr(overfitting, "_TOGETHER", 100 + seed)
    assert overfitting._sudden(level, 32) == whole


def test_the_hash_of_rows_tells_each_of_their_values(monkeypatch):
    monkeypatch.setattr(run, "_TOGETHER", 4)
    rows = pd.DataFrame({"step": range(10), "loss": 2.5})
    hashes = {run.digest(rows.assign(loss=rows["loss"].where(rows["step"] != at, 2.0))) for at in range(10)}
    assert len(hashes | {run.digest(rows)}) == 11
    assert run.digest(rows) == run.digest(rows.copy())


@pytest.mark.slow
def test_a_long_run_is_judged_in_the_memory_of_a_few_columns():
    count = 400_000
    random = np.random.default_rng(0)
    step = np.arange(1, count + 1)
    loss = 1.8 + 4 * (step + 50.0) ** -0.15 + random.normal(0, 0.03, count)
    rows = pd.DataFrame({"step": step, "loss": loss, "learning_rate": 3e-4 * (1 - 0.9 * step / count)})
    rows["grad_norm"] = 0.5 + 0.1 * random.random(count)
    rows["loss is nan"] = False
    tracemalloc.start()
    try:
        assert assess(rows) == ()
        judging = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        Replays()(rows)
        replaying = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # the blocks that are judged together take 12 MB besides
    assert judging < 12_000_000 + 3 * 8 * count
    assert replaying < 12_000_000 + 2 * 8 * count
