"""Figures rendered side by side are those of one process, whatever becomes of the other."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from toposcope.core.drawing.rendering import FOLDED, WORTH, begin_rendering, render
from toposcope.core.drawing.style import CROWD, house, new_figure, say_empty, to_svg


def _figures(count):
    made = []
    for i in range(count):
        figure, axes = new_figure(1.5)
        axes[0, 0].plot(np.arange(5) * i)
        made.append(figure)
    return made


@pytest.mark.slow
def test_two_processes_make_the_bytes_of_one_in_order():
    assert begin_rendering(_figures(WORTH + 1))() == [render(figure) for figure in _figures(WORTH + 1)]


@pytest.mark.slow
def test_a_second_process_that_dies_leaves_its_figures_to_the_first(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert begin_rendering(_figures(WORTH))() == [render(figure) for figure in _figures(WORTH)]
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert all(one.png for one in begin_rendering(_figures(WORTH))())


def test_a_crowd_of_marks_is_a_picture_in_an_svg_and_a_few_are_shapes() -> None:
    sizes = {}
    for count in (100, 2000):
        figure, axes = new_figure(2.0)
        axes[0, 0].scatter(range(count), range(count), c=range(count), gid="crowd")
        axes[0, 0].plot([0, count], [0, count])
        svg = to_svg(figure)
        assert (b"<image" in svg) == (count > CROWD)
        sizes[count] = len(svg)
    assert sizes[2000] < 2 * sizes[100]


def _panels(count: int, *, titled: bool = True):
    with house():
        figure, axes = new_figure(2.0, columns=count)
        for place, ax in enumerate(axes.flat):
            ax.plot([0, 1], [place, 1])
            ax.set_title(f"panel {place}" if titled else "")
    return figure


def _size(svg: bytes) -> tuple[float, float]:
    width, height = re.search(rb'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()
    return float(width), float(height)


def test_panels_stand_below_one_another_on_a_phone():
    made = render(_panels(3))
    (wide, low), (narrow, tall) = _size(made.svg), _size(made.narrow)
    assert narrow < 0.6 * wide
    assert tall == pytest.approx(3 * low, rel=0.01)
    assert all(f"panel {place}".encode() in made.narrow for place in range(3))


def test_more_than_four_panels_stand_in_two_columns_on_a_phone():
    made = render(_panels(6))
    assert _size(made.narrow)[1] == pytest.approx(3 * _size(made.svg)[1], rel=0.01)


def test_a_panel_below_another_has_its_title_and_the_label_of_its_row_on_a_phone():
    with house():
        figure, axes = new_figure(3.0, rows=2, columns=2, sharex=True, sharey="row")
        for place, ax in enumerate(axes.flat):
            ax.plot([0, 1], [place, 1])
        for ax, name in zip(axes[0], ("small", "large"), strict=True):
            ax.set_title(name, color="#123456")
        for ax, name in zip(axes[:, 0], ("loops", "bars"), strict=True):
            ax.set_ylabel(name)
    made = render(figure)
    for name in ("small", "large", "loops", "bars"):
        said = f"<!-- {name} -->".encode()
        assert (made.svg.count(said), made.narrow.count(said)) == (1, 2)


def test_a_colour_bar_stays_beside_its_panels_on_a_phone():
    figure = _panels(3)
    image = figure.axes[0].imshow(np.eye(3))
    figure.colorbar(image, ax=figure.axes, label="how much")
    made = render(figure)
    assert made.narrow.count(b"<!-- how much -->") == 1
    assert _size(made.narrow)[1] == pytest.approx(3 * _size(made.svg)[1], rel=0.01)


def test_a_colour_bar_of_a_grid_with_a_place_left_over_is_drawn_once():
    figure = _panels(3)
    image = figure.axes[0].imshow(np.eye(3))
    figure.axes[2].set_axis_off()
    figure.colorbar(image, ax=figure.axes)
    assert render(figure).narrow == b""


def test_panels_that_say_nothing_alone_and_folded_ones_are_drawn_once():
    assert render(_panels(2, titled=False)).narrow == b""
    empty = _panels(2)
    for ax in empty.axes:
        say_empty(ax, "not measured")
    assert render(empty).narrow == b""
    folded = _panels(2)
    folded.set_label(FOLDED)
    assert render(folded).narrow == b""
