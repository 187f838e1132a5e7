"""Figures on representations and gradients, tested on the data they draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from tests.columns import catalogue_of
from toposcope.page.figures import correlations, strength
from toposcope.subjects.gradients.figures import gradients
from toposcope.subjects.representations.figures import (
    across_layers,
    against_target,
    cloud_null,
    crocker,
    dimensions,
    heads,
    probing,
    trajectories,
)

STEPS = (0, 1, 8, 64)
HIDDEN = "representations/euclidean/hidden/"
CATALOGUE = catalogue_of([f"{HIDDEN}h1_total", "representations/hidden/top_eigenvalue"])


@pytest.fixture
def runs():
    return pd.DataFrame({"run": ["a", "b"], "family": "f", "parameters": [10, 20]})


def _frame(rows):
    base = {
        "probe": "representations", "scope": "layer", "name": "hidden", "role": "model", "layer": 1.0,
        "head": np.nan,
        "filtration": "", "draw": np.nan, "note": "", "status": "ok",
    }  # fmt: skip
    return pd.DataFrame([{**base, **row} for row in rows])


def _series(feature, value, **more):
    return [
        {"run": run, "step": step, "feature": feature, "value": value(run, step), **more}
        for run in ("a", "b")
        for step in STEPS
    ]


def _texts(ax):
    return [text.get_text() for text in ax.texts]


def test_checkpoints_are_drawn_against_the_target_in_step_order(runs):
    features = _frame(_series("h1_total", lambda run, step: step + (run == "b")))
    targets = pd.DataFrame(_series("perplexity", lambda _, step: 100.0 / (1 + step)))[
        ["run", "step", "value"]
    ]
    panels = [
        trajectories.TrajectoryPanel("h1_total", "H1", "distance"),
        trajectories.TrajectoryPanel("twonn", "TwoNN"),
    ]
    figure = against_target.draw(features, targets, runs, panels, notes={"h1_total": "mean |ρ| 0.5"})
    ax, empty = figure.axes
    np.testing.assert_allclose(ax.lines[0].get_xdata(), STEPS)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [100 / (1 + step) for step in STEPS])
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "distance\nmean |ρ| 0.5"
    assert "twonn was not measured" in _texts(empty)


def test_without_a_target_the_panels_say_so(runs):
    features = _frame(_series("h1_total", lambda _, step: step))
    nothing = pd.DataFrame(columns=["run", "step", "value"])
    panels = [trajectories.TrajectoryPanel("h1_total", "H1")]
    figure = against_target.draw(features, nothing, runs, panels, unit="piqa", log=False)
    assert "no piqa" in _texts(figure.axes[0])


def _trends():
    rows = []
    for run, sign in (("a", 1), ("b", -1)):
        for column in (f"{HIDDEN}h1_total", "representations/hidden/top_eigenvalue"):
            verdict = "adds" if run == "a" and "total" in column else "trend only"
            rows.append(
                {"run": run, "target": "loss", "column": column, "spearman": 0.8 * sign, "block_low": -0.2,
                 "block_high": 0.9, "partial_step": np.nan, "r": 0.5 * sign,
                 "r_low": 0.1, "r_high": 0.7, "verdict": verdict}
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_strength_draws_absolute_values_and_fills_what_adds(runs):
    figure = strength.draw(_trends(), runs, CATALOGUE, target="loss", chance=0.7)
    raw, rest = figure.axes[:2]
    points = [line for line in raw.lines if len(line.get_xdata()) == 1]
    assert [float(line.get_xdata()[0]) for line in points] == [0.8] * 4
    filled = [
        to_hex(line.get_markerfacecolor()) != "#ffffff"
        for line in rest.lines
        if line.get_marker() not in ("", "None", None)
    ]
    assert filled == [True, False, False, False]
    assert [label.get_text() for label in raw.get_yticklabels()] == ["H1 total", "top eigenvalue"]
    assert raw.patches[0].get_width() == pytest.approx(0.7)


def test_an_interval_that_holds_zero_starts_at_zero_in_absolute_value():
    assert strength._absolute(-0.2, 0.9) == (0.0, 0.9)
    assert strength._absolute(-0.9, -0.4) == (0.4, 0.9)


def test_a_stage_that_cannot_be_computed_is_left_out(runs):
    figure = correlations.draw(_trends(), runs, CATALOGUE, target="loss")
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[:2] == ["Raw rho", "Innovations"]


def test_crocker_counts_the_bars_alive_at_each_scale(runs):
    diagrams = pd.DataFrame(
        [
            {"run": "a", "step": step, "probe": "representations", "layer": layer, "draw": None, "dim": 1,
             "birth": np.array([0.0, 1.0]), "death": np.array([2.0, 1.0 + step])}
            for step in (1, 2)
            for layer in (0, 1)
        ]
    )  # fmt: skip
    figure = crocker.draw(diagrams, runs)
    image = figure.axes[0].images[0].get_array()
    grid = np.linspace(0.0, 3.0, crocker.RESOLUTION)
    at = int(np.searchsorted(grid, 1.5))
    assert image[at].tolist() == [2.0, 2.0]
    assert image[int(np.searchsorted(grid, 2.5))].tolist() == [0.0, 1.0]
    assert "no diagrams were kept" in _texts(crocker.draw(diagrams.iloc[:0], runs).axes[0])


def test_diagrams_without_bars_say_so(runs):
    none = np.array([])
    row = {"run": "a", "step": 1, "probe": "representations", "layer": 0, "draw": None, "dim": 1}
    figure = crocker.draw(pd.DataFrame([{**row, "birth": none, "death": none}]), runs)
    assert "no diagram has a bar in H1" in _texts(figure.axes[0])


def test_carried_h1_stands_against_cka_pair_by_pair(runs):
    rows = [*_series("cka", lambda _, step: 1.0 / (1 + step), layer=0.0)]
    rows += _series("carried_h1", lambda _, step: 0.5 + step / 1000, layer=0.0)
    features = _frame(rows)
    table = across_layers.pairs(features)
    assert len(table) == 2 * len(STEPS)
    ax = across_layers.draw(features, runs).axes[0]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [1 / (1 + step) for step in STEPS])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.5 + step / 1000 for step in STEPS])
    assert "fewer than two layers were measured" in _texts(across_layers.draw(features[:0], runs).axes[0])


def test_heads_have_thin_lines_and_layers_their_mean(runs):
    rows = [
        row
        for head in (0, 1)
        for row in _series("attention_h0", lambda _, step, h=head: 0.5 + h, name="attention", head=head)
    ]
    ax = heads.draw(_frame(rows), runs).axes[0]
    assert [line.get_ydata()[0] for line in ax.lines] == [0.5, 1.5, 1.0]
    assert "attention graphs were not measured" in _texts(heads.draw(_frame(rows)[:0], runs).axes[0])


def test_the_null_band_of_a_feature_stands_behind_it(runs):
    rows = _series("h1_total", lambda _, step: 1.0)
    for draw in range(5):
        rows += _series("h1_total_null", lambda _, step, d=draw: 3.0 + 0.1 * d, draw=draw)
    features = _frame(rows)
    figure = cloud_null.draw(features, runs, {"h1_total": "h1_total_null"})
    assert [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()] == ["H1 total"]
    ax = figure.axes[0]
    null, measured = ax.lines
    np.testing.assert_allclose(null.get_ydata(), 3.2)
    np.testing.assert_allclose(measured.get_ydata(), 1.0)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() < 3.0 < 3.4 < band.max()


def test_a_probe_stands_beside_the_commonest_label(runs):
    rows = _series("probe_accuracy", lambda _, step: 0.7) + _series("probe_accuracy_sd", lambda *_: 0.1)
    rows += _series("majority_accuracy", lambda *_: 0.55, name="model", layer=np.nan)
    ax = probing.draw(_frame(rows), runs).axes[0]
    assert {line.get_ydata()[0] for line in ax.lines} == {0.7, 0.55}


def test_dimensions_have_the_band_their_note_states(runs):
    features = _frame(_series("twonn", lambda *_: 10.0, note="95% interval 8 to 13"))
    figure = dimensions.draw(features, runs)
    band = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (8.0, 13.0)
    assert "not measured" in _texts(figure.axes[1])
    assert all(np.isnan(dimensions.noted_interval("too few points")))


def test_gradients_are_read_from_their_own_probes(runs):
    norm = _series("weight_norm", lambda _, step: 1.0 + step, probe="gradient_baselines", scope="model")
    np_rows = [
        row
        for filtration in ("seed004", "rieck")
        for row in _series(
            "neural_persistence", lambda *_, f=filtration: len(f), probe="gradient_neural_persistence",
            scope="model", filtration=filtration,
        )
    ]  # fmt: skip
    figure = gradients.draw(_frame(norm + np_rows), runs)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [1.0 + step for step in STEPS])
    assert len(figure.axes) == 2, "what was not measured has no panel"
    assert set(figure.axes[1].lines[0].get_ydata()) == {7.0}
