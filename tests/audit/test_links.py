"""Checkpoints that are links out of their folder: one line and a count, whatever asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.cli.main import main


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """Return a folder of three links to checkpoints elsewhere, and one checkpoint of its own."""
    folder, real = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    real.mkdir()
    for step in (0, 10, 20):
        np.savez(real / f"step_{step}.npz", **{"fc.weight": np.eye(3) * (step + 1.0)})
        (folder / f"step_{step}.npz").symlink_to(real / f"step_{step}.npz")
    np.savez(folder / "step_30.npz", **{"fc.weight": np.eye(3) * 31.0})
    return folder


def test_links_out_of_a_folder_are_one_finding_with_their_number(linked: Path) -> None:
    (one,) = (found for found in ts.audit(linked).findings if found.fault == "unreadable")
    assert one.message.endswith("; so at 3 steps from 0 to 20")
    assert one.steps == (0, 10, 20)


def test_a_check_says_so_once(linked: Path) -> None:
    lines = ts.check(linked).lines
    assert sum("is a link" in line for line in lines) == 1


def planned(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    with pytest.raises(SystemExit) as ended:
        main(["weights", str(folder), "--plan"])
    lines = capsys.readouterr().out.splitlines()
    return int(ended.value.code or 0), [line for line in lines if line.startswith("problem: ")]


def test_a_plan_says_once_that_they_cannot_be_read(
    linked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    code, (problem,) = planned(linked, capsys)
    assert code == 1
    assert "is a link to" in problem
    assert "copy the target into the folder" in problem
    assert problem.endswith("; so at 3 steps from 0 to 20")


def test_a_plan_counts_the_checkpoints_that_are_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    np.savez(tmp_path / "step_0.npz", **{"fc.weight": np.eye(3)})
    assert planned(tmp_path, capsys) == (0, [])
    for step in (10, 20, 30):
        (tmp_path / f"step_{step}.npz").symlink_to("step_0.npz")
    code, (problem,) = planned(tmp_path, capsys)
    assert code == 1
    assert "4 checkpoints are links to one file" in problem


def test_a_plan_sees_links_within_the_folders_of_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no problem, and expected 0.0 MB of weights."""
    monkeypatch.setenv("COLUMNS", "1000")
    np.savez(tmp_path / "real.npz", **{"fc.weight": np.eye(3)})
    for step in (10, 20):
        (tmp_path / "run" / f"step_{step}").mkdir(parents=True)
        (tmp_path / "run" / f"step_{step}" / "model.npz").symlink_to(tmp_path / "real.npz")
    code, (problem,) = planned(tmp_path / "run", capsys)
    assert code == 1
    assert "is a link to" in problem
    assert problem.endswith("; so at 2 steps from 10 to 20")


def test_steps_with_the_final_weights_are_one_line_and_a_count(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        np.savez(tmp_path / f"step_{step}.npz", **{"fc.weight": np.eye(3)})
    (one,) = ts.audit(tmp_path).findings
    assert one.message == "has exactly the weights of the final step 40; so at 3 steps from 10 to 30"
    (said,) = (line for line in str(ts.check(tmp_path)).splitlines() if "final step" in line)
    assert "do not resume from it" in said
