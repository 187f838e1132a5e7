"""Rows of a matrix that turned, or changed places: what is a fault, and what training does, too."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.core.observations import AuditFinding
from toposcope.sources import open_series
from toposcope.sources.audit import audit
from toposcope.sources.rows import exchanged

sys.path.insert(0, str(Path(__file__).parent))
from planted import EMB, FC1, walk

Tensors = dict[str, np.ndarray]


def _found(path: list[Tensors]) -> list[AuditFinding]:
    return audit(open_series({100 * (index + 1): state for index, state in enumerate(path)}))


def _spike(count: int = 9, *, farther: float = 6.0) -> list[Tensors]:
    """Return weights of which one matrix moves far at every step, and all of them `farther` at the last."""
    rng, path = np.random.default_rng(0), walk(2, "walk", 1)
    for step in range(1, count):
        times = farther if step == count - 1 else 1.0
        far = {name: times * (0.22 if name == FC1 else 0.02) for name in path[0]}
        path.append(
            {
                name: (value + far[name] * rng.normal(size=value.shape)).astype(np.float32)
                for name, value in path[-1].items()
            }
        )
    return path


def test_rows_that_turn_where_all_tensors_move_farther_are_a_remark():
    path = _spike()
    before, now = path[-2][FC1], path[-1][FC1]
    cosine = (before * now).sum(1) / np.linalg.norm(before, axis=1) / np.linalg.norm(now, axis=1)
    assert (cosine < 0.5).mean() > 1 / 8
    (found,) = _found(path)
    assert (found.fault, found.is_remark, found.tensor) == ("unusual-change", True, FC1)


def test_rows_that_turn_alone_are_a_fault():
    path = _spike(farther=1.0)
    path[-1] = path[-1] | {FC1: _spike()[-1][FC1] - _spike()[-2][FC1] + path[-2][FC1]}
    assert [(one.fault, one.tensor) for one in _found(path) if not one.is_remark] == [("replaced-rows", FC1)]


@pytest.mark.parametrize("share", [1 / 8, 1 / 2])
def test_rows_of_noise_are_found_in_a_spike_as_well(share: float):
    path, rng = _spike(), np.random.default_rng(3)
    name = "layers.1.mlp.fc1.weight"
    rows = rng.permutation(64)[: round(64 * share)]
    changed = path[-1][name].copy()
    changed[rows] = changed.std() * rng.normal(size=(len(rows), 16))
    path[-1] = path[-1] | {name: changed}
    faults = [one for one in _found(path) if not one.is_remark]
    assert [one.tensor for one in faults] == [name]


def test_most_tensors_of_a_sibling_run_are_still_one_finding():
    path = walk(1, "walk", 8)
    other = walk(2, "walk", 1)[0]
    path[-1] = {name: np.float32(0.55) * path[-1][name] + np.float32(0.83) * other[name] for name in other}
    assert [one.fault for one in _found(path)] == ["other-weights"]


@pytest.mark.parametrize("count", [2, 3, 9])
@pytest.mark.parametrize("rows", [(3, 17), (3, 17, 30)])
def test_rows_in_each_others_places_are_a_fault_that_names_them(count: int, rows: tuple[int, ...]):
    path = walk(5, "walk", count)
    changed = path[-1][EMB].copy()
    changed[list(rows)] = changed[[*rows[1:], rows[0]]]
    path[-1] = path[-1] | {EMB: changed}
    for options in ({}, {"newest": True}):
        (found,) = ts.audit(dict(enumerate(path)), **options).faults
        assert (found.fault, found.tensor, found.step) == ("swapped-rows", EMB, count - 1)
        assert ", ".join(map(str, rows[:-1])) + f" and {rows[-1]}" in found.message
        assert found.message.endswith(f"go back to step {count - 2}")


@pytest.mark.parametrize("drift", [0.8, 1.3, 2.4])
def test_rows_that_drift_through_each_others_places_are_not_certain(drift: float):
    """A position embedding that learns from near 0 is a wave over its rows, and the wave moves."""
    places = 2 * np.pi * np.arange(40) / 40
    then, now = (
        np.stack([np.cos(k * (places + moved) + turn) for k in range(1, 9) for turn in (0, 1.5)], axis=1)
        for moved in (0.0, drift * places[1])
    )
    count, certain = exchanged(now, then, ((now - then) ** 2).sum(1), (then**2).sum(1))
    assert count > 1 or drift < 1
    assert certain == ()


def test_a_tensor_of_three_layers_is_named_alone():
    rng = np.random.default_rng(0)
    for factor in (100.0, 0.01):
        state = {f"layers.{n}.fc.weight": rng.normal(size=(16, 8)).astype(np.float32) for n in range(3)}
        state["layers.1.fc.weight"] *= np.float32(factor)
        (found,) = ts.audit({0: state}).faults
        assert (found.fault, found.tensor) == ("odd-norm", "layers.1.fc.weight")


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("share", [1 / 8, 1 / 4, 1 / 2])
def test_rows_of_noise_are_found_without_a_history(count: int, share: float):
    path, rng = walk(7, "walk", count), np.random.default_rng(4)
    name = "layers.1.mlp.fc1.weight"
    changed = path[-1][name].copy()
    rows = rng.permutation(len(changed))[: round(share * len(changed))]
    changed[rows] = changed[rows].std() * rng.normal(size=(len(rows), changed.shape[1]))
    path[-1] = path[-1] | {name: changed}
    for options in ({}, {"newest": True}):
        (found,) = ts.audit(dict(enumerate(path)), **options).faults
        assert (found.fault, found.tensor, found.step) == ("replaced-rows", name, count - 1)
        assert found.message.endswith(f"go back to step {count - 2}")


def test_rows_of_an_embedding_that_a_batch_used_first_are_no_noise():
    path = walk(7, "walk", 2)
    rng = np.random.default_rng(5)
    for grown, still in ((1.0, True), (2.1, False)):
        values = path[0][EMB] if still else path[1][EMB]
        changed = values.copy()
        changed[:20] = grown * changed.std() * rng.normal(size=(20, changed.shape[1]))
        assert _found([path[0], path[1] | {EMB: changed}]) == []
