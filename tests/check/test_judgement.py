"""One judgement of three levels, and the watch's alarms over a log that is there already."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.check.written import diverging, falling, lost, spiked
from toposcope.core.observations import AuditFinding
from toposcope.logs.metrics import tidy
from toposcope.logs.remarks import LOOK, NOTICED, STOP, Remark
from toposcope.rules.judgement import ALL_RIGHT, judge
from toposcope.rules.registry import assess
from toposcope.rules.replaying import replay
from toposcope.store import Store
from toposcope.watch.alarms.base import AlarmSettings
from toposcope.watch.journal import Journal
from toposcope.watch.watchman import Watchman


def health(metrics, **given):
    return list(assess(metrics, **{"noticed": False} | given))


def frame(loss, **more) -> pd.DataFrame:
    return pd.DataFrame({"step": np.arange(1, len(loss) + 1), "loss": loss, **more})


def told(alarms):
    return [(one.kind, one.step) for one in alarms]


@pytest.mark.parametrize(
    ("found", "level"),
    [
        ({}, ALL_RIGHT),
        ({"remarks": [Remark(STOP, "diverging", 9, "it rose", "go back")]}, STOP),
        ({"remarks": [Remark(STOP, "not finite", 9, "is NaN", "go back")]}, STOP),
        ({"remarks": [Remark(STOP, "rate ended", 9, "is 0", "stop")]}, STOP),
        ({"remarks": [Remark(LOOK, "plateau", 9, "stands still", "lower it")]}, LOOK),
        ({"remarks": [Remark(NOTICED, "plateau", 9, "stands still")]}, ALL_RIGHT),
        ({"remarks": [Remark(LOOK, "spikes", 9, "4 spikes", "look")]}, LOOK),
        ({"remarks": [Remark(LOOK, "not finite for a while", 9, "was NaN", "look")]}, LOOK),
        ({"replayed": [Remark(LOOK, "loss spike", 9, "is 9")]}, LOOK),
        ({"replayed": [Remark(NOTICED, "loss spike", 9, "is 9", passed=17)] * 5}, ALL_RIGHT),
        ({"audit": [AuditFinding("a", 5, "", "ends too early", fault="unreadable")]}, LOOK),
        ({"audit": [AuditFinding("a", 5, "w", "holds NaN", fault="non-finite")]}, LOOK),
        ({"audit": [AuditFinding("a", 7, "w", "holds NaN", fault="non-finite")]}, STOP),
        ({"wrong": ["the schedule ends at step 5"]}, LOOK),
        ({"losses": 5}, LOOK),
        ({"losses": 6}, ALL_RIGHT),
        ({"losses": 0}, LOOK),
        ({"losses": 0, "lost": 7}, STOP),
    ],
)
def test_each_thing_that_is_found_asks_for_its_level(found, level):
    judged = judge(**{"losses": 400, "last_checkpoint": 7, **found})
    assert judged.level == level
    assert bool(judged.grounds) == (level != ALL_RIGHT)


def test_grounds_stand_worst_first_and_nothing_that_was_found_is_dropped():
    symptoms = [
        Remark(LOOK, "spikes", 3, "3 spikes", "look"),
        Remark(STOP, "diverging", 9, "it rose", "go back"),
    ]
    alarms = [
        Remark(NOTICED, "loss spike", 2, "is 9", passed=10),
        Remark(LOOK, "gradient spike", 9, "is 9"),
    ]
    judged = judge(symptoms, alarms, losses=400)
    assert [one.kind for one in judged.grounds] == ["diverging", "spikes", "gradient spike"]
    assert [one.kind for one in judged.noticed] == ["loss spike"]


def test_losses_that_are_lost_are_told_once():
    loss = lost()
    alarms = replay(frame(loss))
    assert told(alarms) == [("loss not finite", 322)]
    judged = judge(health(frame(loss)), alarms, losses=320, lost=80)
    assert [one.kind for one in judged.grounds] == ["not finite"]
    assert [one.kind for one in judge([], alarms, losses=320).grounds] == ["loss not finite"]


@pytest.mark.parametrize("loss", [falling(), diverging(), spiked(), lost(), spiked(times=1.5, at=400)])
@pytest.mark.parametrize("target", [None, 0.1])
def test_a_replay_raises_the_alarms_of_a_watch_over_the_same_losses(loss, target, tmp_path):
    store = Store.create(tmp_path / "store", recipe={})
    store.write_metrics(tidy(frame(loss), "run"))
    events = Watchman(store.path, target=target).judge()
    watched = [(one.data["test"], one.step) for one in events if one.kind == "alarm"]
    settings = AlarmSettings.of(Journal.of(store.path).read())
    assert settings.target == target
    assert told(replay(frame(loss), target=settings.target is not None)) == watched


def test_a_sound_run_raises_nothing_and_a_spike_passes():
    assert replay(frame(falling())) == []
    (spike,) = replay(frame(spiked()))
    assert (spike.kind, spike.step, spike.passed) == ("loss spike", 201, 209)


@pytest.mark.parametrize(("after", "passed"), [(0, None), (2, None), (3, 204), (7, 208), (8, 209), (50, 209)])
def test_a_spike_has_passed_once_the_median_of_three_to_eight_later_losses_is_back(after, passed):
    (spike,) = replay(frame(spiked()[: 201 + after]))
    assert spike.passed == passed


def test_a_loss_that_stays_up_has_not_passed():
    loss = falling()
    loss[300:] *= 1.5
    spikes = [one for one in replay(frame(loss)) if one.kind == "loss spike"]
    assert spikes
    assert spikes[0].step == 301
    assert spikes[0].passed is None


def test_a_gap_of_nan_has_passed_at_the_third_finite_loss():
    loss = falling()
    loss[200:205] = np.nan
    assert [(one.kind, one.step, one.passed) for one in replay(frame(loss))] == [
        ("loss not finite", 202, 208)
    ]


def test_a_drift_that_is_won_back_has_passed():
    rising = diverging(800)
    back = np.concatenate([rising, np.full(100, rising.min() - 0.2)])
    drift = [one for one in replay(frame(rising)) if one.kind == "loss drift"]
    again = [one for one in replay(frame(back)) if one.kind == "loss drift"]
    assert drift
    assert drift[0].passed is None
    assert again[0].passed == 805  # five of eight are the middle


def test_a_gradient_spike_is_replayed_as_well():
    norm = 1 + 0.1 * np.random.default_rng(1).standard_normal(400)
    norm[250] = 1e6
    assert [(one.kind, one.step, one.passed) for one in replay(frame(falling(), grad_norm=norm))] == [
        ("gradient spike", 251, 254)
    ]
    norm[250:] *= 1e3
    assert [(one.kind, one.step, one.passed) for one in replay(frame(falling(), grad_norm=norm))] == [
        ("gradient spike", 251, None)
    ]
    norm = 1 + 0.1 * np.random.default_rng(1).standard_normal(400)
    norm[250] = np.inf
    (once,) = replay(frame(falling(), grad_norm=norm))
    assert (once.passed, "(gradient norm is not finite)" in once.sentence) == (254, True)


def test_steps_that_are_epochs_are_told_as_epochs():
    rows = frame(spiked())
    rows["step"] = rows["step"] / 100
    (spike,) = replay(rows)
    assert (spike.step, spike.passed) == (2.01, 2.09)


@pytest.mark.parametrize(("rise", "moves"), [(0.0002, "+0.02%"), (-0.0002, "-0.02%")])
def test_a_plateau_says_that_the_loss_hardly_moves_and_by_how_much(rise, moves) -> None:
    steps = np.arange(1, 401)
    loss = 3.0 * np.exp(rise * np.log2(steps)) * (1 + np.random.default_rng(0).normal(0, 1e-5, 400))
    (one,) = health(pd.DataFrame({"step": steps, "loss": loss}))
    assert one.kind == "plateau"
    assert f"the loss hardly moves: {moves} +- " in one.sentence


def test_a_fault_of_a_checkpoint_is_said_before_that_there_are_few_losses():
    scaled = AuditFinding("a", 7, "w", "was multiplied by 100 since step 6", fault="rescaled-tensor")
    judged = judge(audit=[scaled], losses=3, last_checkpoint=7)
    assert [one.kind for one in judged.grounds] == ["rescaled-tensor", "too early"]
