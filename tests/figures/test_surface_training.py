"""Curvature and surfaces over training: what panels draw, and what they say where nothing was measured."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from tests.columns import catalogue_of
from toposcope.core.drawing.style import NULL
from toposcope.core.types import Diagram
from toposcope.subjects.landscape.figures import loss_surface, profiles, spectral_density, surface_diagrams
from toposcope.subjects.landscape.figures.landscape_training import ON_PAGE, draw
from toposcope.subjects.landscape.figures.shown_surfaces import ShownSurfaces
from toposcope.subjects.landscape.summaries import summaries_of
from toposcope.topology.sampled_surface import surface_topology

RUNS = pd.DataFrame({"run": ["a"], "family": ["a"], "parameters": [3000]})
CATALOGUE = catalogue_of(["surface/minima", "surface/minima_null", "curvature/top_eigenvalue"])


def features() -> pd.DataFrame:
    rows = [
        {"run": "a", "step": step, "probe": probe, "feature": name, "scope": "model", "draw": draw,
         "value": value + draw}
        for step in (0, 10, 100)
        for draw in range(3)
        for probe, name, value in (
            ("surface", "minima", 2.0), ("surface", "minima_null", 1.0),
            ("curvature", "top_eigenvalue", -5.0 + step),
        )
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_line_is_the_mean_over_draws_with_its_null_in_grey() -> None:
    figure = draw(features(), RUNS, CATALOGUE)
    axes = {ax.get_title(loc="left"): ax for ax in figure.axes}
    assert list(axes) == ["top Hessian eigenvalue", "minima of the surface"]
    lines = axes["minima of the surface"].get_lines()
    values = {
        to_hex(line.get_color()): list(line.get_ydata()) for line in lines if len(line.get_ydata()) == 3
    }
    assert values[to_hex(NULL)] == [2.0, 2.0, 2.0]
    assert [3.0, 3.0, 3.0] in values.values()
    assert axes["minima of the surface"].get_ylim()[0] == 0.0  # no count lies below, whatever its interval
    assert axes["top Hessian eigenvalue"].get_ylim()[0] < -5.0


def test_the_caption_speaks_of_the_panels_that_are_drawn() -> None:
    numbers = {"seeds": (1, 1), "nulls": []}
    study = SimpleNamespace(
        features=features(), runs=RUNS, sizes=(3000,), findings={"changed": SimpleNamespace(numbers=numbers)},
        series=SimpleNamespace(catalogue=CATALOGUE, run_names=[], names=()),
    )  # fmt: skip
    caption = ON_PAGE.caption(study)  # type: ignore[arg-type]
    assert "show the top Hessian eigenvalue and minima of the surface. " in caption.shows
    assert "sharpness" not in caption.shows + caption.cannot


def test_a_size_is_named_where_its_line_ends() -> None:
    figure = draw(features(), RUNS, CATALOGUE)
    ends = {"minima of the surface": 3.0, "top Hessian eigenvalue": 96.0}
    for ax in figure.axes:
        title = ax.get_title(loc="left")
        if title in ends:
            (label,) = ax.texts
            at = ax.transAxes.inverted().transform(ax.transData.transform((1.0, ends[title])))[1]
            assert abs(label.xy[1] - at) < 0.01  # type: ignore[attr-defined]


def test_densities_and_diagrams_draw_what_they_are_given() -> None:
    grid = np.linspace(-1, 1, 50)
    rows = np.exp(-(grid**2))[None] * np.ones((3, 1))
    (ax,) = spectral_density.draw([("step 0", grid, rows)]).axes
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), rows[0])
    diagram = Diagram(0, np.array([1.0, 2.0]), np.array([np.inf, 3.0]))
    (ax,) = surface_diagrams.draw([("step 0", [diagram])]).axes
    dots = ax.get_lines()[1]
    assert list(dots.get_xdata()) == [1.0, 2.0]
    assert dots.get_ydata()[0] > 3.0  # never dies: above everything
    assert dots.get_ydata()[1] == 3.0


def test_nothing_measured_is_said() -> None:
    for figure, words in (
        (spectral_density.draw([]), "no spectral density"),
        (surface_diagrams.draw([]), "no surface"),
        (draw(features()[:0], RUNS, CATALOGUE), "neither curvature nor a surface"),
    ):
        assert any(words in text.get_text() for text in figure.axes[0].texts)


@pytest.mark.parametrize(
    ("graph", "directions", "said"),
    [
        ("lattice", 1, "on a line there is no H1"),
        ("kuhn", 2, "and H1 (rings around maxima). Grid points are joined by Kuhn's triangulation"),
        ("lattice", 3, "H1 (loops) and H2 (shells around maxima)"),
        ("knn", 2, "this graph has no H1"),
    ],
)
def test_captions_speak_of_the_directions_and_the_graph_that_were_sampled(
    graph: str, directions: int, said: str
) -> None:
    found = SimpleNamespace(homology=(), tree=SimpleNamespace(values=np.zeros(3)))
    surface = SimpleNamespace(
        surface=SimpleNamespace(mean=np.zeros((3,) * directions)), step=0, topology=found
    )
    shown = ShownSurfaces((surface,), graph)  # type: ignore[arg-type]
    study = SimpleNamespace(once=lambda make: shown)
    caption = surface_diagrams.ON_PAGE.caption(study)  # type: ignore[arg-type]
    assert said in caption.shows
    assert "no trees" not in caption.shows
    spans = f"the surface spans {['one', 'two', 'three'][directions - 1]}. "
    assert spans in profiles.ON_PAGE.caption(study).cannot  # type: ignore[arg-type]
    assert loss_surface.ON_PAGE.needs(study) == (directions == 2)  # type: ignore[arg-type]


def test_minima_are_counted_on_the_page_as_in_the_table() -> None:
    """A step of two equal losses is no minimum; the title counted one there."""
    found = surface_topology(np.array([1.0, 1.0, 0.0, 2.0]))
    assert len(found.tree) == 2
    assert summaries_of(found)["minima"] == found.tree.lasting.sum() == 1
    surface = SimpleNamespace(surface=SimpleNamespace(mean=np.zeros(4)), step=0, topology=found)
    shown = ShownSurfaces((surface,), "lattice")  # type: ignore[arg-type]
    assert shown.single.startswith("1 of the 1 surfaces shown has a single minimum")
