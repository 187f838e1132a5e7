from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from toposcope.core import lines
from toposcope.core.drawing import series
from toposcope.store.draws import over_draws
from toposcope.study.rows import null_band


def _rows(values):
    return pd.DataFrame(values, columns=["run", "step", "draw", "value"])


def test_runs_of_a_size_belong_together_smallest_first():
    runs = pd.DataFrame(
        {"run": ["b2", "a1", "b1", "x"], "family": "f", "parameters": [20_000, 1_000, 20_000, 0]}
    )
    groups = series.sizes(runs)
    assert [group.runs for group in groups] == [("x",), ("a1",), ("b1", "b2")]
    assert [group.label for group in groups] == ["x", "a1", "20K"]
    assert len({group.colour for group in groups}) == 3


def test_sizes_of_two_families_are_kept_apart():
    runs = pd.DataFrame({"run": list("abcd"), "family": ["f", "f", "g", "g"], "parameters": 1_000})
    assert [group.label for group in series.sizes(runs)] == ["f 1K", "g 1K"]


def test_the_interval_of_one_run_is_students_over_its_draws():
    values = [11.0, 12.0, 16.0]
    line = lines.curve(over_draws(_rows([("a", 0, i, v) for i, v in enumerate(values)])), ("a",))
    half = t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert line.loc[0, ["mean", "low", "high"]].tolist() == pytest.approx([13.0, 13.0 - half, 13.0 + half])
    assert line.loc[0, "draws"] == 3


@pytest.mark.parametrize("values", [[1.0, 2.0, 6.0], [0.0, 0.0, 3.0], [0.05, 0.1, 0.7]])
def test_the_interval_of_values_that_are_never_negative_stays_above_0(values):
    """Student's goes below 0 here; on the log scale it has the same width to first order, around the mean."""
    line = lines.curve(over_draws(_rows([("a", 0, i, v) for i, v in enumerate(values)])), ("a",)).iloc[0]
    half = t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert half > line["mean"] > line["low"] > 0
    assert np.log(line["high"] / line["mean"]) == pytest.approx(half / line["mean"])
    assert line["low"] * line["high"] == pytest.approx(line["mean"] ** 2)
    band = null_band(_rows([("a", 0, i, v) for i, v in enumerate(values)]), ("a",)).iloc[0]
    assert 0 < band["low"] < line["low"]


def test_values_of_both_signs_keep_students_interval_and_zeros_have_none_to_widen():
    line = lines.curve(
        over_draws(_rows([("a", 0, i, v) for i, v in enumerate([-1.0, 2.0, 6.0])])), ("a",)
    ).iloc[0]
    assert line["low"] < -1.0
    zeros = lines.curve(over_draws(_rows([("a", 0, i, 0.0) for i in range(3)])), ("a",)).iloc[0]
    assert (zeros["low"], zeros["mean"], zeros["high"]) == (0.0, 0.0, 0.0)


def _ragged():
    """Two runs at other levels; the second ends at step 10."""
    long = [("a", step, None, 60.0 + step) for step in (0, 10, 20)]
    return _rows([*long, ("b", 0, None, 40.0), ("b", 10, None, 44.0)])


def test_the_mean_stands_only_where_all_runs_are():
    line = lines.curve(over_draws(_ragged()), ("a", "b"))
    assert line[["step", "mean"]].to_numpy().tolist() == [[0.0, 50.0], [10.0, 57.0]]
    own = lines.run_lines(over_draws(_ragged()), ("a", "b", "unmeasured"))
    assert {run: list(found["step"]) for run, found in own.items()} == {"a": [0, 10, 20], "b": [0, 10]}
    assert lines.left_out_of_means(_ragged(), ("a", "b")) == {"b": 10}
    assert lines.curve(over_draws(_ragged()[lambda rows: rows["run"] == "a"]), ("a", "b"))[
        "step"
    ].tolist() == [0, 10, 20]


def test_the_null_of_a_size_stands_only_where_all_runs_and_draws_are():
    rows = [("a", step, draw, 60.0 + draw) for step in (0, 10) for draw in range(4)]
    rows += [("b", 0, draw, 40.0 + draw) for draw in range(3)]
    band = null_band(_rows(rows), ("a", "b"))
    assert band["step"].tolist() == [0]
    assert band["draws"].tolist() == [3]
    assert band["mean"].tolist() == [51.0]


def test_cells_are_averaged_over_runs_only_where_all_have_them():
    rows = _ragged().assign(name="w")
    other = _ragged()[lambda found: found["run"] == "a"].assign(name="only a")
    found = lines.at_shared_steps(over_draws(pd.concat([rows, other]), ["name", "run", "step"]), ["name"])
    assert found[found["name"] == "w"]["step"].tolist() == [0, 10]
    assert found[found["name"] == "only a"]["value"].tolist() == [60.0, 70.0, 80.0]


def test_the_interval_of_several_runs_is_over_seeds_not_draws():
    bases = (("a", 1.0), ("b", 3.0), ("c", 2.5))
    rows = _rows([(run, 0, draw, base + draw) for run, base in bases for draw in (0, 1)])
    line = lines.curve(over_draws(rows), ("a", "b", "c"))
    half = t.ppf(0.975, 2) * np.std([1.5, 3.5, 3.0], ddof=1) / np.sqrt(3)
    assert line.loc[0, ["mean", "high"]].tolist() == pytest.approx([8 / 3, 8 / 3 + half])
    assert line.loc[0, "seeds"] == 3


def test_two_seeds_have_no_interval():
    """Student's would go from -.54 to .74 here, of a neural persistence, which is never negative."""
    line = lines.curve(over_draws(_rows([("a", 0, 0, 0.05), ("b", 0, 0, 0.15)])), ("a", "b"))
    assert line.loc[0, "mean"] == pytest.approx(0.1)
    assert line[["low", "high"]].isna().all(axis=None)
    assert line.loc[0, "seeds"] == 2


def test_two_draws_have_no_interval_and_no_band():
    rows = _rows([("a", 0, 0, 0.1), ("a", 0, 1, 0.2)])
    for line in (lines.curve(over_draws(rows), ("a",)), null_band(rows, ("a",))):
        assert line[["low", "high"]].isna().all(axis=None)


def test_without_repeats_there_is_no_interval():
    line = lines.curve(over_draws(_rows([("a", 0, None, 1.0), ("a", 1, None, 2.0)])), ("a",))
    assert line["mean"].tolist() == [1.0, 2.0]
    assert line[["low", "high"]].isna().all(axis=None)


def test_the_null_band_holds_one_more_draw_as_often_as_it_says():
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(4000, 6))
    rows = _rows([("a", i, j, draws[i, j]) for i in range(4000) for j in range(5)])
    band = null_band(rows, ("a",))
    inside = (draws[:, 5] > band["low"]) & (draws[:, 5] < band["high"])
    assert abs(inside.mean() - 0.95) < 0.012


def test_held_out_loss_is_used_only_where_every_run_has_it():
    metrics = pd.DataFrame(
        {"run": ["a", "a", "b", "b"], "step": [0, 1] * 2, "loss": [4.0, 3.0, 4.0, 2.0],
         "heldout_loss": [5.0, 4.0, 5.0, 3.0]}
    )  # fmt: skip
    steps = pd.DataFrame({"run": ["a", "b"], "step": [1, 1]})
    table, kind = series.loss_at_checkpoints(metrics, steps)
    assert table["loss"].tolist() == [4.0, 3.0]
    assert kind.startswith("held-out")
    metrics.loc[metrics["run"] == "b", "heldout_loss"] = np.nan
    table, kind = series.loss_at_checkpoints(metrics, steps)
    assert table["loss"].tolist() == [3.0, 2.0]
    assert kind.startswith("minibatch")


def test_long_series_are_binned_without_moving_their_mean():
    steps = np.arange(5001)
    noisy = 3.0 + np.where(steps % 2, 0.5, -0.5)
    line = series.binned(steps, noisy)
    assert len(line) <= 220
    assert line["mean"].iloc[-50:].to_numpy() == pytest.approx(3.0, abs=0.05)
    assert (line["low"].iloc[-50:] == 2.5).all()
    assert (line["high"].iloc[-50:] == 3.5).all()


def test_short_series_are_drawn_as_they_are_and_gaps_are_left_out():
    line = series.binned(np.array([2, 0, 1]), np.array([3.0, 1.0, np.nan]))
    assert line["step"].tolist() == [0, 2]
    assert line["mean"].tolist() == [1.0, 3.0]


def test_a_size_is_called_by_its_runs_name_without_the_seed():
    runs = pd.DataFrame(
        {"run": ["tiny-seed1", "tiny-seed2", "large-seed1"], "family": "f", "parameters": [5, 5, 9]}
    )
    assert [group.label for group in series.sizes(runs)] == ["tiny", "large"]
