"""A restart is a paired experiment: steps that were trained twice say whether it worked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.logs import read_log
from toposcope.logs.remarks import LOOK, NOTICED, Remark
from toposcope.rules.registry import assess

NOISE = 0.02
Change = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def trained(first: int, last: int, noise: np.ndarray) -> pd.DataFrame:
    """Return the rows of some steps: the batch of a step decides its noise."""
    step = np.arange(first, last + 1)
    return pd.DataFrame(
        {
            "step": step,
            "loss": 2 + 3 / np.sqrt(step) + NOISE * noise[first - 1 : last],
            "learning_rate": 1e-3 * (1 - step / 2000),
            "grad_norm": 1 + 0.1 * noise[first - 1 : last],
        }
    )


def remarks(change: Change, *, rows: int = 50, seed: int = 0, at: int = 600) -> list[Remark]:
    """Return what is said of a run of 1,000 steps that was restarted after step `at`."""
    g = np.random.default_rng(seed)
    noise = g.normal(size=1000)
    again = change(trained(at + 1, 1000, noise), g)
    first = trained(1, at + rows, noise)
    kept = pd.concat([first[:at], again], ignore_index=True)
    return [one for one in assess(kept, replaced=first[at:]) if one.kind == "restart"]


def as_it_was(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    return rows


def other_batches(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    return rows.assign(loss=2 + 3 / np.sqrt(rows["step"]) + NOISE * g.normal(size=len(rows)))


def higher(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    return rows.assign(loss=rows["loss"] + 0.4)


def higher_at_first(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    """The weights are those that were saved; without its state the optimiser leaves them, and comes back."""
    age = np.arange(len(rows))
    return rows.assign(
        loss=rows["loss"] + 0.4 * age / 5 * np.exp(1 - age / 5),
        grad_norm=rows["grad_norm"] * np.where(age < 8, 3.0, 1.0),
    )


def rate_again(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    """The loss has not moved yet: the rates are those of the run's first rows."""
    return rows.assign(learning_rate=1e-3 * (1 - np.arange(1, len(rows) + 1) / 2000))


def lower_rate(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    """Somebody went back with half the rate: that is said, and is no fault."""
    return rows.assign(learning_rate=rows["learning_rate"] / 2, loss=rows["loss"] - 0.1)


def batches_again(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
    noise = np.random.default_rng(0).normal(size=1000)[: len(rows)]
    return rows.assign(loss=2 + 3 / np.sqrt(rows["step"]) + NOISE * noise)


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        (as_it_was, NOTICED, ["continues as the first time, the same over 50 rows", "rate continues"]),
        (other_batches, NOTICED, ["continues as the first time", "over 50 rows (noise 0.02"]),
        (higher, LOOK, ["0.4 higher than the first time over 50 rows", "the first row differs already"]),
        (
            higher_at_first,
            NOTICED,
            ["higher than the first time at first", "back in the last third", "starts at 2.9", "state was"],
        ),
        (rate_again, LOOK, ["1.4 times that of the first time, as at the run's beginning: the schedule"]),
        (lower_rate, NOTICED, ["0.1 lower than the first time", "rate is 0.5 times that of the first time"]),
        (batches_again, LOOK, ["the batches are the first of the run again", "loader"]),
    ],
)  # fmt: skip
def test_what_a_restart_did_is_told_by_its_pairs(change: Change, level: str, words: list[str]) -> None:
    [said] = remarks(change)
    assert said.step == 601
    assert said.sentence.startswith("restarted at step 601: ")
    assert (said.level, [word for word in words if word not in said.sentence]) == (level, [])
    assert bool(said.remedy) == (level == LOOK)


@pytest.mark.calibration
@pytest.mark.parametrize("rows", [5, pytest.param(20, marks=pytest.mark.sample), 100])
def test_other_batches_are_no_worse_restart(rows: int) -> None:
    levels = [one.level for seed in range(100, 160) for one in remarks(other_batches, rows=rows, seed=seed)]
    assert len(levels) == 60
    assert levels.count(LOOK) <= 3


@pytest.mark.calibration
def test_a_smoothed_log_is_no_worse_restart() -> None:
    """The mean of ten rows has a tenth of the free numbers that it seems to have."""

    def smoothed(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
        drawn = np.convolve(g.normal(size=len(rows) + 9), np.full(10, 0.1), "valid")
        return rows.assign(loss=2 + 3 / np.sqrt(rows["step"]) + NOISE * drawn)

    found = []
    for seed in range(60):
        g = np.random.default_rng(seed)
        noise = np.convolve(g.normal(size=1009), np.full(10, 0.1), "valid")
        again = smoothed(trained(601, 1000, noise), g)
        first = trained(1, 650, noise)
        kept = pd.concat([first[:600], again], ignore_index=True)
        found += [one.level for one in assess(kept, replaced=first[600:]) if one.kind == "restart"]
    assert len(found) == 60
    assert found.count(LOOK) <= 4


def test_too_few_pairs_are_not_compared() -> None:
    assert remarks(higher, rows=4) == []
    assert len(remarks(higher, rows=5)) == 1


def test_a_loss_that_is_not_finite_is_no_pair() -> None:
    def with_gaps(rows: pd.DataFrame, g: np.random.Generator) -> pd.DataFrame:
        return rows.assign(loss=rows["loss"].where(rows["step"] % 3 > 0))

    [said] = remarks(with_gaps)
    assert "over 34 rows" in said.sentence


def test_each_restart_of_a_log_is_compared_and_the_answer_leads_with_the_bad_one(tmp_path: Path) -> None:
    noise = np.random.default_rng(5).normal(size=1000)
    parts = [trained(1, 450, noise), trained(401, 650, noise), higher(trained(601, 1000, noise), None)]  # type: ignore[arg-type]
    log = tmp_path / "train.jsonl"
    rows = pd.concat(parts).to_dict("records")
    log.write_text("\n".join(map(json.dumps, rows)))
    assert read_log(log).runs[0].replaced is not None
    answer = ts.check(log)
    told = str(answer)
    assert "restarted at step 401: the loss continues as the first time" in told
    assert (
        "restarted at step 601: the loss is 0.4 higher than the first time over 50 rows"
        in told.splitlines()[0]
    )
    assert answer.level == LOOK
