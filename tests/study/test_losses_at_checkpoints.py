"""The loss beside a checkpoint whose own step has none: the last one before it, and never one twice."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.study.efficiency import add_targets, logged_at


def logged(steps: range, loss: float = 3.0) -> pd.DataFrame:
    return pd.DataFrame({"step": steps, "loss": loss - 0.01 * np.arange(len(steps))})


def test_a_log_at_its_own_steps_gives_what_it_gave() -> None:
    log = logged(range(0, 101, 2))
    found = logged_at(log, np.array([0, 10, 100]))
    assert found["loss"].tolist() == log["loss"].iloc[[0, 5, 50]].tolist()


def test_a_loop_that_logs_every_seventh_step_and_saves_every_tenth() -> None:
    log = logged(range(0, 100, 7))
    found = logged_at(log, np.array([10, 20, 30]))
    assert found["loss"].tolist() == log.set_index("step")["loss"].loc[[7, 14, 28]].tolist()


def test_a_rare_held_out_loss_stands_beside_one_checkpoint_alone() -> None:
    log = logged(range(0, 101)).assign(heldout_loss=np.nan)
    log.loc[[45, 95], "heldout_loss"] = 3.5, 3.25
    found = logged_at(log, np.arange(10, 101, 10))["heldout_loss"]
    assert found.dropna().to_dict() == {4: 3.5, 9: 3.25}


def test_a_log_that_ended_earlier_gives_later_checkpoints_nothing() -> None:
    assert logged_at(logged(range(0, 51, 5)), np.array([50, 60, 70]))["loss"].notna().tolist() == [
        True, False, False,
    ]  # fmt: skip


def test_the_note_says_how_much_earlier() -> None:
    values = pd.DataFrame({"run": "a", "step": [10, 20, 30], "feature": 1.0})
    notes = [
        add_targets(values, values[["run", "step"]], log.assign(run="a"), pd.DataFrame({"run": ["a"]}))[-1]
        for log in (logged(range(0, 31)), logged(range(0, 31, 7)))
    ]
    assert notes[0] == ()
    assert notes[1][0].endswith("the last one before it is taken, of at most 6 steps earlier")
