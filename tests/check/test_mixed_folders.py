"""A folder with runs, logs and other files: each log is checked, and the reasons for the others are true."""

from __future__ import annotations

from pathlib import Path

import pytest

import toposcope as ts
from tests.check.written import checkpoints, falling, modded

Runs = dict[str, tuple[int, int]]


def logged(path: Path, seed: int = 0, count: int = 400) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(modded(falling(count, seed=seed)))
    return path


def counts(*checked: Path) -> Runs:
    """Return how many checkpoints and losses each run has, by its name."""
    return {run.name: (run.checkpoints, run.losses) for run in ts.check(list(checked)).runs}


def test_the_log_with_the_checkpoints_is_theirs_and_others_are_runs(tmp_path: Path) -> None:
    checkpoints(tmp_path / "all" / "run")
    logged(tmp_path / "all" / "run" / "train.log")
    logged(tmp_path / "all" / "loose.log", 1)
    for seed in (2, 3):
        logged(tmp_path / "all" / "seeds" / f"seed{seed}.log", seed)
    assert counts(tmp_path / "all") == {
        "all/run/train.log": (5, 400),
        "all/loose.log": (0, 400),
        "all/seeds/seed2.log": (0, 400),
        "all/seeds/seed3.log": (0, 400),
    }
    assert len(ts.open_series(tmp_path / "all").metrics("run")) == 400


def test_logs_elsewhere_that_disagree_are_checked_and_the_reason_names_where_they_lie(tmp_path: Path) -> None:
    checkpoints(tmp_path / "all" / "run")
    logs = [logged(tmp_path / "all" / "seeds" / f"seed{seed}.log", seed) for seed in (2, 3)]
    found = {run.name: run for run in ts.check(tmp_path / "all").runs}
    assert {name: (run.checkpoints, run.losses) for name, run in found.items()} == {
        "all: run": (5, 0),
        "all/seeds/seed2.log": (0, 400),
        "all/seeds/seed3.log": (0, 400),
    }
    assert "2 logs lie in other folders than its checkpoints" in "".join(found["all: run"].lines)
    assert counts(tmp_path / "all", logs[1]) == {
        "all/seeds/seed3.log": (5, 400),
        "all/seeds/seed2.log": (0, 400),
    }


def test_a_log_above_that_says_the_same_is_no_run_of_its_own(tmp_path: Path) -> None:
    checkpoints(tmp_path / "all" / "run")
    for place in ("run/train.log", "copy.log"):
        logged(tmp_path / "all" / place)
    assert counts(tmp_path / "all") == {"all/run/train.log": (5, 400)}


def test_logs_that_are_left_out_have_their_own_reasons(tmp_path: Path) -> None:
    run = checkpoints(tmp_path / "run")
    (train, old) = (logged(run / "train.log"), logged(run / "old.log", 1))
    logged(run / "end.log", 2, count=1)
    checked = ts.check([run, train])
    (found,) = checked.runs
    assert "left out because another log was chosen: run/end.log and run/old.log" in found.limits
    assert not any("not logs" in note for note in checked.notes)
    old.unlink()
    (found,) = ts.check(run).runs
    assert "left out because it has fewer than 3 losses: run/end.log" in found.limits


@pytest.mark.parametrize("rows", ["batch,width\n3,4\n", "model,accuracy\na,.4\nb,.5\nc,.6\n"])
def test_a_table_without_steps_and_losses_is_no_problem(tmp_path: Path, rows: str) -> None:
    logged(tmp_path / "runs" / "a.log")
    (tmp_path / "runs" / "results.csv").write_text(rows)
    checked = ts.check(tmp_path / "runs")
    assert checked.ok
    assert not checked.problems
    assert checked.notes == ("left out because they are not logs: runs/results.csv",)


def test_the_tables_of_a_report_are_no_logs(tmp_path: Path) -> None:
    logged(tmp_path / "runs" / "a.log")
    ts.report(ts.analyze(tmp_path / "runs" / "a.log"), tmp_path / "runs" / "page")
    rows = "".join(f"a,{n},{n / 10}\n" for n in range(9))
    (tmp_path / "runs" / "page" / "tables" / "trends.csv").write_text(f"run,n,spearman\n{rows}")
    checked = ts.check(tmp_path / "runs")
    assert not checked.problems
    assert not checked.notes
