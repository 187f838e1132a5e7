"""Figures of representations, tested on the data they draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.subjects.representations.figures import layer_map, trajectories


@pytest.fixture
def features():
    rows = [
        {
            "run": run, "step": step, "probe": "representations", "scope": "layer", "name": "hidden",
            "role": "model", "layer": layer, "filtration": "", "draw": draw, "feature": "h1_total",
            "value": 10.0 * layer + step + 0.1 * draw,
        }
        for run in ("a", "b")
        for step in (0, 1, 8)
        for layer in (0, 1, 2)
        for draw in (0, 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def runs():
    return pd.DataFrame({"run": ["a", "b"], "family": "f", "parameters": [10, 20]})


def test_the_last_layer_is_drawn_unless_another_is_named(features, runs):
    panels = [trajectories.TrajectoryPanel("h1_total", "H1")]
    (ax,) = trajectories.draw(features, runs, panels).axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [20.05, 21.05, 28.05])
    (ax,) = trajectories.draw(features, runs, panels, layer=0).axes
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [0.05, 1.05, 8.05])


def test_a_feature_that_was_not_measured_says_so(features, runs):
    figure = trajectories.draw(features, runs, [trajectories.TrajectoryPanel("twonn", "TwoNN")])
    assert "twonn was not measured" in [text.get_text() for text in figure.axes[0].texts]


def test_the_map_has_layers_down_and_steps_across(features, runs):
    figure = layer_map.draw(features, runs, "h1_total", title="H1")
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(image, [[0.05, 1.05, 8.05], [10.05, 11.05, 18.05], [20.05, 21.05, 28.05]])
    assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == ["a", "b"]


def test_an_empty_map_says_so(features, runs):
    figure = layer_map.draw(features, runs, "cka", title="CKA")
    assert "cka was not measured" in [text.get_text() for text in figure.axes[0].texts]
