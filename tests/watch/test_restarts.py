"""A restart that a watch sees: the log shows steps trained twice, and the loss is higher or continues."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower
from toposcope.watch.journal import Event, Journal
from toposcope.watch.loss_health import with_passed
from toposcope.watch.losses import LossFile
from toposcope.watch.watchman import Watchman

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)
NOISE = np.random.default_rng(0).normal(0, 0.02, 400)


class _Log:
    """A log of a trainer that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_text("")

    def train(self, first: int, last: int, lift: float = 0.0, fade: float = np.inf) -> None:
        """Log steps; `lift` is added to the loss, less after `fade` steps."""
        with self.path.open("a") as file:
            for step in range(first, last + 1):
                loss = 2 + 3 / np.sqrt(step) + NOISE[step] + lift * np.exp(-(step - first) / fade)
                file.write(json.dumps({"step": step, "loss": float(loss)}) + "\n")


def _checkpoint(run: Path, step: int) -> None:
    place = run / f"checkpoint-{step}"
    place.mkdir(parents=True)
    weights = np.random.default_rng(step).normal(size=(8, 8)).astype("float32")
    save_file({"layers.0.mlp.fc1.weight": weights}, place / "model.safetensors")


@pytest.fixture(params=[False, True], ids=["log beside", "--losses"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[_Log, Sidecar, Watchman]:
    run = tmp_path / "run"
    _checkpoint(run, 100)
    log = _Log((tmp_path if request.param else run) / "train.jsonl")
    log.train(1, 240)
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    losses = LossFile(log.path) if request.param else None
    sidecar = Sidecar(
        Follower(run, rest=0, logs=losses is None),
        store,
        weight_probes(["baselines"], OPTIONS),
        losses=losses,
    )
    sidecar.visit()
    watchman = Watchman(store.path)
    watchman.judge()
    return log, sidecar, watchman


def _restarts(events: list[Event]) -> list[tuple[int | None, str, int]]:
    return [(one.step, one.data["verdict"], one.data["rows"]) for one in events if one.kind == "restart"]


def _alarms(events: list[Event]) -> list[Event]:
    return [one for one in events if one.kind == "alarm" and one.data["test"] == "restart"]


def test_a_restart_that_did_not_work_is_an_alarm_while_its_steps_are_trained_again(watched):
    log, sidecar, watchman = watched
    log.train(201, 204, lift=0.4)
    assert _restarts(sidecar.visit()) == []  # too few to compare
    log.train(205, 212, lift=0.4)
    assert _restarts(sidecar.visit()) == [(201, "look", 12)]
    (alarm,) = _alarms(watchman.judge())
    assert alarm.step == 201
    assert "the loss is 0.4 higher than the first time over 12 rows" in alarm.data["sentence"]
    assert alarm.data["next"] == "compare what the restart loaded with what was saved"
    log.train(213, 220, lift=0.4)
    assert _restarts(sidecar.visit()) == []  # not yet twice as many
    log.train(221, 300, lift=0.4)
    assert _restarts(sidecar.visit()) == [(201, "look", 40)]
    assert _alarms(watchman.judge()) == []  # it is known
    log.train(301, 310, lift=0.4)
    assert _restarts(sidecar.visit()) == []


def test_the_alarm_passes_when_the_loss_is_back(watched):
    log, sidecar, watchman = watched
    log.train(201, 206, lift=0.4)
    sidecar.visit()
    (alarm,) = _alarms(watchman.judge())
    journal = Journal.of(sidecar.store.path)
    assert with_passed([alarm], [], journal.read())[0] == [alarm]
    log.train(207, 300)
    assert _restarts(sidecar.visit()) == [(201, "noticed", 40)]
    standing, (passed,) = with_passed([alarm], [], journal.read())
    assert (standing, passed.data["passed"]) == ([], 241)


def test_a_restart_that_worked_is_said_and_is_no_alarm(watched):
    log, sidecar, watchman = watched
    log.train(201, 300)
    (event,) = [one for one in sidecar.visit() if one.kind == "restart"]
    assert "the loss continues as the first time" in event.data["sentence"]
    assert _alarms(watchman.judge()) == []


def test_a_watch_that_starts_again_says_no_restart_twice(watched):
    log, sidecar, watchman = watched
    log.train(201, 300, lift=0.4)
    sidecar.visit()
    watchman.judge()
    here = log.path.parent
    again = Sidecar(
        Follower(here if here.name == "run" else here / "run", rest=0), sidecar.store,
        weight_probes(["baselines"], OPTIONS), losses=LossFile(log.path),
    )  # fmt: skip
    assert _restarts(again.visit()) == []
    assert _alarms(Watchman(sidecar.store.path).judge()) == []
