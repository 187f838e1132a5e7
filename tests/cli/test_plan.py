"""--plan says cost, memory and what the result can tell, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sweep.conftest import write_run_folder
from toposcope.api.plans import tells
from toposcope.cli.main import main
from toposcope.core.types import RunRecord


def call(capsys: pytest.CaptureFixture[str], *line: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in line])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def held(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.parametrize("features", ["cheap", "all"])
def test_a_sweep_is_planned(features: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        write_run_folder(tmp_path / "runs" / name, range(0, 240, 10))
    before = held(tmp_path)
    line = ("weights", tmp_path / "runs", "--features", features, "--out", tmp_path / "store", "--plan")
    code, out, err = call(capsys, *line)
    assert (code, err) == (0, "")
    assert out.startswith("48 checkpoints of 2 runs")
    assert "of memory" in out
    code, out, _ = call(capsys, *line, "--json")
    plan = json.loads(out)
    least, most = plan["seconds"]
    assert 0 < least < most
    assert plan["memory_bytes"] > 0
    assert len(plan["tells"]) == 5
    assert held(tmp_path) == before


def test_a_plan_of_fewer_steps_tells_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run_folder(tmp_path / "run", range(0, 240, 10))
    line = ("weights", tmp_path / "run", "--out", tmp_path / "store", "--plan", "--json")
    every = json.loads(call(capsys, *line)[1])
    few = json.loads(call(capsys, *line, "--steps", "0:40")[1])
    assert (every["checkpoints"], few["checkpoints"]) == (24, 5)
    assert few["seconds"][0] < every["seconds"][0]
    assert [one.startswith("Beyond the loss: yes") for one in (every["tells"][1], few["tells"][1])] == [
        True,
        False,
    ]


def test_a_training_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "train",
        "--models",
        "tiny-3k",
        "--seeds",
        "1,2,3",
        "--out",
        tmp_path / "runs",
        "--plan",
        "--json",
    )
    code, out, _ = call(capsys, *line)
    plan = json.loads(out)
    assert code == 0
    assert list(plan["runs"]) == ["tiny-3k-seed1", "tiny-3k-seed2", "tiny-3k-seed3"]
    assert plan["flop"] > 0
    assert plan["disk_bytes"] == 4 * plan["checkpoints"] * sum(plan["runs"].values())
    assert not (tmp_path / "runs").exists()
    assert call(capsys, "train", "--plan")[0] == 0  # without a folder


@pytest.mark.parametrize(
    ("count", "known", "dated", "tested"),
    [
        (11, 11, False, False), (12, 12, False, True), (17, 17, False, True), (18, 18, True, True),
        (40, 0, True, False),
    ],
)  # fmt: skip
def test_what_can_be_told_follows_the_tests_own_limits(
    count: int, known: int, dated: bool, tested: bool
) -> None:
    when, beyond, seeds, scale, forecasts = tells(
        {"a": range(count)}, [RunRecord("a", parameters=9)], losses={"a": known}
    )
    assert ("yes, " in when) == dated
    assert ("yes, " in beyond) == tested
    assert ("give a log with `losses`" in beyond) == (known == 0)
    assert "one seed" in seeds
    assert "1 size" in scale
    assert "1 run" in forecasts


@pytest.mark.parametrize(("seeds", "word"), [(1, "one seed"), (2, "without an interval"), (3, "yes, 3")])
def test_seeds(seeds: int, word: str) -> None:
    runs = [RunRecord(f"a-seed{seed}", "gpt", 9, seed) for seed in range(seeds)]
    assert word in tells({run.run: range(20) for run in runs}, runs, losses=None)[2]
