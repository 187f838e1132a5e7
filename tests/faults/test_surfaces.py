"""`landscape`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same bits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.injury import (
    after,
    command,
    finish,
    hurt_until_interrupted,
    hurt_until_killed,
    measured,
    write_recipe,
)
from tests.patience import PATIENCE

pytest.importorskip("torch")

pytestmark = pytest.mark.faults
FEW = ("--features", "sharpness,surface", "--resolution", 5, "--length", 16, "--sequences", 4)


def line(runs: Path, out: Path, *, jobs: int) -> list[str]:
    return command("landscape", runs, "--out", out, "--batches", 1, "--draws", 1, "--jobs", jobs, *FEW)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process as each of two: sums depend on the number of threads in their last digits."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    recipe = write_recipe(folder, steps=40, every=4)
    recipe.write_text("[[models]]".join(recipe.read_text().split("[[models]]")[:2]))
    ended = finish(command("train", "--recipe", recipe, "--out", folder / "runs", "--jobs", 1))
    assert ended.code == 0, ended.err
    return folder / "runs"


@pytest.fixture(scope="module")
def whole(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as here:
        here.setenv("NUMBA_NUM_THREADS", "1")
        assert finish(line(runs, out, jobs=1)).code == 0
    return measured(out)


@pytest.mark.slow
def test_surfaces_hurt_in_the_middle_go_on_to_the_same_end(
    runs: Path, whole: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    hurt_until_interrupted(
        line(runs, out, jobs=2),
        ("SIGSTOP and SIGCONT", after(out, 1)),
        ("a worker killed", after(out, 2)),
        ("SIGTERM", after(out, 4)),
    )
    both = line(runs, out, jobs=2)
    hurt_until_interrupted(both, ("all workers killed", after(out, 5)), ("SIGINT", after(out, 6)))
    hurt_until_killed(both, ("killed", after(out, 7)))
    again = finish(line(runs, out, jobs=1))
    assert again.code == 0, again.err
    assert measured(out) == whole


@pytest.mark.slow
def test_two_writers_of_surfaces_leave_what_one_does(runs: Path, whole: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    both = [subprocess.Popen(line(runs, out, jobs=1), stderr=subprocess.PIPE, text=True) for _ in "ab"]
    errors = [process.communicate(timeout=PATIENCE)[1] for process in both]
    for process, err in zip(both, errors, strict=True):
        assert process.returncode == 0, err
        assert "Traceback" not in err
    assert measured(out) == whole


@pytest.mark.slow
def test_a_disk_that_surfaces_fill(runs: Path, whole: list[str], mount: Callable[[str], Path]) -> None:
    disk = mount("size=64k")
    ended = finish(line(runs, disk / "out", jobs=1))
    assert ended.code == 1
    assert "the disk is full" in ended.err.splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    assert finish(line(runs, disk / "out", jobs=1)).code == 0
    assert measured(disk / "out") == whole
