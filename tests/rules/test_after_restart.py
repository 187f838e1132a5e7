"""A restart without a step that was trained twice: told where the log marks it, by the trend before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.api import check
from toposcope.logs import read_log
from toposcope.logs.remarks import LOOK, NOTICED, Remark
from toposcope.rules._after_restart import after_restarts
from toposcope.rules.judged_run import JudgedRun

LINE = {
    "own words": "INFO Resuming training from checkpoint out/step-600",
    "Megatron-LM": "  successfully loaded checkpoint from /ckpt [ t 0, p 0 ] at iteration 600",
    "torchtitan": "[titan] Loading the checkpoint from outputs/checkpoint/step-600.",
}


def _rows(lift: float = 0.0, rate: float = 1.0, norm: float = 1.0, steps: int = 800) -> pd.DataFrame:
    generator = np.random.default_rng(3)
    step = np.arange(1, steps + 1)
    after = step > 600
    since = np.maximum(step - 600, 0)
    fading = np.where(after, np.exp(-since / 10), 0)
    return pd.DataFrame({
        "step": step,
        "loss": 2 + 3 / np.sqrt(step) + generator.normal(0, 0.02, steps) + np.where(after, lift, 0),
        "learning_rate": 3e-4 * (1 - step / 2000) * np.where(after, rate, 1),
        "grad_norm": (1 + (norm - 1) * fading) * np.exp(generator.normal(0, 0.1, steps)),
    })  # fmt: skip


def _text(rows: pd.DataFrame, line: str) -> str:
    said = [
        f"step {row.step} loss {row.loss:.4f} lr {row.learning_rate:.7f} grad_norm {row.grad_norm:.3f}"
        for row in rows.itertuples()
    ]
    return "\n".join([*said[:600], line, *said[600:]]) + "\n"


def _csv(rows: pd.DataFrame) -> str:
    return rows[:600].to_csv(index=False) + rows[600:].to_csv(index=False)


def _said(path: Path) -> list[Remark]:
    judgement = check(str(path)).runs[0].judgement
    return [one for one in (*judgement.grounds, *judgement.noticed) if one.kind == "restart"]


@pytest.mark.parametrize("writer", LINE)
def test_a_line_of_a_text_marks_a_restart(tmp_path, writer):
    log = tmp_path / "train.log"
    log.write_text(_text(_rows(lift=0.4, norm=4.0), LINE[writer]))
    (said,) = _said(log)
    assert said.level == LOOK
    assert said.sentence.startswith("restarted at step 60")
    assert "higher than the rows before it predict over 20 rows" in said.sentence
    assert "the learning rate continues; the gradient norm starts at " in said.sentence
    assert "the optimiser's state was probably lost" in said.sentence


def test_a_header_that_comes_again_marks_a_restart(tmp_path):
    log = tmp_path / "train.csv"
    log.write_text(_csv(_rows()))
    (said,) = _said(log)
    assert said.level == NOTICED
    assert said.sentence.startswith("restarted at step 601: the loss continues as predicted")
    log.write_text(_csv(_rows(lift=0.4)))
    assert [one.level for one in _said(log)] == [LOOK]


@pytest.mark.parametrize(
    "line", ["Loading checkpoint shards: 100%|##| 2/2", "saving checkpoint to out/step-600", "epoch 2 begins"]
)
def test_nothing_is_said_where_nothing_marks_a_restart(tmp_path, line):
    log = tmp_path / "train.log"
    log.write_text(_text(_rows(lift=0.4), line))
    assert _said(log) == []


def test_what_is_said_before_the_first_row_is_no_restart(tmp_path):
    log = tmp_path / "train.log"
    rows = _text(_rows(), "a line")
    log.write_text(f"{LINE['own words']}\n{rows}")
    assert read_log(log).runs[0].restarts == ()


def test_a_schedule_that_begins_again_calls_for_a_look():
    rows = _rows()
    rows.loc[600:, "learning_rate"] = rows["learning_rate"].to_numpy()[:200]
    (made,) = after_restarts(JudgedRun.of(rows, restarts=(601.0,)))
    assert made.faulty
    assert "the schedule began again" in made.remark().sentence
    rows = _rows(rate=0.5)
    (made,) = after_restarts(JudgedRun.of(rows, restarts=(601.0,)))
    assert not made.faulty
    assert "the learning rate is 0.5 times the one before" in made.remark().sentence


def test_too_few_rows_or_too_many_marks_say_nothing():
    rows = _rows(lift=0.4)
    assert after_restarts(JudgedRun.of(rows[:604], restarts=(601.0,))) == []
    assert after_restarts(JudgedRun.of(rows[560:], restarts=(601.0,))) == []
    assert after_restarts(JudgedRun.of(rows, restarts=tuple(range(10, 800, 50)))) == []


def test_a_restart_whose_steps_were_trained_twice_is_compared_once(tmp_path):
    rows = _rows(lift=0.4)
    log = tmp_path / "train.csv"
    first = _rows()[:650]
    log.write_text(first.to_csv(index=False) + rows[600:].to_csv(index=False))
    (said,) = _said(log)
    assert "higher than the first time over 50 rows" in said.sentence
