"""`reproduce`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.injury import after, command, hurt_until_interrupted, measured, write_paper_runs
from tests.faults.test_faults import call

pytest.importorskip("torch")


def made(out: Path) -> object:
    return measured(out, "stores/seed004", "stores/text"), (out / "seed004.md").read_text()


@pytest.mark.slow
def test_a_study_hurt_again_and_again_goes_on_to_the_same_end(tmp_path: Path) -> None:
    runs = write_paper_runs(tmp_path / "given")
    out, whole = tmp_path / "out", tmp_path / "whole"
    line = ["reproduce", "seed004", "--runs", runs, "--jobs"]
    assert call(*line, 1, "--out", whole) == 0
    first, second = out / "stores" / "seed004", out / "stores" / "text"
    both = command(*line, 2, "--out", out)
    hurt_until_interrupted(
        both,
        ("SIGSTOP and SIGCONT", after(first, 1)),
        ("a worker killed", after(first, 2)),
        ("SIGINT", after(first, 4)),
    )
    hurt_until_interrupted(both, ("all workers killed", after(second, 1)), ("SIGTERM", after(second, 2)))
    assert not (out / "seed004.md").exists()
    assert call(*line, 1, "--out", out) == 0
    assert made(out) == made(whole)
