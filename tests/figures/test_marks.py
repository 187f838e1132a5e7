"""Marks on curves and the bars of a cloud, by the data that they draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from toposcope.core.drawing import barcode, loss_curves
from toposcope.core.drawing.marks import bends_of, mark_bends
from toposcope.core.drawing.style import new_figure
from toposcope.study import from_frame, segment_table
from toposcope.subjects.weights.figures import neural_persistence, vietoris_rips
from toposcope.subjects.weights.figures.neural_persistence import Persistences
from toposcope.subjects.weights.figures.snapshot import at_the_end

SEGMENTS = pd.DataFrame(
    {
        "run": ["a", "a", "b"],
        "column": ["x", "x", "x"],
        "segment": [0, 1, 0],
        "start_step": [0, 50, 0],
        "start_low": [np.nan, 40, np.nan],
        "start_high": [np.nan, 70, np.nan],
    }
)


def test_only_the_starts_of_later_segments_are_changepoints() -> None:
    assert bends_of(SEGMENTS, "x").to_dict("records") == [
        {"run": "a", "start_step": 50.0, "start_low": 40.0, "start_high": 70.0}
    ]
    assert bends_of(SEGMENTS, "y").empty
    assert bends_of(pd.DataFrame(), "x").empty


def test_a_planted_kink_that_the_analysis_finds_is_marked() -> None:
    steps = np.arange(0, 5100, 100)
    noise = 0.008 * np.random.default_rng(2).standard_normal(51)
    kinked = np.log(np.maximum(steps, 1500) / 1500) + noise
    table = segment_table(
        from_frame(pd.DataFrame({"run": "a", "step": steps, "loss": 1 / (steps + 100), "x": kinked}))
    )
    assert table.loc[table["column"] == "x", "segment"].tolist() == [0, 1]
    [mark] = bends_of(table, "x").to_dict("records")
    assert mark["start_low"] <= 1500 <= mark["start_high"]


def test_a_changepoint_stands_on_its_curve_with_its_interval() -> None:
    ax = new_figure(2.0)[1][0, 0]
    line = pd.DataFrame({"step": [0, 100], "mean": [1.0, 3.0]})
    mark_bends(ax, line, bends_of(SEGMENTS, "x"), ["a", "b"], "red")
    interval, mark = (drawn.get_xydata().tolist() for drawn in ax.lines)
    assert interval == [[40.0, 2.0], [70.0, 2.0]]
    assert mark == [[50.0, 2.0]]
    mark_bends(ax, line, bends_of(SEGMENTS, "x"), ["b"], "red")
    assert len(ax.lines) == 2


def test_an_ill_log_is_marked_where_it_fell_ill() -> None:
    metrics = pd.DataFrame({"run": "a", "step": range(10), "loss": 2.0, "heldout_loss": np.nan})
    runs = pd.DataFrame({"run": ["a"], "family": [""], "parameters": [0]})
    figure = loss_curves.draw(metrics, runs, symptoms={"a": [("diverging", 7.0)]})
    marks = [line for line in figure.axes[0].lines if line.get_gid() == "alarm a"]
    assert [line.get_xdata() for line in marks] == [[7.0, 7.0]]
    assert [text.get_text() for text in figure.axes[0].texts if text.get_text() == "diverging"] == [
        "diverging"
    ]


@pytest.fixture
def diagrams() -> pd.DataFrame:
    lines = []
    for step in (0, 10, 20):
        for draw in (0, 1):
            for dim in (0, 1):
                birth = np.zeros(3) if dim == 0 else np.full(3, 0.5)
                death = np.array([1.0, 2.0, np.inf if dim == 0 else 0.9]) + draw + step
                lines.append(
                    {"run": "a", "step": step, "draw": draw, "dim": dim, "birth": birth, "death": death}
                )
    return pd.DataFrame(lines)


def test_a_barcode_draws_every_bar_of_the_first_draw(diagrams: pd.DataFrame) -> None:
    figure = barcode.draw(diagrams, "a")
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[0] == "a, step 20: diagram"
    assert titles[2] == "a, step 0: diagram"
    bars = [segment for lines in figure.axes[3].collections for segment in lines.get_segments()]
    assert sorted((float(bar[0, 0]), round(float(bar[1, 0]), 6)) for bar in bars) == [
        (0.0, 1.0), (0.0, 2.0), (0.0, 2.12), (0.5, 0.9), (0.5, 1.0), (0.5, 2.0)
    ]  # fmt: skip


def test_a_snapshot_holds_the_last_checkpoint_beside_its_null() -> None:
    base = {
        "run": "a",
        "probe": "neural_persistence",
        "filtration": "seed004",
        "scope": "matrix",
        "role": "mlp",
    }
    rows = [
        {**base, "step": step, "name": name, "feature": "neural_persistence", "value": step + k}
        for step in (0, 5)
        for k, name in enumerate(("m.weight", "n.weight"))
    ]
    rows += [
        {**base, "step": 5, "name": "m.weight", "feature": "shuffled", "value": value} for value in (1.0, 2.0)
    ]
    table = at_the_end(Persistences(pd.DataFrame(rows), pd.DataFrame(), null="shuffled"), "a")
    assert table["value"].tolist() == [5, 6]
    assert table[["low", "high"]].iloc[0].tolist() == [1.0, 2.0]
    assert table[["low", "high"]].iloc[1].isna().all()


def _marked(figure: Figure) -> list[list[float]]:
    return [list(line.get_xdata()) for ax in figure.axes for line in ax.lines if line.get_gid() == "alarm a"]


def test_alarms_stand_on_the_curves_of_their_run() -> None:
    rows = [
        {
            "run": run, "step": step, "probe": "neural_persistence", "scope": "model", "role": "model",
            "filtration": "seed004", "feature": "neural_persistence", "value": 0.1 + step / 100, "draw": None,
        }
        for run in "ab"
        for step in (1, 5, 9)
    ]  # fmt: skip
    runs = pd.DataFrame({"run": ["a", "b"], "family": ["", ""], "parameters": [10, 1000]})
    alarms = {"a": [("loss spike", 5.0)]}
    panels = neural_persistence.draw(Persistences(pd.DataFrame(rows), runs), alarms=alarms)
    assert _marked(panels) == [[5.0, 5.0]]
    assert "loss spike" in [text.get_text() for ax in panels.axes for text in ax.texts]
    cloud = pd.concat(
        pd.DataFrame(rows).assign(probe="rips", filtration="euclidean", feature=feature.name, scope="pooled")
        for feature in vietoris_rips.FEATURES
    )
    drawn = vietoris_rips.draw(cloud, runs, scope="pooled", alarms=alarms)
    assert _marked(drawn) == [[5.0, 5.0]] * 4
