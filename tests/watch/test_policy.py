"""A watch judges a policy by the columns beside its loss, with the rules of a check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from tests.rules.test_policy_columns import AT, COUNT, SINCE, policy
from toposcope.rules.entropy_collapse import EntropyCollapse
from toposcope.watch.losses import LossFile
from toposcope.watch.watching import Watching, WatchOptions
from toposcope.watch.watchman import Watchman


def watching(place: Path, rows: pd.DataFrame, *, beside: bool = False) -> Watching:
    """Return a watch of a folder with one checkpoint and a log of these rows, in the folder or given."""
    folder = place / "run"
    folder.mkdir(exist_ok=True)
    weights = np.random.default_rng(1).normal(size=(12, 10)).astype(np.float32)
    save_file({"layers.0.mlp.fc1.weight": weights}, folder / "step_000010.safetensors")
    log = (folder if beside else place) / "log.csv"
    rows.to_csv(log, index=False)
    losses = None if beside else LossFile(log)
    return Watching(folder, WatchOptions(features=["updates"], rest=0, losses=losses, out=place / "store"))


def alarms(watch: Watching) -> list[tuple[str, int | None]]:
    """Return the alarms of a visit."""
    return [(str(one.data["test"]), one.step) for one in watch.visit() if one.kind == "alarm"]


@pytest.mark.parametrize("beside", [False, True], ids=["given", "beside the checkpoints"])
def test_the_entropy_of_a_growing_log_goes_to_zero(tmp_path, beside):
    rows = policy(entropy=policy()["entropy"] * (1 - SINCE))
    with watching(tmp_path, rows.iloc[:100], beside=beside) as watch:
        assert alarms(watch) == []
        log = (tmp_path / "run" if beside else tmp_path) / "log.csv"
        found = []
        for count in (AT + 10, AT + 30, COUNT):
            rows.iloc[:count].to_csv(log, index=False)
            found += alarms(watch)
        ((test, step),) = found
        assert test == "entropy collapse"
        assert AT < step <= AT + 25
        answer = watch.once()
    assert [one.data["next"] for one in answer.alarms] == [EntropyCollapse.next]
    assert not answer.ok
    assert Watchman(tmp_path / "store").judge() == [], "a fresh process says nothing new"
    (checked,) = ts.check(str(log)).runs
    assert "entropy collapse" in {one.kind for one in checked.judgement.grounds}


def test_an_entropy_that_comes_back_has_passed(tmp_path):
    shut = policy()["entropy"] * np.where((policy()["step"] > AT) & (policy()["step"] < AT + 20), 0.0, 1.0)
    with watching(tmp_path, policy(entropy=shut)) as watch:
        answer = watch.once()
    assert [one.data["test"] for one in answer.passed] == ["entropy collapse"]
    assert answer.alarms == ()


def test_a_healthy_policy_raises_no_alarm(tmp_path):
    with watching(tmp_path, policy()) as watch:
        answer = watch.once()
    assert (answer.alarms, answer.passed) == ((), ())


def test_a_monitor_judges_what_is_logged_beside_the_loss(tmp_path):
    rows = policy(entropy=policy()["entropy"] * (1 - SINCE))
    weights = {"layers.0.mlp.fc1.weight": np.eye(4, dtype=np.float32)}
    with ts.Monitor(tmp_path / "store", every=20, features=["baselines"]) as monitor:
        for row in rows.to_dict("records"):
            monitor.observe(weights, int(row.pop("step")), **row)
    events = Watchman(tmp_path / "store").journal.read()
    ((test, step),) = [(one.data["test"], one.step) for one in events if one.kind == "alarm"]
    assert test == "entropy collapse"
    assert AT < step <= AT + 25
