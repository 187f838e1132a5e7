"""Several logs beside the checkpoints, and logs of one name."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import toposcope as ts
from tests.check.written import checkpoints, falling, modded, table
from tests.logs.test_inputs import event_file
from toposcope.cli.main import main


def typed(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def every(rows: int, loss) -> str:
    """Return a CSV file with every n-th loss, rounded to two decimals."""
    kept = [(step, x) for step, x in enumerate(loss, 1) if step % rows == 0]
    return "step,loss\n" + "".join(f"{step},{x:.2f}\n" for step, x in kept)


def means(rows: int, loss) -> str:
    """Return records of the mean loss since the record before, as with a logging interval."""
    kept = [
        {"step": step, "loss": round(float(np.mean(loss[step - rows : step])), 4)}
        for step in range(rows, len(loss) + 1, rows)
    ]
    return "".join(json.dumps(row) + "\n" for row in kept)


@pytest.mark.parametrize("other", [every(10, falling()), means(10, falling()), table(falling())])
def test_of_logs_that_agree_the_fuller_is_taken_by_every_command(tmp_path, capsys, other):
    run = checkpoints(tmp_path / "run")
    (run / "train.log").write_text(modded(falling()))
    (run / ("other.jsonl" if other.startswith("{") else "other.csv")).write_text(other)
    (found,) = ts.check(run).runs
    assert (found.level, found.checkpoints, found.losses, found.horizon) == ("all right", 5, 400, 1000)
    assert any("the same losses are in run/other" in note for note in found.limits)
    series = ts.open_series(run)
    assert series.metrics("run")["loss"].notna().sum() == 400
    assert "the same losses are in run/other" in series.logs()["run"]
    assert ts.forecast(run).table.iloc[0]["final_loss"] == pytest.approx(found.forecast.final)


def test_of_logs_that_differ_the_choice_is_asked_for_and_works_when_typed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = checkpoints(tmp_path / "run")
    (run / "train.log").write_text(modded(falling()))
    (run / "old.csv").write_text(table(falling(seed=3)))
    code, out, _ = typed(capsys, "check", "run")
    first = next(line for line in out.splitlines() if "do not agree" in line)
    assert code == 1
    assert "run/old.csv and run/train.log" in first or "run/train.log and run/old.csv" in first
    code, out, _ = typed(capsys, *shlex.split(first.partition("choose one: toposcope ")[2]))
    assert (code, "400 losses and 5 checkpoints" in out) == (0, True)
    for words in (("forecast", "run"), ("compare", "run", "run/old.csv", "--column", "loss")):
        code, _, err = typed(capsys, *words)
        assert (code, "do not agree" in err, len(err.splitlines())) == (2, True, 1)
    asked = typed(capsys, "weights", "run", "--out", "store", "--features", "baselines")[2]
    line = next(line for line in asked.splitlines() if "do not agree" in line)
    option = shlex.split(line.partition("choose one: ")[2])
    typed(capsys, "weights", "run", "--out", "store", "--features", "baselines", *option)
    assert ts.check(tmp_path / "store").runs[0].losses == 400


def test_a_summary_beside_a_log_is_no_second_log(tmp_path):
    run = checkpoints(tmp_path / "run")
    (run / "train.log").write_text(modded(falling()))
    (run / "summary.csv").write_text("step,loss\n400,2.9\n")
    (found,) = ts.check(run).runs
    assert found.losses == 400


def test_the_odd_seed_of_logs_of_one_name_is_found_by_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(5):
        loss = falling(seed=seed)
        if seed == 3:
            loss[200:] += 0.3
        place = tmp_path / f"seed{seed}" / "logs"
        place.mkdir(parents=True)
        (place / "train.log").write_text(modded(loss))
    logs = [f"seed{seed}/logs/train.log" for seed in range(5)]
    twice = [*logs, "./seed1/logs/train.log"]
    found = json.loads(typed(capsys, "check", *twice, "--json")[1])
    assert sorted(run["name"] for run in found["runs"]) == [f"seed{seed}" for seed in range(5)]
    (odd,) = [run for run in found["runs"] if run["level"] != "all right"]
    assert odd["name"] == "seed3"
    forecasts = json.loads(typed(capsys, "forecast", *twice, "--horizon", 1000, "--json")[1])
    assert {row["run"] for row in forecasts["forecasts"]} == {f"seed{seed}" for seed in range(5)}
    compared = typed(capsys, "compare", logs[0], logs[3])[1]
    assert "seed0 and seed3" in compared
    recipes = json.dumps(ts.compare(logs[:3], logs[3:]).to_dict())
    assert '"seed3"' in recipes
    assert '"seed4"' in recipes


def test_equal_names_of_runs_are_refused_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        rows = "".join(f"{name},{step},{x}\n" for step, x in enumerate(falling(), 1))
        (tmp_path / f"{name}.csv").write_text("run,step,loss\n" + rows.replace("b,", "a,"))
    code, _, err = typed(capsys, "forecast", "a.csv", "b.csv", "--horizon", 1000)
    assert (code, len(err.splitlines()), "run a" in err) == (2, 1, True)


def test_every_file_of_a_folder_that_is_not_read_is_named(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.log").write_text(modded(falling()))
    (tmp_path / "sub" / "b.log").write_text("no number here\n")
    (tmp_path / "notes.txt").write_text("read me\n")
    found = ts.check(tmp_path)
    assert any("sub/b.log" in problem for problem in found.problems)
    assert any("notes.txt" in note for note in found.notes)


def test_a_watch_names_the_logs_that_differ(tmp_path, capsys):
    run = checkpoints(tmp_path / "run", (0, 100))
    (run / "train.log").write_text(modded(falling()))
    (run / "old.csv").write_text(table(falling(seed=3)))
    words = ("watch", run, "--once", "--rest", 0, "--out", tmp_path / "store", "--features", "updates")
    said = typed(capsys, *words)[1]
    line = next(line for line in said.splitlines() if "do not agree" in line)
    assert shlex.split(line.partition("choose one: ")[2])[0] == "--losses"


def test_beside_a_trainers_own_log_other_logs_are_named_as_not_read(tmp_path):
    rows = [{"step": step, "loss": x} for step, x in enumerate(falling(), 1)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"max_steps": 400, "log_history": rows}))
    (tmp_path / "stdout.log").write_text(modded(falling()))
    (found,) = ts.check(tmp_path).runs
    assert any("not read" in note and "/stdout.log" in note for note in found.limits)


@pytest.mark.parametrize("places", [("",), ("tb",), ("tb/train", "tb/validation")])
def test_events_beside_a_table_are_the_same_log(places, tmp_path):
    run = checkpoints(tmp_path / "run")
    loss = falling(100)
    for place, shift in zip(places, (0, 1), strict=False):
        (run / place).mkdir(parents=True, exist_ok=True)
        rows = [(step, "loss", x + shift) for step, x in enumerate(loss, 1)]
        (run / place / "events.out.tfevents.1").write_bytes(event_file(rows))
    kept = [f"{step},{x}\n" for step, x in enumerate(loss, 1) if step % 5 == 0]
    (run / "metrics.csv").write_text("step,loss\n" + "".join(kept))
    (found,) = ts.check(run).runs
    assert (found.losses, found.checkpoints) == (100, 5)
    assert any("metrics.csv" in note for note in found.limits)
    assert ts.open_series(run).metrics("run")["loss"].notna().sum() == 100
