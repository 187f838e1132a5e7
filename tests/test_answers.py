"""What the public functions return: one by one, and all alike."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterable, Mapping

import matplotlib.axes
import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.api import Audit, Reply
from toposcope.core.drawing.style import new_figure
from toposcope.core.observations import AuditFinding
from toposcope.core.types import RunRecord
from toposcope.study.findings import Finding
from toposcope.training import Trained, TrainedRun

OF_ARRAYS = {"neural_persistence", "rips", "weight_diagram"}
"""Functions that return a number or diagrams of an array."""


def _public_functions() -> set[str]:
    found = {name for name in ts.__all__ if not name.startswith("_")}
    return {name for name in found if callable(getattr(ts, name)) and not inspect.isclass(getattr(ts, name))}


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, object]:
    """Return what every public function returns, a small example of each."""
    folder = tmp_path_factory.mktemp("answers")
    changes = {"steps": 4, "checkpoint_every": 2}
    trained = ts.train("demo", folder / "runs", models=["tiny-3k"], overrides=changes)
    series = ts.open_series(folder / "runs")
    saved = [str(path) for path in sorted((folder / "runs").rglob("step_*.safetensors"))]
    step = np.arange(0, 3000, 100)
    frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3, "mine": np.log(step + 50.0)})
    frame["parameters"] = 1000
    log = folder / "train.log"
    log.write_text("".join(f"step:{s}/60 train_loss:{9 - s / 10}\n" for s in range(40)), encoding="utf-8")
    analysis = ts.analyze(frame)
    forecast = ts.forecast(frame, horizon=6000)
    models = pd.DataFrame({"parameters": [1e3, 1e4, 1e5, 1e6], "loss": [8.0, 4.1, 2.0, 0.99]})
    return {
        "train": trained,
        "open_series": series,
        "audit": ts.audit(series, cheap=True),
        "compare": ts.compare(saved[0], saved[-1]),
        "average": ts.average(series, folder / "mean", last=2),
        "measure": ts.measure(series, folder / "store", features=["baselines"]),
        "open_store": ts.open_store(folder / "store"),
        "read_log": ts.read_log(log),
        "check": ts.check(log),
        "cloud": ts.cloud(np.random.default_rng(0).normal(size=(12, 2)), draws=19, quiet=True),
        "two_sample": ts.two_sample(*np.random.default_rng(0).normal(size=(2, 16, 2)), draws=19),
        "analyze": analysis,
        "report": ts.report(analysis, folder / "report"),
        "forecast": forecast,
        "forecast(...).advise": forecast.advise(1e12, tokens_per_step=64),
        "fit_scaling_law": ts.fit_scaling_law(models, "power"),
    }


def test_every_public_function_is_looked_at(answers):
    assert {name for name in answers if name.isidentifier()} == _public_functions() - OF_ARRAYS


@pytest.mark.parametrize("name", [*sorted(_public_functions() - OF_ARRAYS), "forecast(...).advise"])
def test_what_a_public_function_returns_answers_first_and_has_tables_findings_and_a_picture(name, answers):
    made = answers[name]
    assert isinstance(made, Reply)
    first = repr(made).splitlines()[0]
    assert not first.startswith("<")
    assert 10 < len(first) <= 200
    shown = made._repr_html_()
    assert shown.startswith("<p><strong>")
    assert html.unescape(re.sub(r"<[^>]+>", "", shown)).startswith(first)
    assert isinstance(made.tables, Mapping)
    assert made.tables
    assert all(isinstance(table, pd.DataFrame) for table in made.tables.values())
    assert isinstance(made.findings, Iterable)
    assert all(isinstance(one, Finding | AuditFinding) for one in made.findings)
    mine = new_figure(2.0)[1][0, 0]
    assert made.plot(mine) is mine
    assert mine.has_data() or mine.texts
    assert isinstance(made.plot(ax=None), matplotlib.axes.Axes)
    assert next(iter(inspect.signature(type(made).plot).parameters.values())).name == "self"
    assert inspect.signature(type(made).plot).parameters["ax"].annotation == "Axes | None"
    assert "return" in (inspect.getdoc(type(made).plot) or "")


def test_the_functions_of_arrays_return_numbers_and_diagrams():
    points = np.random.default_rng(0).normal(size=(8, 2))
    diagrams = [*ts.rips(points), ts.weight_diagram(points)]
    assert all(isinstance(one, ts.Diagram) for one in diagrams)
    assert [repr(one).split(":")[0] for one in diagrams] == ["H0", "H1", "H0"]
    for one in diagrams:
        mine = new_figure(2.0)[1][0, 0]
        assert one.plot(mine) is mine
        assert one.pairs.shape == (len(one), 2)
    assert isinstance(ts.neural_persistence(points), float)


def _signs(ax: matplotlib.axes.Axes) -> dict[str, list[list[float]]]:
    return {
        str(line.get_label()): line.get_xydata().tolist()
        for line in ax.lines
        if not str(line.get_label()).startswith("_")
    }


def test_an_audit_draws_every_checkpoint_and_every_finding_at_its_step():
    found = (
        AuditFinding("b", 20, "", "ends too early", fault="unreadable"),
        AuditFinding("b", None, "", "says another", fault="stated-step"),
        AuditFinding("a", 10, "", "ends too early", fault="unreadable"),
    )
    audit = Audit({"a": (0, 10), "b": (10, 20)}, found)
    assert (audit.checkpoints, audit.runs) == (4, 2)
    assert audit.tables["findings"]["message"].tolist() == [one.message for one in found]
    ax = audit.plot()
    assert _signs(ax) == {"unreadable": [[20.0, 1.0], [10.0, 0.0]], "stated-step": [[10.0, 1.0]]}
    ticks = {line.get_gid(): line.get_xdata().tolist() for line in ax.lines if line.get_gid()}
    assert ticks == {"steps a": [0, 10], "steps b": [10, 20]}
    assert ax.get_title(loc="left") == "3 findings"
    assert repr(audit).splitlines()[1:] == [str(one) for one in found]


def test_of_many_runs_those_with_findings_are_drawn():
    steps = {f"run{n:02d}": (0, 1) for n in range(60)}
    ax = Audit(steps, (AuditFinding("run59", 1, "a", "is zero", fault="zero"),)).plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert len(names) == 40
    assert names[-1] == "run59"
    assert ax.get_title(loc="left") == "1 finding (40 of 60 runs)"
    assert Audit({}, ()).plot().texts[0].get_text() == "no checkpoint"


def test_a_series_says_which_steps_it_has_twice(tmp_path):
    from safetensors.numpy import save_file

    for name in ("step_10.safetensors", "step_000010.safetensors", "step_20.safetensors"):
        save_file({"fc.weight": np.eye(3, dtype=np.float32)}, tmp_path / name)
    series = ts.open_series(tmp_path)
    assert repr(series).splitlines()[0].startswith("2 checkpoints of 1 run; 1 ")
    assert [one.fault for one in series.findings] == ["duplicate-step"]
    assert series.tables["checkpoints"]["step"].tolist() == [10, 20]
    assert series.tables["runs"]["parameters"].tolist() == [9]
    assert _signs(series.plot()) == {"duplicate-step": [[10.0, 0.0]]}


def test_a_store_says_what_could_not_be_measured(tmp_path):
    whole, broken = {"fc.weight": np.eye(3)}, {"fc.weight": np.full((3, 3), np.nan)}
    store = ts.measure({"a": {0: whole, 10: broken}}, tmp_path / "store", features=["baselines"])
    assert repr(store).splitlines()[0].startswith("1 checkpoint of 1 run measured by baselines; 1 not meas")
    (lost,) = [one for one in store.findings if one.fault == "not measured"]
    assert (lost.run, lost.step) == ("a", 10)
    assert "is NaN" in lost.message or "not finite" in lost.message or "infinite" in lost.message
    assert store.measured_steps() == {"a": [0]}
    assert _signs(store.plot())["not measured"] == [[10.0, 0.0]]
    assert repr(ts.Store.create(tmp_path / "new", recipe={})).splitlines()[0] == "nothing measured yet"


def test_a_training_that_failed_says_so_first(tmp_path):
    run = RunRecord("tiny-seed1", family="gpt", parameters=2936, seed=1)
    made = Trained((TrainedRun(run, tmp_path / "none", "failed", problem="the loss is NaN"),))
    assert repr(made) == "1 run: 1 failed\ntiny-seed1: failed: the loss is NaN"
    assert [str(one) for one in made.findings] == ["tiny-seed1: failed: the loss is NaN"]
    assert made.tables["metrics"].empty
    assert made.plot().texts[0].get_text() == "no training loss in this store"


def test_a_comparison_finds_what_moved_and_draws_how_far(answers):
    compared = answers["compare"]
    (found,) = compared.findings
    assert (found.question, found.strength) == ("changed", "differ")
    assert found.numbers["changed"] == compared.changed
    ax = compared.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    drawn = dict(zip(names, (bar.get_width() / 100 for bar in ax.patches), strict=True))
    assert drawn == pytest.approx(compared.moved.set_index("name")["change"].to_dict())
    assert len(compared.figure().axes) == 3


def test_a_report_shows_the_first_figure_of_its_page(answers):
    made = answers["report"]
    first = next(iter(made.figures))
    assert first == "loss_table"
    shown = made.plot().images[0].get_array()
    assert shown.shape[:2] == matplotlib.image.imread(made.figures[first]).shape[:2]
    assert {path.suffix for path in made.figures.values()} == {".png"}


def test_findings_of_laws_and_forecasts_hold_numbers_with_intervals(answers):
    (law,) = answers["fit_scaling_law"].findings
    value, low, high = law.numbers["exponent"]
    assert low < value < high
    (end,) = answers["forecast"].findings
    assert (end.question, end.numbers["run"]) == ("end", "run")
    assert end.numbers["low"] < end.numbers["final_loss"] < end.numbers["high"]
    (on,) = answers["forecast(...).advise"].findings
    assert {option["action"] for option in on.numbers["options"]} == {"continue", "stop", "scale"}


@pytest.mark.parametrize(
    "name", ["analyze", "check", "forecast", "report", "cloud", "two_sample", "fit_scaling_law"]
)
def test_a_notebook_shows_ten_lines_a_picture_and_a_table(answers, name):
    shown = answers[name]._repr_html_()
    assert shown.count('src="data:image/png;base64,') == 1
    assert shown.count("<table") <= 2  # the checks of a first screen are one
    said = re.sub(r"<table.*?</table>", "", shown, flags=re.S)
    assert said.count("<br>") <= 9
    assert len(re.sub(r"<[^>]+>", " ", said).split()) < 200
