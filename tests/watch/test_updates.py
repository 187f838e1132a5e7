import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.sources import open_series
from toposcope.sources.rows import row_faults
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.updates import matrix_update
from toposcope.sweep import Execution, sweep
from toposcope.watch.alarms.content import Content

WIDTH, HEADS = 8, 2
QKV, OUT = "layers.0.attn.qkv.weight", "layers.0.attn.proj.weight"


class _Config:
    def __init__(self, **values):
        self.values = values

    def to_dict(self):
        return self.values


class _Model:
    def __init__(self, state, **config):
        self._state, self.config = state, _Config(**config)

    def state_dict(self, keep_vars=False):
        import torch

        return {name: torch.from_numpy(value) for name, value in self._state.items()}


def _state(seed):
    random = np.random.default_rng(seed)
    shapes = {QKV: (3 * WIDTH, WIDTH), OUT: (WIDTH, WIDTH), "layers.0.mlp.fc1.weight": (16, WIDTH)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _measured(tmp_path, states, **config):
    store = Store.create(tmp_path / "store", recipe={})
    series = open_series({step: _Model(state, **config) for step, state in states.items()})
    report = sweep(
        series, weight_probes(["updates"], WeightOptions()), store, execution=Execution(quiet=True)
    )
    assert not report.failures
    return store.features("updates").set_index(["step", "name", "feature"]).sort_index()


def test_products_of_heads_are_those_of_the_whole_matrices(tmp_path):
    state = _state(1)
    table = _measured(tmp_path, {1: state}, n_head=HEADS).reset_index()
    q, k, v = np.split(state[QKV].astype(float), 3)
    width = WIDTH // HEADS
    for head in range(HEADS):
        rows = slice(head * width, (head + 1) * width)
        wanted = {"qk": q[rows].T @ k[rows], "ov": state[OUT][:, rows].astype(float) @ v[rows]}
        own = table[table["head"] == head].set_index("feature")["value"]
        for name, product in wanted.items():
            singular = np.linalg.svd(product, compute_uv=False)[:width]
            p = singular**2 / np.sum(singular**2)
            assert own[f"{name}_norm"] == pytest.approx(np.linalg.norm(product))
            assert own[f"{name}_entropy"] == pytest.approx(-np.sum(p * np.log(p)) / np.log(width))


def test_one_scaled_head_moves_and_the_other_does_not(tmp_path):
    first = _state(1)
    second = {name: value.copy() for name, value in first.items()}
    second[QKV][:4] *= 1.5  # the rows of Q of head 0
    table = _measured(tmp_path, {1: first, 2: second}, n_head=HEADS).reset_index()
    part = table[(table["step"] == 2) & (table["feature"] == "update_relative") & (table["scope"] == "head")]
    moved = part.set_index("head")["value"]
    assert moved[0] > 0.1
    assert moved[1] == 0


def test_without_known_heads_there_are_none(tmp_path):
    assert not (_measured(tmp_path, {1: _state(1)}).reset_index()["scope"] == "head").any()


def test_updates_against_numpy(tmp_path):
    first, second = _state(1), _state(2)
    table = _measured(tmp_path, {1: first, 2: second})
    change = (second[OUT] - first[OUT]).astype(float)
    value = table["value"].loc[2, OUT]
    assert value["update_norm"] == pytest.approx(np.linalg.norm(change), rel=1e-6)
    assert value["update_relative"] == pytest.approx(
        np.linalg.norm(change) / np.linalg.norm(first[OUT]), rel=1e-6
    )
    assert value["update_spectral"] == pytest.approx(np.linalg.norm(change, 2), rel=1e-5)
    whole = np.sqrt(sum(np.sum((second[name] - first[name]).astype(float) ** 2) for name in first))
    assert table["value"].loc[2, "model", "update_norm"] == pytest.approx(whole, rel=1e-6)
    assert "update_norm" not in table["value"].loc[1, OUT].index


def test_a_scaled_part_of_a_head_is_told_by_its_factor(tmp_path):
    first = _state(1)
    second = {name: value + 1e-3 * _state(2)[name] for name, value in first.items()}
    second[QKV][WIDTH + 4 : WIDTH + 8] *= 1.5  # the rows of K of head 1
    recipe = {"models": [{"name": "own", "heads": HEADS}]}  # as our own runs state it
    table = _measured(tmp_path, {1: first, 2: second}, **recipe).reset_index()
    part = table[(table["step"] == 2) & table["feature"].str.startswith("scaling_")]
    found = part.set_index(["feature", "head"])["value"]
    assert found["scaling_k", 1] == pytest.approx(0.5, abs=0.01)
    assert found["scaling_cosine_k", 1] == pytest.approx(1.0, abs=1e-4)
    assert (
        found[[("scaling_q", 0), ("scaling_q", 1), ("scaling_k", 0), ("scaling_o", 1)]].abs() < 0.01
    ).all()


@pytest.mark.parametrize("order", [[1, 0], [1, 2, 0]])
def test_rows_that_change_places_are_counted(order):
    then = np.random.default_rng(3).normal(size=(40, 6)).astype(np.float32)
    now = then + np.float32(0.05) * np.random.default_rng(4).normal(size=then.shape).astype(np.float32)
    n = len(order)
    now[:n] = now[order]
    assert row_faults(now, then).exchanged_rows == n


def test_large_moves_that_are_no_exchange_are_none():
    random = np.random.default_rng(5)
    for _ in range(50):
        then = random.normal(size=(60, 8))
        assert row_faults(then + random.normal(size=then.shape), then).exchanged_rows == 0


def test_rows_that_move_past_one_another_changed_no_places():
    random = np.random.default_rng(6)
    then = random.normal(size=(128, 8))  # as a position embedding that has hardly learned: all rows wander
    now = then + 0.9 * random.normal(size=then.shape)
    now[[0, 1]] = then[[1, 0]] + 0.05 * random.normal(size=(2, 8))
    assert row_faults(now, then).exchanged_rows == 0
    assert row_faults(then[random.permutation(128)], then).exchanged_rows > 100


def test_rows_that_die_stand_still_or_are_swapped():
    random = np.random.default_rng(3)
    then = random.normal(size=(40, 6)).astype(np.float32)
    now = then + 0.01 * random.normal(size=then.shape).astype(np.float32)
    usual = matrix_update(now, then)[0]
    swapped = now.copy()
    swapped[[3, 7]] = swapped[[7, 3]]
    assert matrix_update(swapped, then)[0]["update_row_max"] > 20 * usual["update_row_max"]
    dead = now.copy()
    dead[:10] = 0
    assert matrix_update(dead, then)[0]["zero_rows"] == 0.25
    assert matrix_update(then, then)[0]["unchanged_rows"] == 1
    assert matrix_update(now, then)[0]["unchanged_rows"] == 0


def _in_places(kind):
    """Return a matrix before and after some of its rows changed places, or only seem to have done so."""
    random, places = np.random.default_rng(8), 2 * np.pi * np.arange(40) / 40
    if kind == "drift":
        waves = [
            [np.cos(k * (places + moved * places[1]) + turn) for k in range(1, 9) for turn in (0, 1.5)]
            for moved in (0.0, 1.3)
        ]
        then, now = (np.stack(wave, axis=1).astype(np.float32) for wave in waves)
        return now, then
    then = random.normal(size=(40, 16)).astype(np.float32)
    now = then + (1.0 if kind == "wander" else 0.02) * random.normal(size=then.shape).astype(np.float32)
    rows = {"two": 2, "half": 20, "all": 40}.get(kind, 0)
    now[:rows] = np.roll(now[:rows], 1, axis=0)
    return now, then


@pytest.mark.parametrize("kind", ["two", "half", "all", "drift", "wander", "none"])
def test_the_audit_and_a_watch_say_the_same_of_rows_that_changed_places(kind):
    now, then = _in_places(kind)
    others = {f"layers.{n}.mlp.fc1.weight": np.eye(16, dtype=np.float32) for n in range(3)}
    pair = {step: others | {"wte.weight": values} for step, values in ((0, then), (1, now))}
    audited = {one.fault for one in ts.audit(pair).faults} & {"swapped-rows", "permuted-tensor"}
    values = matrix_update(now, then)[0]
    rows = [
        {"name": "a", "head": None, "role": "embedding", "feature": name, "value": value}
        for name, value in values.items()
    ]
    watched = [one.key[2] for one in Content().update(pd.DataFrame(rows))]
    assert bool(audited) == ("exchanged_rows" in watched) == (kind in ("two", "half", "all"))
