"""What holds for every alarm: it is declared once, and a fresh process says what a running one says."""

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.core.types import Row, RunRecord
from toposcope.rules import registry as shares
from toposcope.store import Store, Unit
from toposcope.watch.alarms import registry
from toposcope.watch.alarms.base import Alarm, AlarmSettings
from toposcope.watch.alarms.registry import add_alarm, alarms, family
from toposcope.watch.journal import Journal
from toposcope.watch.run_watch import RunWatch
from toposcope.watch.watchman import Watchman

STEPS = tuple(range(10, 101, 10))


def test_every_alarm_has_a_name_of_its_own_and_the_shares_are_the_runs_rate():
    names = [one.test for one in alarms()]
    assert len(set(names)) == len(names)
    spent = family(0.05, AlarmSettings(target=2.0))
    assert sum(map(spent.rate_of, spent.shares)) == pytest.approx(0.05)
    assert {one.test for one in alarms() if one.share} == set(spent.shares)


def test_two_alarms_of_one_name_are_refused():
    class Twin(Alarm):
        test = "loss spike"

    with pytest.raises(InputError, match="'loss spike' exists already"):
        add_alarm(Twin)


def test_an_alarm_that_is_added_takes_its_share_of_the_rate(monkeypatch):
    class Mine(Alarm):
        test = "mine"
        share = 8.0

    before = family().rate_of("loss spike")
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [])
    monkeypatch.setattr(shares, "RESERVED", dict(shares.RESERVED))
    add_alarm(Mine)
    assert family().rate_of("loss spike") == pytest.approx(before / 2)
    assert shares.family() == family(), "a check replays at the levels of a watch"
    assert [one.spending.rate for one in RunWatch("a").alarms if one.test == "mine"] == [0.025]


@pytest.mark.parametrize("target", [None, 0.1])
def test_a_log_alone_is_replayed_at_the_levels_of_a_watch(target):
    of_watch = family(settings=AlarmSettings(target))
    of_log = shares.family(target=target is not None)
    assert (of_log.rate, dict(of_log.shares)) == (of_watch.rate, dict(of_watch.shares))


def _losses(store, run, steps, level):
    noise = 0.01 * np.random.default_rng(ord(run)).standard_normal(len(steps))
    table = pd.DataFrame({"run": run, "step": steps, "loss": level + 2.0 + noise})
    store.write_metrics(table, add=True)
    Journal.of(store.path).append("metrics", run, first=int(steps[0]), last=int(steps[-1]))


def _seeds(path):
    store = Store.create(path, recipe={})
    store.write_runs(RunRecord(name, family="gpt", parameters=1000) for name in "abcdefghi")
    return store


def _checkpoints(store, run, steps):
    for step in steps:
        rows = [Row(run, step, "baselines", "weight_norm", 2.0)]
        store.write(Unit(run, step, "baselines", 1, f"{run}{step}"), rows)


def _told(store):
    return [
        (event.run, event.step, event.data["sentence"])
        for event in Journal.of(store.path).read()
        if event.kind == "alarm" and event.data["test"] == "sibling band"
    ]


def test_the_band_of_siblings_is_looked_at_once_whenever_the_others_come(tmp_path):
    late, whole = _seeds(tmp_path / "late"), _seeds(tmp_path / "whole")
    for store in (late, whole):
        _losses(store, "a", STEPS, 5.0)
        _checkpoints(store, "a", STEPS)
    running = Watchman(late.path)
    assert running.judge() == []
    for run in "bcdefghi":
        _losses(late, run, STEPS, 0.0)
        _losses(whole, run, STEPS, 0.0)
    running.judge()
    Watchman(whole.path).judge()
    assert _told(late)
    assert _told(late) == _told(whole)
    looks = [event.step for event in Journal.of(late.path).read() if event.kind == "look"]
    assert sorted(looks) == list(STEPS)
    again = Watchman(late.path)
    assert again.judge() == []
    assert [event.step for event in Journal.of(late.path).read() if event.kind == "look"] == looks


def test_a_plan_that_comes_after_the_first_losses_is_known_at_the_checkpoint(tmp_path, monkeypatch):
    planned = []

    class Seeing(Alarm):
        test = "seeing"

        def on_checkpoint(self, look):
            planned.append(None if look.planned is None else look.planned.tolist())
            return []

    monkeypatch.setattr(registry.EXTENSIBLE, "added", [Seeing])
    store = Store.create(tmp_path / "store", recipe={})
    _losses(store, "a", STEPS[:2], 0.0)
    watchman = Watchman(store.path)
    watchman.judge()
    store.write_runs([RunRecord("a", config={"steps": 40, "checkpoint_every": 20})])
    _checkpoints(store, "a", STEPS[:1])
    watchman.judge()
    assert planned == [[20.0, 40.0]]


@pytest.mark.slow
def test_a_bend_of_the_feature_that_a_watch_follows_is_noticed(tmp_path):
    steps = np.arange(16, 417, 16)
    noise = np.random.default_rng(0).standard_normal(len(steps)).cumsum() * 0.01
    values = np.where(steps < 160, 0.0, 3.0 * np.log(steps / 160)) + noise
    store = Store.create(tmp_path / "store", recipe={})
    store.write_runs([RunRecord("a", config={"steps": 416, "checkpoint_every": 16})])
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        rows = [Row("a", step, "neural_persistence", "neural_persistence", value, filtration="rieck")]
        store.write(Unit("a", step, "neural_persistence", 1, f"{step}"), rows)
    notices = [one for one in Watchman(store.path).judge() if one.data["test"] == "phase boundary"]
    assert notices[0].kind == "notice"
    assert abs(notices[0].data["bend"] - 160) <= 32
