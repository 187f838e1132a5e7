"""`reproduce`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same page."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.injury import (
    after,
    command,
    hurt_until_interrupted,
    hurt_until_killed,
    measured,
    write_paper_runs,
)
from tests.faults.test_faults import call
from tests.patience import PATIENCE

pytest.importorskip("torch")

pytestmark = pytest.mark.faults


def made(out: Path) -> object:
    return measured(out, "stores/seed004", "stores/text"), (out / "seed004.md").read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_paper_runs(tmp_path_factory.mktemp("given") / "paper")


@pytest.fixture(scope="module")
def whole(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> object:
    out = tmp_path_factory.mktemp("whole")
    assert call("reproduce", "seed004", "--runs", runs, "--jobs", 1, "--out", out) == 0
    return made(out)


@pytest.mark.slow
def test_a_study_hurt_again_and_again_goes_on_to_the_same_end(
    runs: Path, whole: object, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    line = ["reproduce", "seed004", "--runs", runs, "--jobs"]
    first, second = out / "stores" / "seed004", out / "stores" / "text"
    both = command(*line, 2, "--out", out)
    hurt_until_interrupted(
        both,
        ("SIGSTOP and SIGCONT", after(first, 1)),
        ("a worker killed", after(first, 2)),
        ("SIGINT", after(first, 4)),
    )
    hurt_until_interrupted(both, ("all workers killed", after(second, 1)), ("SIGTERM", after(second, 2)))
    hurt_until_killed(both, ("killed", after(second, 3)))
    assert not (out / "seed004.md").exists()
    assert call(*line, 1, "--out", out) == 0
    assert made(out) == whole


@pytest.mark.slow
def test_two_writers_of_a_study_leave_what_one_does(runs: Path, whole: object, tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = command("reproduce", "seed004", "--runs", runs, "--jobs", 1, "--out", out)
    both = [
        subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in "ab"
    ]
    errors = [process.communicate(timeout=PATIENCE)[1] for process in both]
    for process, err in zip(both, errors, strict=True):
        assert process.returncode == 0, err
        assert "Traceback" not in err
    assert made(out) == whole


@pytest.mark.slow
def test_a_disk_that_a_study_fills(
    runs: Path, whole: object, mount: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = mount("size=64k")
    line = ["reproduce", "seed004", "--runs", runs, "--jobs", 1, "--out", disk / "out"]
    assert call(*line) == 1
    assert "the disk is full" in capsys.readouterr().err.splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    assert call(*line) == 0
    assert made(disk / "out") == whole
