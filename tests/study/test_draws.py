"""One average over draws: the table, the figures, the null's verdict, forecasts and targets agree."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from toposcope.study import series_table
from toposcope.study.finals import finals_table
from toposcope.study.findings.changed import _beside
from toposcope.study.forecasts.gather import feature_columns
from toposcope.study.net_change import draw_noise, first_last
from toposcope.study.targets import own_targets
from toposcope.subjects.weights.compare import KEY, _differences
from toposcope.subjects.weights.features import H0_TOTAL
from toposcope.subjects.weights.figures import vietoris_rips

COLUMN = "rips/euclidean/pooled/h0_total"
RUNS = pd.DataFrame({"run": ["a"], "family": "f", "parameters": [1_000]})


def rows(last=("subsampled",) * 5, values=(1.9, 3.0, 2.66, 9.0, 9.0)) -> pd.DataFrame:
    """Return five draws at two steps; at the last one with these statuses and values."""
    at = {"run": "a", "probe": "rips", "scope": "pooled", "name": "pooled", "role": "model", "layer": None,
          "filtration": "euclidean", "feature": "h0_total", "draw": [*range(5)], "note": ""}  # fmt: skip
    first = pd.DataFrame({**at, "step": 0, "value": [1.0, 1.2, 1.1, 0.9, 1.3], "status": "subsampled"})
    return pd.concat([first, pd.DataFrame({**at, "step": 100, "value": values, "status": list(last)})])


def final(features: pd.DataFrame) -> pd.Series:
    return finals_table(series_table(features, runs=RUNS), [COLUMN]).iloc[0]


def drawn(features: pd.DataFrame) -> tuple[float, float, float]:
    """Return mean, low and high at the last step, as the figure shows them."""
    (ax,) = vietoris_rips.draw(features, RUNS, shown=(H0_TOTAL,)).axes
    band = ax.collections[0].get_paths()[0].vertices
    heights = band[band[:, 0] == 100, 1]
    (line,) = (one for one in ax.lines if one.get_gid() == "run a")
    return float(line.get_ydata()[-1]), float(heights.min()), float(heights.max())


FAILED = ("subsampled",) * 3 + ("failed",) * 2
DEGENERATE = ("subsampled",) * 4 + ("degenerate",)


def test_an_interval_counts_the_draws_that_gave_a_value():
    line = final(rows(FAILED, (1.9, 3.0, 2.66, np.nan, np.nan)))
    half = t.ppf(0.975, 2) * np.std([1.9, 3.0, 2.66], ddof=1) / np.sqrt(3)
    assert line[["value", "low", "high"]].tolist() == pytest.approx([2.52, 2.52 - half, 2.52 + half])


@pytest.mark.parametrize(
    "last", [("subsampled",) * 5, FAILED, DEGENERATE], ids=["all", "failed", "degenerate"]
)
def test_the_table_and_the_figure_have_one_mean_and_one_interval(last):
    features = rows(last, (2.0, 3.0, 2.5, 2.2, 2.8) if last[4] != "degenerate" else (2.0, 3.0, 2.5, 2.2, 900))
    assert final(features)[["value", "low", "high"]].tolist() == pytest.approx(drawn(features))


def test_the_noise_of_a_change_counts_the_draws_that_gave_a_value():
    table = series_table(rows(FAILED, (1.9, 3.0, 2.66, np.nan, np.nan)))
    first, last = np.var([1.0, 1.2, 1.1, 0.9, 1.3], ddof=1) / 5, np.var([1.9, 3.0, 2.66], ddof=1) / 3
    noise = draw_noise(table, COLUMN, first_last(table, COLUMN))
    assert noise.tolist() == pytest.approx([np.sqrt(first + last)])


def test_the_catalogue_counts_the_draws_that_gave_a_value():
    features = rows(FAILED, (1.9, 3.0, 2.66, np.nan, np.nan))
    assert series_table(features).catalogue["draws"].tolist() == [5]
    assert series_table(features[features["step"] == 100]).catalogue["draws"].tolist() == [3]


def test_what_has_no_meaning_decides_no_comparison_with_a_null():
    measured = rows(DEGENERATE, (2.0, 2.1, 2.2, 2.3, 900.0))
    null = measured.assign(value=[2.5, 2.6, 2.7, 2.8, 2.9] * 2)
    study = SimpleNamespace(sizes=[SimpleNamespace(runs=("a",))], labels=SimpleNamespace(label=str))
    found = _beside(study, COLUMN, measured, null)
    assert (found.above, found.below) == (0, 1)
    assert found.ratio == pytest.approx(2.15 / 2.65)


def test_a_cloud_that_was_not_subsampled_is_no_draw_of_the_others():
    every = rows().assign(run="b")
    whole = every[every["draw"] == 0].assign(run="a", draw=None, status="ok")
    both = pd.concat([whole, every])
    assert series_table(both).catalogue["draws"].tolist() == [5]
    of_both, alone = (finals_table(series_table(one), [COLUMN]).iloc[-1] for one in (both, every))
    assert of_both[["low", "high"]].tolist() == alone[["low", "high"]].tolist()


def test_a_forecast_reads_the_value_of_the_table():
    features = rows(DEGENERATE, (2.0, 3.0, 2.5, 2.2, 900.0))
    infinite = rows(DEGENERATE, (2.0, 3.0, np.inf, 2.2, 900.0))
    for one in (features, infinite):
        made = feature_columns(one, None)
        assert made["h0_total"].tolist() == series_table(one).values[COLUMN].tolist()


def test_a_target_leaves_out_what_has_no_meaning():
    target = pd.DataFrame({
        "run": "a", "step": [0, 0, 10], "probe": "representations", "name": "model", "feature": "perplexity",
        "layer": None, "draw": [0, 1, 0], "value": [np.e, 1e9, np.e],
        "status": ["ok", "degenerate", "failed"],
    })  # fmt: skip
    assert own_targets(target)[["step", "target", "value"]].to_numpy().tolist() == [
        [0, "log_perplexity", 1.0]
    ]


def test_a_difference_of_two_checkpoints_counts_the_draws_that_gave_one():
    def side(values, statuses):
        line = dict.fromkeys(KEY, "x") | {"layer": pd.array([None] * 4, "Int64"), "status": statuses}
        return pd.DataFrame({**line, "draw": pd.array(range(4), "Int64"), "value": values})

    ok = ["subsampled"] * 4
    one = side([1.0, 2.0, 3.0, np.nan], [*ok[:3], "failed"])
    other = side([2.0, 4.0, 50.0, 6.0], [*ok[:2], "degenerate", "subsampled"])
    line = _differences(one, other).iloc[0]
    assert (line["difference"], line["draws"], line["status"]) == (1.5, 2, "ok")
    assert (line["first"], line["second"]) == (2.0, 4.0)
    assert line["standard_error"] == pytest.approx(np.sqrt(0.5) / np.sqrt(2))
