"""`toposcope cloud` and `ts.cloud`: the answer, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re

import matplotlib.axes
import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.cli.main import main
from toposcope.clouds.power import planted_circle
from toposcope.clouds.ring import longest_bar


@pytest.fixture(scope="module")
def ring():
    return ts.cloud(planted_circle(80, 3, 0.15, np.random.default_rng(0)), draws=39, quiet=True)


@pytest.fixture(scope="module")
def none():
    return ts.cloud(np.random.default_rng(1).standard_normal((80, 3)), draws=19, noise=0.1, quiet=True)


def test_a_circle_is_a_ring_and_the_first_line_says_so(ring):
    assert ring.verdict == "ring"
    assert re.fullmatch(
        r"Ring: yes; its longest loop \(H1 bar\) is [\d.]+ x the limit of clouds without a ring "
        r"\(p = \.025, 39 draws, false rings <= 5%\)\.",
        ring.line,
    )
    assert repr(ring).splitlines()[0] == ring.line
    assert any(line.startswith("Power: ") for line in ring.lines)
    assert ring.lines[-1].startswith("Limits: ")


def test_a_gaussian_has_no_ring_and_the_power_says_that_one_would_be_seen(none):
    assert none.verdict == "no ring shown"
    assert none.line.startswith("Ring: none shown; ")
    assert none.power.share >= 0.8


def test_too_few_points_cannot_tell():
    found = ts.cloud(np.random.default_rng(2).standard_normal((9, 3)), draws=19, quiet=True)
    assert found.verdict == "cannot tell"
    assert re.match(
        r"Ring: cannot tell \(too few points: power \d+% for a circle with noise 0\.3\)", found.line
    )


def test_rows_that_occur_again_add_no_power():
    few = np.random.default_rng(2).standard_normal((9, 3))
    found = ts.cloud(np.repeat(few, 10, axis=0), draws=19, quiet=True)
    assert found.power.points == 9
    assert found.verdict == "cannot tell"
    assert "90 points in 3 dimensions, 9 of them distinct" in repr(found)


def test_one_dimension_has_no_circle():
    found = ts.cloud(np.arange(12.0)[:, None], draws=19, quiet=True)
    assert found.power is None
    assert found.verdict == "cannot tell"


def test_the_answer_is_the_same_each_time_and_in_any_unit(ring):
    points = planted_circle(80, 3, 0.15, np.random.default_rng(0))
    again = ts.cloud(points, draws=39, quiet=True)
    assert again.to_dict() == ring.to_dict()
    huge = ts.cloud(points * 2.0**900, draws=39, quiet=True)
    assert huge.line == ring.line
    assert huge.test.birth == ring.test.birth * 2.0**900
    assert huge.plane.radius == pytest.approx(ring.plane.radius * 2.0**900)


def test_a_larger_cloud_is_drawn_from_and_says_so():
    points = planted_circle(300, 3, 0.1, np.random.default_rng(3))
    found = ts.cloud(points, draws=19, max_points=60, seed=4, quiet=True)
    assert len(found.rows) == 60
    assert "300 points in 3 dimensions, of which 60 were drawn (seed 4)" in repr(found)
    other = ts.cloud(points, draws=19, max_points=60, seed=5, quiet=True)
    assert not np.array_equal(found.rows, other.rows)
    assert set(found.to_dict()["plane"]["cycle"]) <= set(found.rows.tolist())


def test_the_rows_of_the_loop_are_named_in_order(ring):
    h1 = ring.diagrams[1]
    cycle = h1.cycles[longest_bar(h1)]
    assert ring.plane.cycle.tolist() == list(cycle)
    edges = ring.plane.places[list(cycle)] - ring.plane.places[list(cycle[-1:] + cycle[:-1])]
    assert np.linalg.norm(edges, axis=1).max() <= ring.test.birth * (1 + 1e-9)
    assert f"in order the rows {', '.join(map(str, ring.rows[list(cycle[:12])]))} and " in repr(ring)


def test_the_rows_of_the_loop_are_those_of_the_given_cloud():
    points = planted_circle(70, 2, 0.05, np.random.default_rng(8))
    found = ts.cloud(points, draws=19, max_points=40, quiet=True)
    ring = points[found.to_dict()["plane"]["cycle"]]
    closing = np.linalg.norm(ring[0] - ring[-1])
    assert closing == pytest.approx(found.test.birth)


def test_tables_figure_and_findings(ring):
    assert len(ring.tables["nulls"]) == 8
    assert ring.tables["nulls"]["p"].max() == ring.test.largest_p
    points = ring.tables["points"]
    assert (points["on_cycle"] >= 0).sum() == len(ring.plane.cycle)
    assert list(ring.tables["summaries"]["dim"]) == [0, 1]
    assert ring.findings[0].strength == "ring"
    ax = ring.plot()
    assert isinstance(ax, matplotlib.axes.Axes)
    assert ax.get_title(loc="left").startswith("A ring (")
    assert len(ring.figure().axes) == 2


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_the_command_answers_first_and_writes_four_files(tmp_path, capsys):
    np.save(tmp_path / "c.npy", planted_circle(60, 2, 0.1, np.random.default_rng(0)))
    assert run("cloud", tmp_path / "c.npy", "--draws", 19, "--out", tmp_path / "out") == 0
    assert capsys.readouterr().out.startswith("Ring: yes; its longest loop (H1 bar)")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "answer.json", "diagrams.parquet", "ring.png", "ring.svg",
    ]  # fmt: skip
    assert json.loads((tmp_path / "out" / "answer.json").read_text())["verdict"] == "ring"
    bars = pd.read_parquet(tmp_path / "out" / "diagrams.parquet")
    assert (bars["dim"] == 0).sum() == 60


def test_json_is_strict_and_whole(tmp_path, capsys):
    np.save(tmp_path / "c.npy", np.random.default_rng(0).standard_normal((12, 2)))
    assert run("cloud", tmp_path / "c.npy", "--draws", 19, "--json") == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out, parse_constant=lambda name: pytest.fail(name))
    assert answer["verdict"] == "cannot tell"
    assert {"power", "plane", "nulls", "intrinsic_dimension", "summaries", "limits"} <= set(answer)
    assert printed.err == ""


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--draws", 5), "--draws 5"), (("--max-points", 2), "--max-points 2"),
        (("--noise", -1), "--noise -1"),
        (("--noise", "nan"), "--noise nan"), (("--tensor", "a"), "--tensor"),
        (("--columns", "a"), "--tensor"),
    ],
)  # fmt: skip
def test_a_bad_option_is_one_line_and_writes_nothing(options, word, tmp_path, capsys):
    np.save(tmp_path / "c.npy", np.random.default_rng(0).standard_normal((12, 2)))
    assert run("cloud", tmp_path / "c.npy", *options, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.startswith("toposcope: error: ")
    assert word in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_cost_is_said_before_long_work(monkeypatch, capsys):
    from toposcope.api import clouds

    monkeypatch.setattr(clouds, "_WORTH_SAYING", 0.0)
    ts.cloud(np.random.default_rng(0).standard_normal((10, 2)), draws=19)
    assert re.match(r"251 diagrams of 10 points: about \d+", capsys.readouterr().err)
