"""Figures rendered side by side are those of one process, whatever becomes of the other."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from toposcope.core.drawing.rendering import WORTH, render, render_all
from toposcope.core.drawing.style import CROWD, new_figure, to_svg


def _figures(count):
    made = []
    for i in range(count):
        figure, axes = new_figure(1.5)
        axes[0, 0].plot(np.arange(5) * i)
        made.append(figure)
    return made


@pytest.mark.slow
def test_two_processes_make_the_bytes_of_one_in_order():
    assert render_all(_figures(WORTH + 1)) == [render(figure) for figure in _figures(WORTH + 1)]


@pytest.mark.slow
def test_a_second_process_that_dies_leaves_its_figures_to_the_first(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert render_all(_figures(WORTH)) == [render(figure) for figure in _figures(WORTH)]
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert all(one.png for one in render_all(_figures(WORTH)))


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
