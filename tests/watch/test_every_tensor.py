"""Norms, biases and scalars, tensors that come and go, growth and stalls, and what was not checked."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.core.wording import typed_options
from toposcope.sources.rows import row_faults
from toposcope.statistics.alarms.growth import LAGS, Growth, Level
from toposcope.statistics.alarms.spending import Spending
from toposcope.store import Store
from toposcope.subjects.weights.probes.updates import vector_update
from toposcope.watch.alarms.advice import next_step
from toposcope.watch.alarms.base import AlarmSettings, SeenCheckpoint, Watched, culprits
from toposcope.watch.alarms.forecast_target import ForecastTarget
from toposcope.watch.alarms.not_finite import broken_tensor
from toposcope.watch.alarms.registry import alarms
from toposcope.watch.coverage import HEADS, not_judged
from toposcope.watch.inside import Monitor, process_rank
from toposcope.watch.journal import Journal
from toposcope.watch.run_watch import RunWatch
from toposcope.watch.watchman import Watchman

ONLY = ("--features", "updates", "--cpu-share", "1")
GAIN, BIAS, MATRIX = "layers.0.ln_1.weight", "layers.0.mlp.fc1.bias", "layers.0.mlp.fc1.weight"


def _states(fault=None, last=40, at=40):
    random = np.random.default_rng(3)
    state = {GAIN: np.ones(6), BIAS: random.normal(size=12), MATRIX: random.normal(size=(12, 6))}
    states = {}
    for step in range(0, last + 1, 10):
        state = {name: value + 0.01 * random.normal(size=value.shape) for name, value in state.items()}
        shown = {name: value.astype(np.float32) for name, value in state.items()}
        states[step] = fault(shown) if fault is not None and step >= at else shown
    return states


def _spoil(name, value):
    def fault(state):
        state[name].reshape(-1)[2] = value
        return state

    return fault


def _write(folder, states):
    from safetensors.numpy import save_file

    folder.mkdir()
    for step, state in states.items():
        save_file(state, folder / f"step_{step:06d}.safetensors")


FAULTS = {
    "NaN in a norm": (_spoil(GAIN, np.nan), GAIN),
    "an infinite bias": (_spoil(BIAS, np.inf), BIAS),
    "a norm that is gone": (lambda state: {n: v for n, v in state.items() if n != GAIN}, GAIN),
    "a norm of zeros": (lambda state: state | {GAIN: np.zeros(6, np.float32)}, GAIN),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_what_breaks_in_no_matrix_is_an_alarm_that_names_it(tmp_path, fault):
    how, tensor = FAULTS[fault]
    with Monitor(tmp_path / "store", every=10, features=["updates"]) as monitor:
        for step, state in _states(how).items():
            monitor.observe(state, step)
            assert monitor.wait()
    found = [event for event in Journal.of(tmp_path / "store").read() if event.kind == "alarm"]
    assert [event.step for event in found] == [40]
    assert found[0].data["culprits"][0]["name"] == tensor
    assert found[0].data["next"]


def _once(capsys, folder):
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(folder), "--once", "--rest", "0", *ONLY, "--json"])
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_once_tells_it_with_the_audit_and_ends_with_1(tmp_path, capsys):
    _write(tmp_path / "run", _states(_spoil(GAIN, np.nan)))
    code, said = _once(capsys, tmp_path / "run")
    assert code == 1
    assert [alarm["culprits"][0]["name"] for alarm in said["alarms"]] == [GAIN]
    assert any("non-finite" in one for one in said["audit"])
    assert any("--losses" in one for one in said["not_judged"])


def test_a_healthy_run_is_quiet_and_says_what_was_looked_at(tmp_path, capsys):
    _write(tmp_path / "run", _states())
    code, said = _once(capsys, tmp_path / "run")
    assert (code, said["audit"]) == (0, [])
    assert "5 checkpoints" in said["answer"]


def test_a_move_of_a_vector_is_its_difference_over_what_it_was():
    values = vector_update(np.array([[3.0, 4.0]]), np.array([[3.0, 0.0]]))
    assert values["tensor_moved"] == pytest.approx(4 / 3)
    assert values["tensor_along"] == 0.0
    assert vector_update(np.array([[np.inf, 0.0]]), None) == {"tensor_finite": 0.0}


@pytest.mark.parametrize("doubling", [2.0, 4.0])
def test_growth_is_told_whatever_the_steps_and_a_power_of_the_step_is_none(doubling):
    steps = np.arange(1, 61) * 10
    healthy = 0.9 * np.log(steps)
    grown = healthy + np.maximum(0, np.arange(60) - 30) * np.log(2) / doubling

    def told(logs):
        growth = Growth({"norm": 1.0})
        values = zip(steps, logs, strict=True)
        return [int(s) for s, x in values if growth.update(int(s), {"a": ("norm", float(x))})]

    assert not told(healthy)
    assert 310 < told(grown)[0] <= 310 + 10 * max(LAGS)
    assert told(healthy - (grown - healthy))


def test_a_series_that_stood_still_begins_anew():
    growth = Growth({"norm": 1.0})
    logs = [0.0] * 30 + [0.5 * k for k in range(1, 4)]
    assert not any(growth.update(10 * i, {"a": ("norm", x)}) for i, x in enumerate(logs))


@pytest.mark.parametrize("sign", [1, -1])
def test_updates_that_leave_their_level_are_told_upwards_and_downwards(sign):
    level, random = Level(0.9, 0.7), np.random.default_rng(1)
    logs = 0.1 * random.normal(size=60)
    logs[40:] += sign * np.log(2) / 3 * np.arange(1, 21)
    found = [i for i, x in enumerate(logs) if level.update(i, [("a", float(x))])]
    assert 40 < found[0] < 50
    assert not [i for i in found if i < 40]


def test_one_value_alone_leaves_no_level():
    level = Level(0.5, 0.5)
    assert not any(level.update(i, [("a", 5.0 * (i == 30))]) for i in range(60))


def test_neighbouring_rows_of_a_low_rank_product_changed_no_places_and_a_permutation_did():
    random = np.random.default_rng(2)
    for _ in range(20):
        b, a = random.normal(size=(64, 4)), random.normal(size=(4, 16))
        moved = (b + 0.7 * random.normal(size=b.shape)) @ a
        assert row_faults(moved, b @ a, low_rank=True).exchanged_rows == 0
    full = random.normal(size=(64, 4)) @ random.normal(size=(4, 16))
    assert row_faults(full[random.permutation(64)], full, low_rank=True).exchanged_rows > 16


def test_a_table_of_culprits_is_empty_where_nothing_stands_above_its_noise():
    random, watch = np.random.default_rng(5), RunWatch("a")
    for step in range(0, 200, 10):
        rows = pd.DataFrame(
            {"name": f"m{i}", "head": None, "feature": "update_relative", "scope": "matrix", "role": "mlp",
             "value": np.exp(0.1 * random.normal()), "draw": np.nan, "status": "ok", "probe": "updates",
             "filtration": ""} for i in range(12)
        )  # fmt: skip
        watch.checkpoint(step, rows)
    assert culprits(watch.recent[-1]) == []
    assert culprits(SeenCheckpoint(0, culprits=[broken_tensor("m1")]))[0]["name"] == "m1"


def test_the_drift_alarms_again_when_the_loss_drifts_again():
    random = np.random.default_rng(3)
    fall = 3.0 - 0.1 * np.log(np.arange(1, 1201))
    rise = 0.03 * (np.maximum(0, np.arange(1200) - 200) - np.maximum(0, np.arange(1200) - 300))
    again = 0.03 * (np.maximum(0, np.arange(1200) - 800) - np.maximum(0, np.arange(1200) - 1000))
    loss = np.exp(fall + rise + again + 0.01 * random.normal(size=1200))
    table = pd.DataFrame(
        {"step": np.arange(1200), "loss": loss, "grad_norm": np.nan, "learning_rate": np.nan}
    )
    told = RunWatch("a").metrics(table)
    steps = [alert.step for alert in told if alert.test == "loss drift"]
    assert any(step < 700 for step in steps)
    assert any(step > 800 for step in steps)


def test_a_target_goes_on_with_the_looks_that_the_store_knows(tmp_path):
    journal = Journal.of(Store.create(tmp_path / "store", recipe={}).path)
    journal.append("look", "a", 100, test="forecast target", target=2.0, look=3, losses=80, side="above")
    looks = Journal.of(tmp_path / "store").read()

    def begun(wanted):
        return ForecastTarget(Watched("a", Spending(0.01), AlarmSettings(wanted), looks))

    target, other = begun(2.0), begun(2.5)
    assert (target.spending.tests, target.losses, target.side) == (3, 80, "above")
    assert (other.spending.tests, other.losses, other.side) == (0, 0, "")


def test_only_rank_0_watches(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert process_rank() == 0  # a shell's RANK without WORLD_SIZE is no launcher's
    monkeypatch.setenv("WORLD_SIZE", "8")
    with Monitor(tmp_path / "store", every=1) as monitor:
        monitor.observe({MATRIX: np.eye(4, dtype=np.float32)}, 1, loss=2.0)
        monitor.record(2, loss=2.0)
        assert monitor.wait()
    assert not (tmp_path / "store").exists()
    with pytest.raises(InputError):
        Monitor(tmp_path / "other", every=0)


def test_a_monitor_gives_back_its_files(tmp_path):
    def opened():
        return len(os.listdir("/proc/self/fd"))

    Monitor(tmp_path / "first", features=["baselines"]).close()
    before = opened()
    for i in range(3):
        Monitor(tmp_path / str(i), features=["baselines"]).close()
    assert opened() == before


def test_every_test_says_what_to_do_next():
    assert all("{" not in next_step(one.test, 10) and next_step(one.test, None) for one in alarms())
    assert "step 300" in next_step("not finite", 300)


def test_a_fresh_process_says_what_a_running_one_said(tmp_path):
    with Monitor(tmp_path / "store", every=10, features=["updates"]) as monitor:
        for step, state in _states(_spoil(BIAS, np.inf), last=60).items():
            monitor.observe(state, step, loss=2.0)
            assert monitor.wait()
    events = Journal.of(tmp_path / "store").read()
    assert Watchman(tmp_path / "store").judge() == []
    assert len([event for event in events if event.kind == "alarm"]) == 1


class _Known(dict):
    """Weights that say how many heads they have."""

    def to_dict(self):
        return {"num_attention_heads": 2, "hidden_size": 8}

    @property
    def config(self):
        return self


@pytest.mark.parametrize("known", [True, False])
def test_weights_without_a_head_count_say_that_heads_were_not_measured(tmp_path, known):
    random = np.random.default_rng(0)
    names = [f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkvo"]
    with Monitor(tmp_path / "store", every=10, features=["updates"]) as monitor:
        for step in (0, 10):
            state = {name: random.normal(size=(8, 8)).astype(np.float32) for name in names}
            monitor.observe(_Known(state) if known else state, step)
            assert monitor.wait()
    store = Store.open(tmp_path / "store")
    assert (HEADS in not_judged(store, Journal.of(store.path).read())) is not known


def _told(logs, *, usual=None, limit=0.6):
    growth = Growth({"norm": limit})
    usual = {} if usual is None else {"a": usual}
    return [
        step
        for step, x in zip(range(0, 10 * len(logs), 10), logs, strict=True)
        if growth.update(step, {"a": ("norm", float(x))}, usual)
    ]


def test_a_tensor_that_falls_to_a_third_in_fifteen_checkpoints_is_told():
    """An embedding at step 200 that shrinks to a third within 150 steps: no power of the step hides it."""
    logs = np.zeros(40) + 1e-3 * np.arange(40)
    logs[20:] -= np.log(3) / 15 * np.minimum(np.arange(1, 21), 15)
    assert 200 < _told(logs)[0] <= 320


def test_growth_up_to_the_size_of_the_others_or_back_to_the_start_is_no_fault():
    """A position embedding sinks below its start, learns late, and becomes as large as other matrices."""
    logs = np.log([1.12, 0.87, 0.75, 0.81, 0.98, 1.47, 2.67, 4.05, 4.67, 5.07, 5.33])
    assert _told(logs)
    assert not _told(logs, usual=np.log(4.9))
    assert _told(np.r_[logs, logs[-1] + 0.2 * np.arange(1, 15)], usual=np.log(4.9))
    sunk = np.r_[np.zeros(4), -0.03 * np.arange(20), -0.6 + 0.15 * np.arange(5)]
    assert not _told(sunk)


def test_what_is_small_beside_the_others_may_fall():
    logs = np.zeros(40)
    logs[20:] -= 0.1 * np.arange(20)
    logs += 1e-6 * np.arange(40)
    assert _told(logs, usual=0.0)
    assert not _told(logs, usual=np.log(13))


@pytest.mark.parametrize(("spread", "tells"), [(0.05, True), (0.5, False)])
def test_a_restless_series_leaves_no_level_by_its_own_noise(spread, tells):
    """A layer behind a gate that crosses 0 has updates that come and go."""
    level, logs = Level(1.4, 1.2), np.where(np.arange(30) % 2, spread, -spread)
    logs = np.r_[logs, -1.3 * np.ones(3)]
    assert any(level.update(i, [("a", float(x))]) for i, x in enumerate(logs)) == tells


def test_a_comparison_names_the_two_checkpoints():
    """It was `toposcope compare BEFORE AFTER`, which nobody can type."""
    with typed_options():
        said = next_step("matrix or head", 10, ("runs/a/step_10", "runs/a/step_20"))
    assert said.endswith("toposcope compare runs/a/step_10 runs/a/step_20")
    assert next_step("matrix or head", 10) == "compare this checkpoint with the one before"
