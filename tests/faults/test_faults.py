"""Every command that writes, hurt from outside: it ends, says so, and repeating it ends as if nothing was."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.injury import FAULTS, command, contents, hurt, measured, write_recipe, write_series
from tests.patience import PATIENCE
from toposcope.cli.main import main

pytestmark = pytest.mark.faults

SMALL = ("--points", "40", "--draws", "3", "--nulls", "3", "--no-audit")


@dataclass(frozen=True)
class Case:
    """A command that writes to a folder, what it leaves there once some of it is done, and what it made.

    `begun` is empty where the command writes all at once, at its end.
    """

    line: Callable[[Path, Path], list[object]]
    begun: str
    made: Callable[[Path], object]


def _trained(out: Path) -> object:
    return contents(out, without=("metrics", ".json", "resume", "state", ".aside"))


CASES = {
    "train": Case(
        lambda given, out: ["train", "--recipe", given / "small.toml", "--out", out, "--jobs", 2, "--json"],
        "*/checkpoints/*40*",
        _trained,
    ),
    "weights": Case(
        lambda given, out: ["weights", given / "series", "--out", out, "--jobs", 2, *SMALL],
        "features/*",
        measured,
    ),
    "embeddings": Case(
        lambda given, out: [
            "embeddings", given / "runs", "--texts", given / "text.txt", "--out", out, "--jobs", 2,
            "--limit", 10, "--min-chars", 10, "--no-audit",
        ],
        "features/*",
        measured,
    ),
    "merge": Case(
        lambda given, out: ["merge", given / "store", given / "other", "--out", out], "", measured
    ),
    "export": Case(lambda given, out: ["export", given / "store", "--out", out], "*", contents),
    "report": Case(lambda given, out: ["report", given / "store", "--out", out], "", contents),
}  # fmt: skip
ELSEWHERE = {
    "demo": lambda given, out: ["demo", "--out", out],
    "landscape": lambda given, out: ["landscape", given / "runs", "--out", out],
    "reproduce": lambda given, out: ["reproduce", "landscape", "--runs", given / "runs", "--out", out],
}
"""Other commands that write: test_surfaces, test_reproduce and test_demo hurt them."""


def alone(line: list[object]) -> list[object]:
    """Return a command's line with one process in the place of two: the result is the same."""
    return [1 if part == 2 else part for part in line]


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    write_recipe(folder, steps=400, every=40)
    write_series(folder / "series", runs=2, steps=12)
    assert call("weights", folder / "series", "--out", folder / "store", *SMALL) == 0
    write_series(folder / "more", runs=3, steps=4)
    assert call("weights", folder / "more" / "run2", "--out", folder / "other", *SMALL) == 0
    few = ("--set", "steps=40", "--set", "checkpoint_every=10", "--jobs", 1)
    assert call("train", "--recipe", folder / "small.toml", "--out", folder / "runs", *few) == 0
    return folder


@pytest.fixture(scope="module")
def reference(given: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    made = {}
    for name, case in CASES.items():
        out = tmp_path_factory.mktemp("reference") / name
        assert call(*alone(case.line(given, out))) == 0
        made[name] = case.made(out)
    return made


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, fault) for name in ("train", "weights") for fault in FAULTS if fault != "killed"),
    ],
)
def test_hurt_in_the_middle(
    name: str, fault: str, given: Path, reference: dict[str, object], tmp_path: Path
) -> None:
    case, out = CASES[name], tmp_path / "out"
    line = case.line(given, out)
    ending, had = hurt(command(*line), (fault, lambda: any(out.glob(case.begun))))
    assert any(had), "the fault came after the end"
    assert ending.code is not None, "it waits for ever"
    if fault in ("SIGTERM", "SIGINT"):
        assert ending.code == 1
        assert "interrupted; finished work is saved" in ending.err.splitlines()[-1]
    elif name == "train" and "killed" in fault:
        assert ending.code == 1
        assert "was killed (SIGKILL, most likely out of memory); repeat the command to continue" in ending.out
    else:
        assert ending.code == 0, ending.err
    assert "Traceback" not in ending.err
    assert call(*alone(line)) == 0
    assert case.made(out) == reference[name]


@pytest.mark.parametrize("fault", ["SIGTERM", "SIGINT", "killed"])
def test_a_page_is_there_whole_or_not_at_all(
    fault: str, given: Path, reference: dict[str, object], tmp_path: Path
) -> None:
    line = CASES["report"].line(given, tmp_path / "out")
    ending, _ = hurt(command(*line), (fault, lambda: any(tmp_path.glob(".out.*.partial"))))
    assert ending.code == (-9 if fault == "killed" else 1), ending.err
    assert "Traceback" not in ending.err
    assert not (tmp_path / "out").exists()
    assert call(*line) == 0
    assert CASES["report"].made(tmp_path / "out") == reference["report"]


@pytest.mark.parametrize("fault", ["a worker killed", "all workers killed", "SIGSTOP and SIGCONT"])
def test_a_page_is_drawn_whatever_becomes_of_its_second_process(
    fault: str, given: Path, reference: dict[str, object], tmp_path: Path
) -> None:
    line = CASES["report"].line(given, tmp_path / "out")
    ending, had = hurt(command(*line), (fault, lambda: True), at_work=True)
    assert had == [1], "the fault came after the end"
    assert ending.code == 0, ending.err
    assert "Traceback" not in ending.err
    assert CASES["report"].made(tmp_path / "out") == reference["report"]


@pytest.mark.parametrize("name", list(CASES))
def test_two_writers_at_once(name: str, given: Path, reference: dict[str, object], tmp_path: Path) -> None:
    case, out = CASES[name], tmp_path / "out"
    line = command(*case.line(given, out))
    both = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "ab"]
    ends = [(*process.communicate(timeout=PATIENCE), process.returncode) for process in both]
    for out_text, err, code in ends:
        assert code == 0 or (name == "train" and "another process is training it" in out_text), out_text + err
        assert "Traceback" not in err
    assert call(*alone(case.line(given, out))) == 0
    assert case.made(out) == reference[name]


@pytest.mark.parametrize("name", list(CASES))
def test_a_full_disk(
    name: str,
    given: Path,
    reference: dict[str, object],
    mount: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    disk = mount("size=16k" if name in ("merge", "embeddings") else "size=64k")
    line = CASES[name].line(given, disk / "out")
    assert call(*line) == 1
    assert "the disk is full" in capsys.readouterr().err.splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    assert call(*line) == 0
    assert CASES[name].made(disk / "out") == reference[name]


@pytest.mark.parametrize("name", [*CASES, *ELSEWHERE])
def test_a_disk_that_cannot_be_written(
    name: str, given: Path, mount: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = mount("size=1m,ro")
    line = CASES[name].line if name in CASES else ELSEWHERE[name]
    assert call(*line(given, disk / "out")) == 2
    err = capsys.readouterr().err.splitlines()
    assert "Read-only file system" in err[-1]
    assert not any("Traceback" in line for line in err)
