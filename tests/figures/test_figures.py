"""Every figure, tested on the data it draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import FillBetweenPolyCollection, PathCollection
from scipy.stats import t

from tests.columns import catalogue_of
from toposcope.core.drawing import loss_curves
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import NULL, to_png
from toposcope.core.types import Normalization
from toposcope.page.figures import correlations, forecast, scaling
from toposcope.study.finals import fits_table
from toposcope.subjects.weights.figures import (
    layers,
    loss_against_h0,
    neural_persistence,
    vietoris_rips,
)
from toposcope.subjects.weights.figures.neural_persistence import Persistences

H0 = "rips/euclidean/pooled/h0_total"
NP = "neural_persistence/seed004/neural_persistence"
CATALOGUE = catalogue_of([H0, NP, "baselines/weight_norm"])


def _band(ax, index=0):
    """Return the lower and upper limits of a band at each of its x."""
    collections = [c for c in ax.collections if isinstance(c, FillBetweenPolyCollection)]
    vertices = pd.DataFrame(collections[index].get_paths()[0].vertices, columns=["x", "y"])
    return vertices.groupby("x")["y"].agg(["min", "max"])


def _texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


# ---- loss -----------------------------------------------------------------------------------------


def test_loss_curves_draw_the_held_out_losses_on_pale_training_losses(metrics, runs):
    (ax,) = loss_curves.draw(metrics, runs).axes
    lines = {line.get_gid(): line for line in ax.lines}
    assert list(lines) == ["loss small", "loss large", "run small", "run large"]
    assert lines["loss large"].get_ydata()[0] == pytest.approx(4.0)
    assert lines["run small"].get_xdata().tolist() == [0, 100, 200, 400]
    assert lines["run small"].get_ydata().tolist() == pytest.approx([5.1, 4.6, 4.1, 3.1])
    assert lines["run large"].get_linewidth() > lines["run small"].get_linewidth()
    assert {"small", "large"} <= set(_texts(ax.figure))


def test_without_held_out_losses_the_training_losses_are_the_curves(metrics, runs):
    (ax,) = loss_curves.draw(metrics.assign(heldout_loss=np.nan), runs).axes
    assert [line.get_gid() for line in ax.lines] == ["loss small", "loss large"]
    assert {"small", "large"} <= {text.get_text() for text in ax.texts}


def test_a_forecast_stands_on_the_curve_of_its_run(metrics, runs):
    young = metrics[(metrics["run"] != "large") | (metrics["step"] <= 200)]
    path = np.array([[200, 3.0, 3.0, 3.0], [400, 2.0, 1.8, 2.3]])
    (ax,) = loss_curves.draw(young, runs, ahead={"large": path}).axes
    (ahead,) = [line for line in ax.lines if line.get_gid() == "ahead large"]
    assert ahead.get_xydata().tolist() == path[:, :2].tolist()
    (cone,) = [one for one in ax.collections if one.get_gid() == "cone large"]
    assert cone.get_paths()[0].vertices[:, 1].max() == pytest.approx(3.0)
    assert ax.get_xlim()[1] > 400


def test_names_stand_at_the_ends_of_their_lines_however_wide_a_forecast_is(metrics, runs):
    young = metrics[(metrics["run"] != "large") | (metrics["step"] <= 200)]
    path = np.array([[200, 3.0, 3.0, 3.0], [400, 2.0, -9.0, 9.0]])
    (ax,) = loss_curves.draw(young, runs, ahead={"large": path}).axes
    at = {text.get_text(): ax.transLimits.inverted().transform(text.xy)[1] for text in ax.texts}
    assert (at["small"], at["large"]) == pytest.approx((3.1, 2.0))


def test_loss_curves_of_nothing_say_so(metrics, runs):
    assert "no training loss" in _texts(loss_curves.draw(metrics.iloc[:0], runs))[0]


# ---- neural persistence ---------------------------------------------------------------------------


def test_neural_persistence_is_drawn_less_its_null_beside_the_null_band(features, runs):
    figure = neural_persistence.draw(Persistences(features, runs, null="neural_persistence_shuffled"))
    (ax,) = figure.axes
    measured = {line.get_gid(): line for line in ax.lines}["run small"]
    assert measured.get_ydata().tolist() == pytest.approx([0.1, 0.125, 0.15, 0.2])
    half = t.ppf(0.975, 4) * np.std([-0.02, -0.01, 0, 0.01, 0.02], ddof=1) * np.sqrt(1.2)
    (band,) = [one for one in ax.collections if one.get_gid() == "null band"]
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((-half, half))
    assert {"small", "large"} <= {text.get_text() for text in ax.texts}


def test_neural_persistence_of_another_convention_is_not_mixed_in(features, runs):
    figure = neural_persistence.draw(Persistences(features, runs, "rieck", "neural_persistence_shuffled"))
    assert _texts(figure) == ["neural persistence was not measured"]


def test_many_sizes_are_thinned_with_both_ends_kept(features):
    runs = pd.DataFrame({"run": [f"r{i:02d}" for i in range(30)], "family": "f", "parameters": range(1, 31)})
    groups = neural_persistence.thin(neural_persistence.sizes(runs), 12)
    assert len(groups) == 12
    assert (groups[0].label, groups[-1].label) == ("r00", "r29")


# ---- Vietoris-Rips --------------------------------------------------------------------------------


def test_h0_and_h1_are_means_over_draws_with_their_interval(features, runs):
    figure = vietoris_rips.draw(features, runs)
    h0, h1, scaled, missing = figure.axes
    assert h0.lines[0].get_ydata().tolist() == pytest.approx([10, 11, 12, 14])
    assert h1.lines[1].get_ydata().tolist() == pytest.approx([2.0, 2.1, 2.2, 2.4])
    assert scaled.lines[0].get_ydata().tolist() == pytest.approx([5, 5.5, 6, 7])
    half = t.ppf(0.975, 2) * 1.0 / np.sqrt(3)
    assert _band(h0)["max"].to_numpy() == pytest.approx(np.array([10, 11, 12, 14]) + half)
    assert missing.texts[0].get_text() == "h1_total_scaled was not measured"


# ---- loss against H0 ------------------------------------------------------------------------------


def test_loss_against_h0_pairs_each_checkpoint_with_its_loss(features, metrics, runs):
    notes = pd.DataFrame({"run": ["small"], "text": ["ρ −.9"]})
    figure = loss_against_h0.draw(features, metrics, runs, notes=notes)
    points = next(c for c in figure.axes[0].collections if isinstance(c, PathCollection))
    assert np.asarray(points.get_offsets()).tolist() == [
        pytest.approx(pair) for pair in ([10, 5.1], [11, 4.6], [12, 4.1], [14, 3.1])
    ]
    assert np.asarray(points.get_array()).tolist() == [0, 100, 200, 400]
    assert figure.axes[0].get_ylabel() == "held-out loss"
    assert "ρ −.9" in _texts(figure)


def test_loss_against_h0_without_losses_says_so(features, metrics, runs):
    figure = loss_against_h0.draw(features, metrics.iloc[:0], runs)
    assert "H0 or loss\nnot measured" in _texts(figure)


# ---- correlations ---------------------------------------------------------------------------------


@pytest.fixture
def trends():
    rows = [
        {"run": run, "target": target, "column": column, "spearman": raw, "partial_step": raw / 2,
         "r": raw / 10,
         "verdict": "adds" if (run, column) == ("large", H0) else "trend only"}
        for target in ("loss", "heldout_loss")
        for run, sign in (("small", 1), ("large", -1))
        for column, raw in ((H0, -0.9 * sign), (NP, 0.4), ("baselines/weight_norm", -0.95))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_heat_map_puts_raw_beside_partial(trends, runs):
    figure = correlations.draw(trends, runs, CATALOGUE)
    raw, partial, innovation = (np.asarray(ax.images[0].get_array()) for ax in figure.axes[:3])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["neural persistence (by matrix)", "H0 total (pooled)", "weight norm"]
    assert raw.tolist() == [[0.4, 0.4], [-0.9, 0.9], [-0.95, -0.95]]
    assert partial == pytest.approx(raw / 2)
    assert innovation == pytest.approx(raw / 10)


def test_the_heat_map_outlines_only_what_adds(trends, runs):
    figure = correlations.draw(trends, runs, CATALOGUE)
    assert [len(ax.patches) for ax in figure.axes[:3]] == [0, 0, 1]
    assert figure.axes[2].patches[0].get_xy() == pytest.approx((1 - 0.46, 1 - 0.44))


def test_seeds_of_a_size_are_averaged_and_must_agree_to_be_outlined(trends):
    runs = pd.DataFrame({"run": ["small", "large"], "family": "f", "parameters": 500})
    figure = correlations.draw(trends, runs, CATALOGUE)
    assert np.asarray(figure.axes[0].images[0].get_array())[1].tolist() == pytest.approx([0.0])
    assert not figure.axes[2].patches


def test_what_could_not_be_computed_is_a_dash(trends, runs):
    trends.loc[0, "spearman"] = np.nan
    figure = correlations.draw(trends, runs, CATALOGUE)
    assert "–" in [text.get_text() for text in figure.axes[0].texts]


def test_a_heat_map_of_nothing_says_so(trends, runs):
    assert "no correlation with loss could be computed" in _texts(
        correlations.draw(trends.iloc[:0], runs, CATALOGUE)
    )


# ---- forecast -------------------------------------------------------------------------------------


@pytest.fixture
def forecasts():
    rows = [
        (run, cut, method, error * (1 - 2 * i))
        for i, run in enumerate(("small", "large"))
        for cut in (0.2, 0.5)
        for method, error in (("loss-only", 0.2), ("combined", 0.1), ("last-loss control", 0.05))
    ]
    return pd.DataFrame(rows, columns=["run", "cut", "method", "error"])


def test_forecast_errors_are_absolute_means_with_the_control_as_a_line(forecasts):
    figure = forecast.draw(forecasts)
    named = forecast.draw(forecasts, {str(forecasts["method"].iloc[0]): "in words"})
    assert "in words" in [label.get_text() for ax in named.axes for label in ax.get_yticklabels()]
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["first 20% seen", "first 50% seen"]
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.texts] == ["0.200", "0.100", "0.050"]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "loss-only",
        "combined",
        "last-loss control",
    ]
    assert ax.lines[0].get_xdata() == pytest.approx([0.05, 0.05])
    assert ax.lines[0].get_color() == NULL
    assert ax.get_xscale() == "log"


def test_a_perfect_forecast_is_drawn_at_the_floor(forecasts):
    figure = forecast.draw(forecasts.assign(error=0.0))
    offsets = np.concatenate([np.asarray(c.get_offsets()) for c in figure.axes[0].collections])
    assert (offsets[:, 0] == forecast.FLOOR).all()


def test_no_forecast_says_so(forecasts):
    assert _texts(forecast.draw(forecasts.iloc[:0])) == ["no forecast could be made from these runs"]


# ---- scaling --------------------------------------------------------------------------------------


@pytest.fixture
def finals():
    sizes = [1e3, 1e4, 1e5]
    return pd.DataFrame(
        {"run": ["small", "large", "huge"], "parameters": sizes, "quantity": H0,
         "value": [2 * n**0.5 for n in sizes], "low": np.nan, "high": np.nan}
    )  # fmt: skip


@pytest.fixture
def fits():
    return pd.DataFrame(
        {"quantity": [H0], "scale": 2.0, "exponent": 0.5, "low": 0.4, "high": 0.6, "r2": 1.0, "sigma": 0.1,
         "n_sizes": 3, "status": "ok", "reason": ""}
    )  # fmt: skip


def test_scaling_draws_the_fitted_line_and_its_interval(finals, fits, runs):
    ax = scaling.draw(finals, fits, runs, CATALOGUE).axes[0]
    line = ax.lines[0]
    assert line.get_ydata() == pytest.approx(2 * line.get_xdata() ** 0.5)
    assert "exponent +0.500 [+0.40, +0.60]\nR² 1.00, 3 sizes" in [text.get_text() for text in ax.texts]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    band = _band(ax)
    middle = np.log(2 * band.index.to_numpy() ** 0.5)
    half = (
        t.ppf(0.975, 1)
        * 0.1
        * np.sqrt(1 / 3 + (np.log(band.index) - np.log(1e4)) ** 2 / (2 * np.log(10) ** 2))
    )
    assert np.log(band["max"].to_numpy()) == pytest.approx(middle + half)


def test_scaling_draws_a_loss_with_its_floor(runs):
    """The line is the law that the table states, and runs through the points; the band is around it."""
    known = np.geomspace(3e3, 1e5, 6)
    value = (1.7 + 300.0 * known**-0.7) * np.exp(0.003 * np.random.default_rng(1).standard_normal(6))
    finals = pd.DataFrame(
        {"run": [f"r{n:.0f}" for n in known], "parameters": known, "quantity": "heldout_loss", "step": 9,
         "value": value, "low": np.nan, "high": np.nan, "finished": True, "family": "f"}
    )  # fmt: skip
    fits = fits_table(finals)
    assert fits["offset"].iloc[0] > 1.5
    ax = scaling.draw(finals, fits, runs, CATALOGUE).axes[0]
    (line,) = [one for one in ax.lines if one.get_gid() == "law"]
    row = fits.iloc[0]
    expected = row["scale"] * line.get_xdata() ** row["exponent"] + row["offset"]
    assert line.get_ydata() == pytest.approx(expected)
    at = np.exp(np.interp(np.log(known), np.log(line.get_xdata()), np.log(line.get_ydata())))
    assert at == pytest.approx(value, rel=0.01)
    band = _band(ax)
    assert (band["min"] < expected).all()
    assert (band["max"] > expected).all()
    assert f"floor {row['offset']:.3g} [" in ax.texts[0].get_text()


def test_scaling_fits_no_law_to_runs_that_did_not_finish(finals, fits, runs):
    half_way = finals.assign(finished=[True, True, False])
    line = scaling.draw(half_way, fits, runs, CATALOGUE).axes[0].lines[0]
    assert line.get_xdata().max() == pytest.approx(1.3e4)


@pytest.mark.parametrize("ratio", [1.02, 1.2, 1.6, 3.0, 40.0, 1e4])
def test_ticks_of_scaling_stand_apart(finals, fits, runs, ratio):
    values = np.geomspace(2.0, 2.0 * ratio, 3)
    known = [1_000, 1_100, 90_000]
    law = fits.assign(exponent=np.nan)
    figure = scaling.draw(finals.assign(value=values, parameters=known), law, runs, CATALOGUE)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    for axis in (ax.xaxis, ax.yaxis):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        inside = [box for box in boxes if box.width > 0]
        assert len(inside) >= 1
        assert not any(a.overlaps(b) for i, a in enumerate(inside) for b in inside[:i])


def test_scaling_draws_points_alone_where_no_law_was_fitted(finals, fits, runs):
    ax = scaling.draw(finals, fits.assign(status="failed", exponent=np.nan), runs, CATALOGUE).axes[0]
    assert not ax.lines
    assert len(ax.collections) == 3


def test_scaling_of_negative_values_keeps_a_linear_axis(finals, fits, runs):
    ax = scaling.draw(finals.assign(value=[-1.0, 1.0, 2.0]), fits.iloc[:0], runs, CATALOGUE).axes[0]
    assert ax.get_yscale() == "linear"


def test_scaling_without_known_sizes_says_so(finals, fits, runs):
    assert _texts(scaling.draw(finals.assign(parameters=0), fits, runs, CATALOGUE)) == [
        "model sizes or values unknown"
    ]


# ---- runs of one size that end apart ------------------------------------------------------------


def _ragged(probe: str, feature: str, **more: object) -> pd.DataFrame:
    """Two seeds far apart; the second stops at step 10."""
    values = [("s1", 0, 60.0), ("s1", 10, 62.0), ("s1", 20, 65.0), ("s2", 0, 40.0), ("s2", 10, 42.0)]
    rows = pd.DataFrame(values, columns=["run", "step", "value"])
    return rows.assign(
        probe=probe, feature=feature, filtration=Normalization.MATRIX, scope="pooled", name="pooled",
        role="model", draw=0, layer=np.nan, status="ok", **more,
    )  # fmt: skip


SEEDS = pd.DataFrame({"run": ["s1", "s2"], "family": "f", "parameters": 500})


def _lines_by_gid(ax) -> dict[str, list[tuple[float, float]]]:
    return {
        str(line.get_gid()): [(float(x), float(y)) for x, y in line.get_xydata()]
        for line in ax.lines if line.get_gid() is not None
    }  # fmt: skip


def test_no_line_moves_where_no_run_does():
    drawn = vietoris_rips.draw(_ragged("rips", "h0_total"), SEEDS).axes[0]
    found = _lines_by_gid(drawn)
    assert found["run s1"] == [(0, 60), (10, 62), (20, 65)]
    assert found["run s2"] == [(0, 40), (10, 42)]
    (mean,) = [points for name, points in found.items() if name.startswith("mean")]
    assert mean == [(0, 50), (10, 52)]
    assert {"s1", "s2"} <= {text.get_text() for text in drawn.texts}


def test_the_held_out_loss_of_a_seed_that_stopped_bends_nothing():
    rows = _ragged("", "").rename(columns={"value": "heldout_loss"})[["run", "step", "heldout_loss"]]
    ax = loss_curves.draw(rows.assign(loss=np.nan), SEEDS).axes[0]
    found = _lines_by_gid(ax)
    assert found["run s1"][-1] == (20, 65)
    assert [points[-1] for name, points in found.items() if name.startswith("mean")] == [(10, 52)]


def test_neural_persistence_and_layers_have_means_where_all_seeds_are():
    model = _ragged("neural_persistence", "neural_persistence").assign(scope="model", name="model")
    found = _lines_by_gid(neural_persistence.draw(Persistences(model, SEEDS)).axes[0])
    assert [points[-1] for name, points in found.items() if name.startswith("mean")] == [(10, 52)]
    assert found["run s1"][-1] == (20, 65)
    matrix = model.assign(scope="matrix", name="w", role="mlp", layer=0.0)
    (ax, *_) = layers.draw(Persistences(matrix, SEEDS)).axes
    (line,) = [line for line in ax.lines if line.get_label() == "w"]
    assert line.get_xydata().tolist() == [[0, 50], [10, 52]]


def test_a_cell_of_two_seeds_is_empty_where_one_has_no_value():
    table = pd.DataFrame({"run": ["s1", "s2", "s1", "s2"], "column": ["a", "a", "b", "b"],
                          "r": [0.5, 0.7, 0.5, np.nan]})  # fmt: skip
    grid = correlations.matrix(table, ["a", "b"], sizes(SEEDS), "r")
    assert grid[0, 0] == pytest.approx(0.6)
    assert np.isnan(grid[1, 0])


# ---- layers ---------------------------------------------------------------------------------------


def test_layers_have_a_panel_per_role_and_a_line_per_matrix_of_the_largest_model(features, runs):
    figure = layers.draw(Persistences(features, runs, null="neural_persistence_shuffled"))
    mlp, head = figure.axes
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["mlp", "head"]
    assert "large" in mlp.get_ylabel()
    drawn = {line.get_label(): line for line in mlp.lines}
    assert set(drawn) == {"shuffled", "layers.0.mlp.fc1.weight", "layers.1.mlp.fc1.weight"}
    ydata = drawn["layers.1.mlp.fc1.weight"].get_ydata().tolist()
    mine = features[(features["run"] == "large") & (features["name"] == "layers.1.mlp.fc1.weight")]
    wanted = mine[mine["feature"] == "neural_persistence"].sort_values("step")["value"].tolist()
    assert ydata == pytest.approx(wanted)
    assert drawn["shuffled"].get_color() == NULL
    assert [line.get_label() for line in head.lines] == ["head.weight"]


def test_layers_without_matrices_say_so(features, runs):
    figure = layers.draw(Persistences(features[features["role"] == "model"], runs))
    assert "neural persistence per matrix was not measured" in _texts(figure)


def test_every_figure_renders_with_nothing_to_show(features, metrics, runs, trends, forecasts, finals, fits):
    none = features.iloc[:0]
    for figure in (
        loss_curves.draw(metrics.iloc[:0], runs),
        neural_persistence.draw(Persistences(none, runs)),
        vietoris_rips.draw(none, runs),
        loss_against_h0.draw(none, metrics.iloc[:0], runs),
        correlations.draw(trends.iloc[:0], runs, CATALOGUE),
        forecast.draw(forecasts.iloc[:0]),
        scaling.draw(finals.iloc[:0], fits.iloc[:0], runs, CATALOGUE),
        layers.draw(Persistences(none, runs)),
    ):
        assert len(to_png(figure)) > 1000
