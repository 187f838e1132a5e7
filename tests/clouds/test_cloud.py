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


@pytest.fixture
def two(tmp_path):
    """Write a cloud, and the same rows with one axis three times as long."""
    generator = np.random.default_rng(2)
    before = generator.normal(size=(64, 4))
    np.save(tmp_path / "before.npy", before)
    np.save(tmp_path / "after.npy", before * [3, 1, 1, 1] + generator.normal(0, 0.1, (64, 4)))
    return [str(tmp_path / name) for name in ("before.npy", "after.npy")]


def test_two_clouds_are_compared_and_the_first_line_is_the_answer(two, capsys):
    assert run("cloud", *two, "--paired") == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"The two clouds differ by \d+% \(95%: \d+% to \d+%\): p = \.0078, all 128 swaps of 8 pairs of "
        r"blocks of 8 rows; [\d,]+ rows of each find half this shift in 80%\.",
        first,
    )
    assert [line.partition(":")[0] for line in rest] == ["Effect", "Plan", "Tested", "Limits"]
    assert all(name in rest[2] for name in two)


def test_the_answer_on_two_clouds_as_json_has_its_numbers(two, capsys):
    assert run("cloud", *two, "--paired", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["p"], found["splits"], found["units"]) == ("differ", 1 / 128, 128, [8, 8])
    assert found["plan"]["low"] < found["plan"]["needed"]
    assert found["plan"]["needed"] % 8 == 0


def test_two_equal_clouds_show_no_difference_and_what_could_have_been_missed():
    answer = ts.two_sample(*np.random.default_rng(3).normal(size=(2, 128, 3)))
    assert answer.verdict == "no difference shown"
    assert re.search(r"a shift of [\d.]+% of the distance is found in 80%\.$", answer.line)
    plan = next(line for line in answer.lines if line.startswith("Plan"))
    half = answer.test.detectable() / 2.0
    rows = answer.test.needed_for(half)
    assert rows > 128
    assert f"needs {rows:,.0f} rows of each" in plan


def test_too_few_rows_cannot_tell():
    answer = ts.two_sample(*np.random.default_rng(4).normal(size=(2, 6, 3)), paired=True)
    assert answer.verdict == "cannot tell"
    assert answer.line.endswith("allow no p below .25; give at least 12 rows of each.")


def test_folders_of_clouds_are_paired_by_the_names_of_their_files(tmp_path, capsys):
    generator = np.random.default_rng(5)
    for folder, scale in (("plain", 1.0), ("wide", 3.0)):
        (tmp_path / folder).mkdir()
        for seed in range(6):
            np.save(tmp_path / folder / f"seed{seed}.npy", scale * generator.normal(size=(12, 3)))
    folders = [str(tmp_path / name) for name in ("plain", "wide")]
    assert run("cloud", *folders, "--paired", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unit"], found["p"]) == ("cloud", 1 / 32)
    (tmp_path / "wide" / "seed5.npy").rename(tmp_path / "wide" / "seed6.npy")
    assert run("cloud", *folders, "--paired") == 2
    assert "'seed5'" in capsys.readouterr().err


def test_a_stack_of_clouds_in_a_file_is_a_group(tmp_path):
    stacks = np.random.default_rng(6).normal(size=(2, 5, 12, 2))
    np.save(tmp_path / "a.npy", stacks[0])
    answer = ts.two_sample(tmp_path / "a.npy", stacks[1])
    assert (answer.test.unit, answer.test.sizes) == ("cloud", (5, 5))
    assert answer.names == (str(tmp_path / "a.npy"), "B")


def test_paired_clouds_are_subsampled_alike():
    points = np.random.default_rng(7).normal(size=(200, 2))
    answer = ts.two_sample(points, points, paired=True, max_points=64)
    assert (answer.test.sizes, answer.test.p) == ((8, 8), 1.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["B", "--noise", "0.3"], "--noise: it belongs to the ring of one cloud"),
        (["--paired"], "--paired: it compares two clouds"),
        (["B", "C"], "3 files were given"),
        (["B", "--distance", "hausdorff"], "--distance 'hausdorff': it does not compare two clouds"),
        (["B", "--distance", "rtd-lite"], "add --paired"),
        (["B", "--draws", "3"], "--draws 3: a p-value of .05 needs at least 19 draws"),
        (["B", "--max-points", "1"], "--max-points 1: give at least 2 rows"),
        (["B", "--block", "1"], "--block 1: a block has at least 2 rows"),
        (["short", "--paired"], "short.npy 20, which cannot be pairs"),
        (["single"], "single.npy has one row; give at least 4 of each cloud"),
        (["wide", "--distance", "points"], "first has 2 columns and second 3"),
        (["holed"], "holed.npy[2, 1] is nan"),
        (["folder"], "has no file of points"),
        (["stack"], "stack.npy several clouds; give two of one kind"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(words, said, tmp_path, capsys):
    points = np.random.default_rng(8).normal(size=(32, 2))
    holed = np.where(np.arange(64).reshape(32, 2) == 5, np.nan, points)
    arrays = {"A": points, "B": points, "C": points, "short": points[:20], "holed": holed}
    arrays |= {"single": points[:1], "wide": np.zeros((32, 3))}
    for name, array in {**arrays, "stack": points.reshape(4, 8, 2)}.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "folder").mkdir()
    names = [str(tmp_path / f"{word}.npy") if word in {*arrays, "stack"} else
             str(tmp_path / word) if word == "folder" else word for word in words]  # fmt: skip
    assert run("cloud", tmp_path / "A.npy", *names) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
