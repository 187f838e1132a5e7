"""Figures rendered side by side are those of one process, whatever becomes of the other."""

from __future__ import annotations

import sys

import numpy as np

from toposcope.figures.rendering import WORTH, render, render_all
from toposcope.figures.style import new_figure


def _figures(count):
    made = []
    for i in range(count):
        figure, axes = new_figure(1.5)
        axes[0, 0].plot(np.arange(5) * i)
        made.append(figure)
    return made


def test_two_processes_make_the_bytes_of_one_in_order():
    assert render_all(_figures(WORTH + 1)) == [render(figure) for figure in _figures(WORTH + 1)]


def test_a_second_process_that_dies_leaves_its_figures_to_the_first(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert render_all(_figures(WORTH)) == [render(figure) for figure in _figures(WORTH)]
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert all(one.png for one in render_all(_figures(WORTH)))
