"""The picture of a check, by the data that it draws."""

import numpy as np
import pytest

import toposcope as ts
from tests.check.written import diverging, falling, lost, modded, spiked
from toposcope.core.drawing.style import OKABE_ITO
from toposcope.runs._figure import CheckedCurve, draw_checked


def _check(tmp_path, **logs):
    for name, loss in logs.items():
        (tmp_path / name).write_text(modded(loss))
    return ts.check([str(tmp_path / name) for name in logs])


def _lines(ax, what):
    return {line.get_gid(): line for line in ax.lines if (line.get_gid() or "").startswith(f"{what} ")}


def _named(ax):
    return [text.get_text() for text in ax.texts]


def test_a_sound_run_has_its_losses_and_a_cone_to_its_planned_end(tmp_path):
    found = _check(tmp_path, a=falling())
    ax, made = found.plot(), found.runs[0].forecast
    assert _lines(ax, "logged")["logged a"].get_ydata() == pytest.approx(falling(), rel=1e-3)
    end = _lines(ax, "end")["end a"]
    assert list(end.get_ydata()) == [made.low, made.high]
    assert set(end.get_xdata()) == {found.runs[0].horizon}
    (cone,) = [one for one in ax.collections if one.get_gid() == "cone a"]
    corners = cone.get_paths()[0].vertices
    assert corners[:, 0].max() == found.runs[0].horizon
    assert corners[:, 0].min() >= found.runs[0].step
    assert not _lines(ax, "mark")
    assert "forecast, 90% interval" in ax.get_legend().get_texts()[0].get_text()


def test_a_run_that_diverges_is_marked_where_it_began_and_has_no_cone(tmp_path):
    found = _check(tmp_path, a=diverging())
    ax = found.plot()
    marks = [line for line in ax.lines if line.get_gid() == "mark a"]
    steps = {line.get_xdata()[0] for line in marks}
    assert steps == {ground.step for ground in found.runs[0].judgement.grounds}
    for line in marks:
        assert line.get_ydata()[0] == pytest.approx(diverging()[int(line.get_xdata()[0]) - 1], rel=1e-3)
    step = next(one.step for one in found.runs[0].judgement.grounds if one.kind == "diverging")
    assert f"diverging at {step}" in _named(ax)
    assert not ax.collections
    assert not _lines(ax, "end")


def test_every_run_has_a_named_curve_in_a_colour_of_its_own_and_what_passed_is_hollow(tmp_path):
    found = _check(tmp_path, a=falling(), b=spiked(), c=lost())
    ax = found.plot()
    curves = _lines(ax, "loss")
    assert set(curves) == {"loss a", "loss b", "loss c"}
    assert len({line.get_color() for line in curves.values()}) == 3
    assert {line.get_color() for line in curves.values()} <= set(OKABE_ITO)
    assert {"a", "b", "c"} <= set(_named(ax))
    hollow = {gid: line.get_markerfacecolor() == "white" for gid, line in _lines(ax, "mark").items()}
    assert hollow == {"mark b": True, "mark c": False}
    spike = _lines(ax, "mark")["mark b"]
    assert (spike.get_xdata()[0], spike.get_ydata()[0]) == (201, pytest.approx(spiked()[200], rel=1e-3))
    assert ax.get_ylim()[1] > spiked()[200]


def test_a_spike_of_a_long_log_is_drawn_and_a_log_without_losses_says_so():
    loss = np.full(50_000, 2.0)
    loss[31_415] = 9.0
    ax = draw_checked([CheckedCurve("a", np.arange(50_000.0), loss)])
    drawn = _lines(ax, "logged")["logged a"]
    assert drawn.get_ydata().max() == 9.0
    assert len(drawn.get_xdata()) <= 3_000
    assert draw_checked([]).texts[0].get_text() == "no loss is logged"
