import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.core.types import RunRecord
from toposcope.sources import open_series
from toposcope.statistics.alarms.drift import Drift, threshold
from toposcope.statistics.alarms.panel import Panel
from toposcope.statistics.alarms.residuals import FEWEST, LEVEL_WINDOW, OneStepAhead, tail_degrees
from toposcope.statistics.alarms.siblings import above_band
from toposcope.statistics.alarms.spending import AlarmFamily, Spending, level, spent_evenly
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep
from toposcope.watch.alarms.content import Content
from toposcope.watch.alarms.update_level import UpdateLevels
from toposcope.watch.journal import Journal
from toposcope.watch.run_watch import RunWatch
from toposcope.watch.watchman import Watchman


def _spikes(values, rate=0.05):
    series, found, look = OneStepAhead(), [], 0
    for index, value in enumerate(values):
        residual = series.update(value)
        if residual is not None:
            look += 1
            if residual.p <= level(rate, look):
                found.append(index)
                series.forget()
    return found


@pytest.mark.parametrize("rate", [0.05, 0.01])
def test_the_levels_of_any_number_of_looks_stay_within_the_rate(rate):
    spent = np.cumsum([level(rate, look) for look in range(1, 4096)])
    assert (spent < rate).all()
    assert spent[-1] == pytest.approx(rate * (1 - 1 / 13))


def test_every_way_to_spend_a_rate_stays_within_it():
    stretches, evenly = Spending(0.05), [spent_evenly(0.05, test, 8) for test in range(9)]
    assert sum(stretches.level(stretch) for stretch in range(10_000)) == pytest.approx(0.05, rel=2e-4)
    assert stretches.tests == 10_000
    assert (evenly[0], evenly[8]) == (0.0, 0.05)
    fixed = Spending(0.0, rest=3)
    told = []
    for _ in range(7):
        fixed.count()
        told.append(fixed.may_tell())
    assert told == [True, False, False, True, False, False, True]


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(InputError, match="false-alarm rate is 0"):
        AlarmFamily(0.0, {"a": 1.0})
    with pytest.raises(InputError, match="counted from 1"):
        level(0.05, 0)


@pytest.mark.calibration
@pytest.mark.parametrize("kind", ["normal", "t5", "walk"])
def test_spikes_of_noise_alarm_in_few_series(kind):
    random = np.random.default_rng(7)
    shape = (150, 60)
    noise = {
        "normal": random.standard_normal(shape),
        "t5": random.standard_t(5, shape),
        "walk": np.cumsum(random.standard_normal(shape), axis=0),
    }[kind]
    assert sum(bool(_spikes(one)) for one in noise.T) <= 8  # 5% of 60 is 3; 8 has chance 1%


@pytest.mark.calibration
def test_a_planted_spike_is_found_where_it_is_and_only_upwards():
    values = np.random.default_rng(1).standard_normal(200)
    assert 150 in _spikes(np.where(np.arange(200) == 150, 40.0, values))
    assert _spikes(np.where(np.arange(200) == 150, -40.0, values)) == _spikes(values)


def test_no_spike_alarm_is_possible_before_the_scale_is_known():
    early = np.r_[np.random.default_rng(1).standard_normal(LEVEL_WINDOW + FEWEST - 1), 1e9]
    assert not _spikes(early)


def test_heavier_tails_have_fewer_degrees_of_freedom():
    random = np.random.default_rng(2)
    degrees = [
        tail_degrees(np.sort(np.abs(one)), float(np.median(np.abs(one))))
        for one in (random.standard_t(2, 500), random.standard_t(5, 500), random.standard_normal(500))
    ]
    assert degrees == sorted(degrees)
    assert degrees[0] < 3


def test_a_slow_rise_is_a_drift_and_a_fall_or_a_spike_is_none():
    random, n = np.random.default_rng(3), 300
    fall = 3.0 - 0.5 * np.log(np.arange(1, n + 1)) / np.log(n) + 0.01 * random.standard_normal(n)
    rise = fall + 0.02 * np.maximum(np.arange(n) - 150, 0)
    spike = fall + 5.0 * (np.arange(n) == 200)

    def alarms(values):
        drift = Drift(Spending(0.01))
        return [index for index, value in enumerate(values) if drift.update(value)]

    assert alarms(rise)
    assert alarms(rise)[0] > 150
    assert not alarms(fall)
    assert not alarms(spike)


def test_a_stricter_rate_has_a_higher_threshold():
    assert threshold(0.001, 64) > threshold(0.01, 64) > threshold(0.01, 32)


def _panel(moves):
    panel, found = Panel(), []
    for values in moves:
        found.append(panel.update({key: ("kind", value) for key, value in enumerate(values)}))
    return found


def test_the_panel_names_the_series_that_moved_and_ignores_what_all_did():
    random = np.random.default_rng(4)
    values = 0.1 * random.standard_normal((30, 12))
    values[20:] += 5.0  # all of them: no culprit
    assert all(one is None or one.p > 1e-6 for one in _panel(values))
    values[25, 7] += 6.0
    judged = _panel(values)[25]
    assert judged.moves[0].key == 7
    assert judged.p < 1e-6


@pytest.mark.calibration
def test_a_panel_of_noise_is_quiet():
    random = np.random.default_rng(5)
    alarms = 0
    for _ in range(40):
        found = _panel(0.1 * random.standard_normal((30, 15)))
        ps = [one.p for one in found if one is not None]
        alarms += any(p <= level(0.05, look) for look, p in enumerate(ps, 1))
    assert alarms <= 7


def test_siblings_draw_a_band():
    assert above_band(1.2, [1.0, 1.01, 0.99, 1.0, 1.02]) < 1e-3
    assert above_band(0.5, [1.0, 1.01, 0.99, 1.0, 1.02]) > 0.99
    assert above_band(9.0, [1.0, 1.1]) == 1.0


NOISE = np.random.default_rng(9).normal(size=(12, 10))
NAMES = [f"layers.{i}.mlp.fc{j}.weight" for i in range(3) for j in (1, 2)]


def _store(tmp_path, fault=None, steps=20, growth=1.0):
    random = np.random.default_rng(6)
    state = {name: random.normal(size=(12, 10)) for name in NAMES}
    states = {}
    for step in range(steps):
        state = {name: value + 0.01 * random.normal(size=value.shape) for name, value in state.items()}
        if fault is not None and step == 15:
            state = fault(state)
        if step >= 15:
            state = {**state, NAMES[3]: growth * state[NAMES[3]]}
        states[10 * step] = {name: value.astype(np.float32) for name, value in state.items()}
    options = WeightOptions()
    store = Store.create(tmp_path / "store", recipe=options.recipe())
    probes = weight_probes(["updates"], options)
    sweep(open_series({"r": states}), probes, store, execution=Execution(quiet=True))
    return store


def _losses(store, spike=None, n=200):
    loss = 2.0 + np.exp(-np.arange(n) / 50) + 0.01 * np.random.default_rng(8).standard_normal(n)
    if spike is not None:
        loss[spike] += 3.0
    store.write_metrics(pd.DataFrame({"run": "r", "step": np.arange(n), "loss": loss}))


@pytest.mark.slow
def test_a_healthy_run_is_quiet(tmp_path):
    store = _store(tmp_path)
    _losses(store)
    assert Watchman(store.path).judge() == []


def _with(change):
    return lambda state: state | {NAMES[3]: change(state[NAMES[3]])}


def _swapped(state):
    value = state[NAMES[3]].copy()
    value[[0, 5]] = value[[5, 0]]
    return state | {NAMES[3]: value}


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (_swapped, "2 rows that swapped places"),
        (_with(lambda w: np.where(np.arange(12)[:, None] < 4, 0.0, w)), "rows that died: 33% are zero"),
        (_with(lambda w: np.full((12, 10), np.nan)), "holds NaN"),
        (_with(lambda w: 1.5 * w), "was multiplied by 1.5"),
        (_with(lambda w: np.where(np.arange(12)[:, None] < 4, w[5], w)), "copies of others: 33%"),
        (
            _with(lambda w: np.where(np.arange(12)[:, None] < 4, NOISE, w)),
            "no longer resemble their earlier values",
        ),
        (_with(lambda w: w + 0.3 * np.outer(np.arange(12) == 2, np.ones(10))), "moved by"),
    ],
)
def test_a_fault_alarms_at_its_checkpoint_and_its_matrix_is_named(tmp_path, fault, sentence):
    alarms = Watchman(_store(tmp_path, fault).path).judge()
    first = next(event for event in alarms if sentence in event.data["sentence"])
    assert first.step == 150
    assert first.data["culprits"][0]["name"] == NAMES[3]
    assert first.data["last_good"] == 140


def test_what_grew_slowly_is_gone_back_from_to_where_it_began(tmp_path):
    """Every checkpoint since step 150 is larger than the one before: none of them is good."""
    alarms = Watchman(_store(tmp_path, steps=26, growth=1.25).path).judge()
    grown = [event for event in alarms if event.data["test"] == "growth"]
    assert grown
    assert grown[0].step > 150
    assert grown[0].data["last_good"] <= 150
    assert f"back to step {grown[0].data['last_good']}" in grown[0].data["next"]


def test_a_matrix_that_stands_still_alarms_once():
    rows = pd.DataFrame(
        {
            "name": ["a"] * 6, "head": np.nan, "feature": "unchanged_rows", "role": "mlp",
            "value": [0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        }
    )  # fmt: skip
    content = Content()
    told = [[fault.sentence for fault in content.update(rows.iloc[[i]])] for i in range(6)]
    assert told == [[], [], [], ["a did not change at all"], [], []]


@pytest.mark.parametrize(("renewed", "tells"), [(2, False), (3, False), (4, True)])
def test_few_rows_of_a_small_matrix_that_turned_are_no_fault(renewed, tells):
    common = {"name": "a", "head": None, "role": "mlp"}
    content, told = Content(), []
    for count in (0, 0, 0, 0, 0, renewed):
        features = {"renewed_rows": count / 16, "renewed_count": float(count)}
        rows = [common | {"feature": name, "value": value} for name, value in features.items()]
        told.append([fault.sentence for fault in content.update(pd.DataFrame(rows))])
    assert told[:5] == [[]] * 5
    assert bool(told[5]) == tells


@pytest.mark.slow
def test_an_alarm_is_told_once_and_survives_a_restart(tmp_path):
    store = _store(tmp_path, _swapped)
    _losses(store, spike=155)
    watchman = Watchman(store.path)
    first = watchman.judge()
    assert {event.data["test"] for event in first} >= {"loss spike", "content"}
    assert watchman.judge() == []
    assert Watchman(store.path).judge() == []
    kinds = [event.kind for event in Journal.of(store.path).read()]
    assert kinds.count("alarm") == len([event for event in first if event.kind == "alarm"])


@pytest.mark.slow
def test_a_loss_that_is_no_number_alarms(tmp_path):
    store = _store(tmp_path)
    store.write_metrics(pd.DataFrame({"run": ["r"] * 3, "step": [0, 1, 2], "loss": [2.0, 2.0, np.inf]}))
    assert [event.data["test"] for event in Watchman(store.path).judge()] == ["loss spike"]


@pytest.mark.parametrize("rate", [True, False])
def test_losses_that_stay_no_numbers_alarm_once_and_evaluations_do_not(tmp_path, rate):
    store = Store.create(tmp_path / "store", recipe={})
    rows = pd.DataFrame({"run": "a", "step": np.arange(100), "loss": 2.0, "learning_rate": 1e-3})
    rows.loc[[50, 51, 52], ["loss", "learning_rate"]] = np.nan
    rows.loc[[50, 51, 52], "heldout_loss"] = 2.1
    rows.loc[80:, "loss"] = np.nan
    store.write_metrics(rows if rate else rows.drop(columns="learning_rate"))
    found = [(event.kind, event.step, event.data["sentence"]) for event in Watchman(store.path).judge()]
    assert found == [("alarm", 81, "the last 2 logged losses are not finite")]


def _curve(store, run, steps, level=0.0):
    step = np.arange(0, steps + 1, 10)
    noise = 0.002 * np.random.default_rng(len(run)).standard_normal(len(step))
    loss = 2.0 + level + 3.0 * (step + 20.0) ** -0.4 + noise
    columns = {"run": run, "step": step, "loss": loss, "tokens": 64 * step}
    store.write_metrics(pd.DataFrame(columns))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "kind"), [(1.5, "alarm"), (3.0, "notice"), (None, None)])
def test_a_forecast_that_leaves_the_target_is_told_once(tmp_path, target, kind):
    store = Store.create(tmp_path / "store", recipe={})
    names = ["a", "bb", "ccc", "dddd", "eeeee"]
    store.write_runs(RunRecord(name, family="gpt", parameters=1000, config={"steps": 4000}) for name in names)
    for name in names[:4]:
        _curve(store, name, 4000, level=0.001 * len(name))
    _curve(store, "eeeee", 2000)
    watchman = Watchman(store.path, target=target)
    events = [event for event in watchman.judge() if event.data["test"] == "forecast target"]
    assert [event.kind for event in events] == [kind] * (kind is not None)
    assert all(
        event.run == "eeeee" and f"the target of {target:g}" in event.data["sentence"] for event in events
    )
    assert Watchman(store.path, target=target).judge() == []


def test_a_target_that_no_loss_has_is_refused(tmp_path):
    store = Store.create(tmp_path / "store", recipe={})
    with pytest.raises(InputError, match="target_loss -1: no loss can be this"):
        Watchman(store.path, target=-1.0)


def _gradients(spike: slice, times: float) -> pd.DataFrame:
    g, n = np.random.default_rng(5), 200
    step = np.arange(1, n + 1)
    norm = np.exp(0.1 * g.standard_normal(n))
    norm[spike] *= times
    loss = 2 + 4 * step**-0.5 + 0.02 * g.standard_normal(n)
    return pd.DataFrame({"step": step, "loss": loss, "grad_norm": norm, "learning_rate": 1e-3})


def test_one_odd_gradient_is_noticed_and_gradients_that_stay_high_are_an_alarm():
    def told(table, parts=1):
        watch = RunWatch("run")
        places = np.array_split(np.arange(len(table)), parts)
        return [
            (one.kind, one.test, one.step, one.sentence.endswith("back to normal by step 124"))
            for place in places
            for one in watch.metrics(table.iloc[place])
        ]

    once, stays = _gradients(slice(120, 121), 1e3), _gradients(slice(120, None), 1e3)
    assert told(once) == [("notice", "gradient spike", 121, True)]
    assert told(stays) == [("alarm", "gradient spike", 121, False)]
    assert told(stays, parts=200) == told(stays), "an alarm does not depend on when one looks"
    assert told(stays.head(123)) == [], "two gradients after a spike do not settle it"


@pytest.mark.parametrize(("rate", "size", "tells"), [(1e-6, 0.5, False), (1e-3, 10.0, True)])
def test_updates_are_no_level_where_the_rate_has_ended(rate, size, tells):
    watch, found = UpdateLevels(), []
    for n in range(1, 31):
        ended = n > 26
        rows = pd.DataFrame(
            {"name": [""], "scope": ["model"], "feature": ["update_norm"], "value": [size if ended else 1.0],
             "head": [None], "role": [""]}
        )  # fmt: skip
        found += watch.update(10 * n, 10 * n - 10, rate if ended else 1e-3, rows)
    assert bool(found) == tells
