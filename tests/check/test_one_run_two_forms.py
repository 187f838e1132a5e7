"""A folder in which a trainer wrote the log of one run twice, in two forms, is one run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts

LOSS = 2 + 3 / np.sqrt(np.arange(1, 61)) + np.random.default_rng(0).normal(0, 0.02, 60)
OTHER = LOSS + np.random.default_rng(1).normal(0, 0.02, 60)


def as_table(file: Path, loss: np.ndarray = LOSS) -> None:
    pd.DataFrame({"step": range(1, 61), "loss": loss}).to_csv(file, index=False)


def as_text(file: Path, loss: np.ndarray = LOSS) -> None:
    file.write_text("".join(f"step {n}: loss {one:.3f}\n" for n, one in enumerate(loss, 1)))


def as_json(file: Path, loss: np.ndarray = LOSS) -> None:
    file.write_text("".join(f'{{"step": {n}, "loss": {one:.5f}}}\n' for n, one in enumerate(loss, 1)))


def test_the_one_with_the_finest_digits_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    as_table(tmp_path / "losses.csv")
    as_text(tmp_path / "console.txt")
    as_json(tmp_path / "history.jsonl")
    answer = ts.check(tmp_path)
    (run,) = answer.runs
    assert run.name.endswith("losses.csv")
    assert "The same losses are in" in str(answer)
    assert "console.txt" in str(answer)
    assert "history.jsonl" in str(answer)


@pytest.mark.parametrize("second", [(as_table, "b.csv", LOSS), (as_text, "b.txt", OTHER)])
def test_two_copies_of_one_form_and_two_runs_stay_two(tmp_path: Path, second: tuple) -> None:
    write, name, loss = second
    as_table(tmp_path / "a.csv")
    write(tmp_path / name, loss)
    assert len(ts.check(tmp_path).runs) == 2


def test_runs_in_folders_of_their_own_stay_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    as_table(tmp_path / "a" / "losses.csv")
    as_text(tmp_path / "a" / "console.txt")
    as_table(tmp_path / "b" / "losses.csv", OTHER)
    assert len(ts.check(tmp_path).runs) == 2
