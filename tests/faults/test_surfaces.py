"""`landscape`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.injury import (
    after,
    command,
    finish,
    hurt_until_interrupted,
    measured,
    write_recipe,
)

pytest.importorskip("torch")
FEW = ("--features", "sharpness,surface", "--resolution", 5, "--length", 16, "--sequences", 4)


def line(runs: Path, out: Path, *, jobs: int) -> list[str]:
    return command("landscape", runs, "--out", out, "--batches", 1, "--seeds", 1, "--jobs", jobs, *FEW)


@pytest.mark.slow
def test_surfaces_hurt_in_the_middle_go_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "NUMBA_NUM_THREADS", "1"
    )  # one process as each of two: sums depend on it in their last digits
    recipe = write_recipe(tmp_path, steps=40, every=4)
    recipe.write_text("[[models]]".join(recipe.read_text().split("[[models]]")[:2]))
    runs, whole, out = (tmp_path / name for name in ("runs", "whole", "out"))
    ended = finish(command("train", "--recipe", recipe, "--out", runs, "--jobs", 1))
    assert ended.code == 0, ended.err
    assert finish(line(runs, whole, jobs=1)).code == 0
    hurt_until_interrupted(
        line(runs, out, jobs=2),
        ("SIGSTOP and SIGCONT", after(out, 1)),
        ("a worker killed", after(out, 2)),
        ("SIGTERM", after(out, 4)),
    )
    again = finish(line(runs, out, jobs=1))
    assert again.code == 0, again.err
    assert measured(out) == measured(whole)
