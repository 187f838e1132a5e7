"""Several trainings in one file, and restarts of one: where another run begins."""

from pathlib import Path

import pandas as pd
import pytest

import toposcope as ts


def losses(first: int, last: int, start: float = 9.0) -> list[tuple[int, float]]:
    return [(step, round(2.0 + start / (step + 1), 4)) for step in range(first, last + 1)]


def text(*starts: list[tuple[int, float]], of: str = "") -> str:
    return "\n".join(f"Epoch {step}{of} train loss: {loss}" for rows in starts for step, loss in rows) + "\n"


def ends(log: ts.Log) -> list[tuple[int, float]]:
    return [(int(run.table["step"].iloc[-1]), float(run.table["loss"].iloc[-1])) for run in log.runs]


def read(tmp_path: Path, content: str, name: str = "train.log") -> ts.Log:
    (tmp_path / name).write_text(content)
    return ts.read_log(tmp_path / name)


def test_a_start_of_a_single_record_is_a_run(tmp_path) -> None:  # type: ignore[no-untyped-def]
    log = read(tmp_path, text([(1, 9.0)], [(1, 8.0)], losses(1, 4), losses(1, 3, 8.0), [(1, 7.0)]))
    assert ends(log) == [(1, 9.0), (1, 8.0), (4, 3.8), (3, 4.0), (1, 7.0)]
    rows = [(0, 9.0), *losses(0, 20, 8.0), *losses(0, 10, 7.0)]
    table = "\n".join(f"{step},{loss}" for step, loss in rows)
    assert ends(read(tmp_path, f"step,loss\n{table}\n", "a.csv")) == [(0, 9.0), (20, 2.381), (10, 2.6364)]


def test_a_step_that_is_logged_twice_is_no_start(tmp_path) -> None:  # type: ignore[no-untyped-def]
    once = [(0, 9.0), (0, 8.9), (1, 7.0), (2, 6.0)]  # before training, and after the first step
    assert len(read(tmp_path, text(once)).runs) == 1
    twice = [(step, loss + part) for step, loss in losses(0, 6) for part in (0.0, 0.1)]  # two losses a step
    assert len(read(tmp_path, text(twice)).runs) == 1
    resumed = [*losses(1, 10), (10, 2.9), *losses(11, 14)]
    assert len(read(tmp_path, text(resumed)).runs) == 1


def test_after_the_planned_end_another_run_begins(tmp_path) -> None:  # type: ignore[no-untyped-def]
    first = text([(step, 9.0 - step / 2) for step in range(5, 11)], of="/10")
    second = text([(step, 4.0 - step / 9) for step in range(6, 16)], of="/40")
    log = read(tmp_path, first + second)
    assert [run.planned_steps for run in log.runs] == [10, 40]
    assert [len(run.table) for run in log.runs] == [6, 10]
    resumed = read(tmp_path, text(losses(1, 8), losses(6, 10), of="/10"))  # stopped before its end
    assert [len(run.table) for run in resumed.runs] == [10]
    assert len(resumed.runs[0].replaced) == 3


def test_a_loss_that_begins_again_at_its_level_is_another_run(tmp_path) -> None:  # type: ignore[no-untyped-def]
    first, again = losses(5, 40, 90.0), [(step, loss) for step, loss in losses(1, 30, 30.0)]
    moved = [(step + 7, loss) for step, loss in again]
    assert len(read(tmp_path, text(first, moved)).runs) == 2
    diverged = [*losses(5, 30, 90.0), (31, 30.0), (32, 60.0)]
    repaired = read(tmp_path, text(diverged, losses(20, 40, 90.0)))
    assert [len(run.table) for run in repaired.runs] == [36]
    assert len(repaired.runs[0].replaced) == 13


@pytest.mark.parametrize("counter", ["episode", "epoch"])
def test_a_counter_that_begins_again_tells_runs(tmp_path, counter: str) -> None:  # type: ignore[no-untyped-def]
    steps = [[2372, 3469, 4644], [2596, 3400], [2311], [*range(2900, 12000, 911)]]
    rows = [f"{k + 1},{step},{step % 7 - 3}.5" for run in steps for k, step in enumerate(run)]
    log = read(tmp_path, "\n".join([f"{counter},step,loss", *rows]), "loss.csv")
    assert [run.table["step"].tolist() for run in log.runs] == steps
    restart = [f"{k},{100 * k},{9.5 - k / 10}" for k in (1, 2, 3, 4, 3, 4, 5)]
    assert len(read(tmp_path, "\n".join([f"{counter},step,loss", *restart]), "loss.csv").runs) == 1


def test_starts_without_a_loss_are_no_runs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rows = [f'{{"step": {step}, "reward": 0.1}}' for step in (1, 2, 1, 2, 3)]
    rows += [f'{{"step": {step}, "reward": 0.2, "loss": {loss}}}' for step, loss in losses(1, 9)]
    log = read(tmp_path, "\n".join(rows) + "\n", "log.jsonl")
    assert [len(run.table) for run in log.runs] == [9]
    assert "starts without a loss left out" in log.said


def test_rows_at_the_end_that_repeat_earlier_ones_are_no_restart(tmp_path) -> None:  # type: ignore[no-untyped-def]
    frame = pd.DataFrame(losses(1, 30), columns=["step", "loss"]).assign(norm=1.5)
    for copied in (frame.iloc[[3]], frame.iloc[3:6], frame.iloc[[0]]):
        log = ts.read_log(pd.concat([frame, copied]))
        assert [len(run.table) for run in log.runs] == [30]
        assert "repeat earlier ones" in log.said
    two = pd.concat([frame.assign(run="a"), frame.assign(run="b"), frame.iloc[[3]].assign(run="b")])
    assert len(ts.read_log(two).table) == 60
    between = pd.concat([frame[:20], frame.iloc[[3]], frame[20:]])
    assert len(ts.read_log(between).table) == 30
    trained = pd.concat([frame, frame.iloc[3:6].assign(loss=5.0)])
    assert len(ts.read_log(trained).table) == 6
