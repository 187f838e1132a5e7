"""`embeddings`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same rows."""

from __future__ import annotations

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

pytest.importorskip("torch")

pytestmark = pytest.mark.faults


def line(given: Path, out: Path, *, jobs: int) -> list[str]:
    few = ("--limit", 30, "--min-chars", 10, "--no-audit")
    return command(
        "embeddings", given / "runs", "--texts", given / "text.txt", "--out", out, "--jobs", jobs, *few
    )


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    recipe = write_recipe(folder, steps=40, every=2)
    ended = finish(command("train", "--recipe", recipe, "--out", folder / "runs", "--jobs", 1))
    assert ended.code == 0, ended.err
    return folder


@pytest.mark.slow
def test_states_hurt_again_and_again_go_on_to_the_same_end(given: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert finish(line(given, whole, jobs=1)).code == 0
    both = line(given, out, jobs=2)
    hurt_until_interrupted(
        both,
        ("SIGSTOP and SIGCONT", after(out, 1)),
        ("a worker killed", after(out, 1)),
        ("SIGINT", after(out, 2)),
    )
    hurt_until_interrupted(both, ("all workers killed", after(out, 3)), ("SIGTERM", after(out, 4)))
    hurt_until_killed(both, ("killed", after(out, 5)))
    again = finish(line(given, out, jobs=1))
    assert again.code == 0, again.err
    assert measured(out) == measured(whole)
