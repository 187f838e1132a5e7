"""The setting in which the log of an odd run differs is named with both numbers, and no other one is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.runs._odd_settings import logged_differences

STEPS = np.arange(10, 410, 10)
PEAK = 5e-5


def warmed(steps: np.ndarray, peak: float = PEAK, warmup: int = 0, end: int = 500) -> np.ndarray:
    """A learning rate that rises for `warmup` steps and falls to 0 at `end`."""
    return peak * np.minimum(steps / max(warmup, 1e-9), 1 - steps / end)


def seed(i: int, steps: np.ndarray = STEPS, **columns: object) -> pd.DataFrame:
    """The log of a seed: its settings, and outcomes of its own."""
    g = np.random.default_rng(i)
    n = len(steps)
    loss = (2 + 4 * steps**-0.4) * (1 + 0.005 * g.standard_normal()) + 0.01 * g.standard_normal(n)
    made = {
        "step": steps, "loss": loss, "learning_rate": warmed(steps), "grad_norm": g.lognormal(0, 0.3, n),
        "epoch": np.round(steps / 100, 2), "tokens": 4096.0 * steps, "batch_size": 32,
        "loss_scale": 65536.0, "skipped_iterations": 0, "train_samples_per_second": 80 + g.random(n),
    }  # fmt: skip
    return pd.DataFrame({**made, **columns})


def apart(frame: pd.DataFrame, factor: float = 1.15) -> pd.DataFrame:
    """The same run with losses that are not like those of its siblings."""
    return frame.assign(loss=frame["loss"] * factor)


def named(mine: pd.DataFrame, others: list[pd.DataFrame]) -> list[str]:
    """What the logs show of the settings of a run."""
    return [str(one) for one in logged_differences(mine, others)]


OTHERS = [seed(i) for i in range(4)]


def test_nine_times_the_rate_is_named_with_both_numbers() -> None:
    rates = warmed(STEPS, 9 * PEAK)
    assert named(seed(9, learning_rate=rates), OTHERS) == [
        "learning rate is 4.41e-4 at step 10 (the others have 4.9e-5)"
    ]


def test_rates_that_both_fall_to_0_are_not_called_equal_there() -> None:
    steps = np.arange(5, 501, 5)
    others = [seed(i, steps=steps, learning_rate=warmed(steps)) for i in range(4)]
    (one,) = named(seed(9, steps=steps, learning_rate=warmed(steps, 9 * PEAK)), others)
    assert "the same from" not in one


def test_a_longer_warmup_is_a_difference_up_to_where_the_rates_are_equal_again() -> None:
    others = [seed(i, learning_rate=warmed(STEPS, warmup=100)) for i in range(4)]
    (one,) = named(seed(9, learning_rate=warmed(STEPS, warmup=200)), others)
    assert one.startswith("learning rate is ")
    assert one.endswith("; the same from step 150 on)")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"batch_size": 8}, "batch size is 8 at step 10 (the others have 32)"),
        ({"tokens": 1024.0 * STEPS}, "tokens per step is 1,024 at step 20 (the others have 4,096)"),
        ({"dropout": 0.3}, "dropout is 0.3 at step 10 (the others have 0.1)"),
    ],
)
def test_other_settings_that_a_log_holds_are_named(columns: dict[str, object], words: str) -> None:
    others = [one.assign(dropout=0.1) for one in OTHERS]
    assert named(seed(9, **{"dropout": 0.1, **columns}), others) == [words]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"grad_norm": 80.0},  # an outcome that differs by one factor
        {"loss_scale": np.where(STEPS < 100, 65536.0, 1024.0)},  # a scale that overflows lowered
        {"skipped_iterations": np.arange(len(STEPS))},
        {"learning_rate": np.where(STEPS == 200, 0.0, warmed(STEPS))},  # one row of a restart
        {
            "tokens": np.where(STEPS < 200, 4096.0 * STEPS, 4096.0 * (STEPS - 190))
        },  # a counter that began again
        {"learning_rate": np.float32(warmed(STEPS)).astype(float)},  # rounding
        {"epoch": np.round(STEPS / 100, 1)},
    ],
)
def test_what_does_not_differ_as_a_setting_is_not_named(columns: dict[str, object]) -> None:
    assert named(seed(9, **columns), OTHERS) == []


def test_a_column_in_which_the_siblings_differ_is_no_setting() -> None:
    others = [
        one.assign(score=0.1 * i, learning_rate=warmed(STEPS, PEAK * (1 + i))) for i, one in enumerate(OTHERS)
    ]
    assert named(seed(9, score=7.0, learning_rate=warmed(STEPS, 9 * PEAK)), others) == []


def test_steps_that_only_some_logs_share_are_compared_where_most_have_them() -> None:
    """Jitter of the logging steps leaves few shared ones; what is not shared is not compared."""
    g = np.random.default_rng(1)

    def jittered() -> np.ndarray:
        steps = STEPS + g.integers(-3, 4, len(STEPS))
        return np.where(np.arange(len(STEPS)) % 5, steps, STEPS)

    others = [seed(i, steps=(at := jittered()), learning_rate=warmed(at, warmup=100)) for i in range(4)]
    mine = jittered()
    assert named(seed(9, steps=mine, learning_rate=warmed(mine, warmup=100)), others) == []
    (one,) = named(seed(9, steps=mine, learning_rate=warmed(mine, 9 * PEAK, warmup=100)), others)
    assert "(the others have" in one


@pytest.mark.calibration
def test_in_200_groups_with_equal_settings_no_setting_is_named() -> None:
    wrong = [i for i in range(200) if named(seed(5 * i), [seed(5 * i + k) for k in range(1, 5)])]
    assert wrong == []


def trainer(folder: Path, frame: pd.DataFrame) -> None:
    """Write a run as transformers' Trainer does."""
    names = ["step", "loss", "learning_rate", "grad_norm", "epoch"]
    history = json.loads(frame[names].to_json(orient="records"))
    folder.mkdir(parents=True)
    state = {"global_step": 400, "max_steps": 500, "log_history": history}
    (folder / "trainer_state.json").write_text(json.dumps(state))


def test_check_of_five_trainers_names_the_rate_that_every_line_of_the_log_holds(tmp_path: Path) -> None:
    """The answer was: compare its settings and data with theirs."""
    for i in range(5):
        own = seed(i) if i != 3 else apart(seed(i, learning_rate=warmed(STEPS, 9 * PEAK)))
        trainer(tmp_path / f"s{i}", own)
    first = ts.check(tmp_path).runs[0]
    (ground,) = [one for one in first.judgement.grounds if one.kind == "odd run"]
    assert "its learning rate is 4.41e-4 at step 10 (the others have 4.9e-5)" in ground.sentence
    assert ground.remedy.startswith("train it again with their setting")


def test_check_of_a_run_that_ends_lower_advises_what_analyze_does(tmp_path: Path) -> None:
    for i in range(5):
        own = seed(i) if i != 3 else apart(seed(i, learning_rate=warmed(STEPS, 9 * PEAK)), factor=0.85)
        trainer(tmp_path / f"s{i}", own)
    first = ts.check(tmp_path).runs[0]
    (ground,) = [one for one in first.judgement.grounds if one.kind == "odd run"]
    assert ground.remedy.startswith("if its setting was intended, train its siblings with it")


def test_check_of_an_odd_run_with_equal_settings_names_none_also_after_a_restart(tmp_path: Path) -> None:
    for i in range(5):
        own = seed(i) if i != 3 else apart(seed(i))
        if i == 3:  # it went back to step 200 and logged these steps twice
            own = pd.concat([own[own["step"] <= 250], own[own["step"] >= 200]])
        own.to_csv(tmp_path / f"s{i}.csv", index=False)
    first = ts.check(tmp_path).runs[0]
    (ground,) = [one for one in first.judgement.grounds if one.kind == "odd run"]
    assert "; its " not in ground.sentence
    assert ground.remedy.startswith("compare its settings and data with theirs")


def test_a_setting_of_the_files_is_not_named_twice(tmp_path: Path) -> None:
    mine, others = seed(9, learning_rate=warmed(STEPS, 9 * PEAK), batch_size=8), OTHERS
    assert [one.label for one in logged_differences(mine, others, ["learning rate"])] == ["batch size"]
    assert [one.label for one in logged_differences(mine, others, ["warmup"])] == ["batch size"]


def test_the_rate_of_an_odd_seed_is_printed_as_it_was_set() -> None:
    """At its first logged step a rate of .03 has fallen to .02998: that is no number to search for."""
    late = 15_000
    others = [seed(i, learning_rate=warmed(STEPS, 3e-3, end=late)) for i in range(4)]
    (said,) = named(seed(9, learning_rate=warmed(STEPS, 0.03, end=late)), others)
    assert said == "learning rate is 0.03 at step 10 (the others have 3e-3)"
