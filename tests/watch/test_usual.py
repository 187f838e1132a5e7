"""What a healthy training does to its tensors raises no alarm, and what it never does raises one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.statistics.alarms.spending import Spending
from toposcope.store import Store
from toposcope.subjects.weights.probes.updates import matrix_update
from toposcope.watch.alarms.base import SeenCheckpoint, Watched
from toposcope.watch.alarms.content import Content
from toposcope.watch.alarms.matrix_or_head import MatrixOrHead
from toposcope.watch.alarms.update_level import UpdateLevels
from toposcope.watch.alarms.update_norm import UpdateNorm
from toposcope.watch.run_watch import RowsInUse, RunWatch
from toposcope.watch.watchman import FALSE_ALARMS, Watchman


def test_the_rate_that_is_stated_counts_fixed_checks_and_stands_in_the_docs(tmp_path):
    false, runs = FALSE_ALARMS
    said = Watchman(Store.create(tmp_path / "store", recipe={}).path).stated()
    assert "at most 5% of healthy runs by design" in said
    assert f"all checks, fixed ones included, in {false} of {runs} healthy runs" in said
    page = Path(__file__).parents[2] / "docs" / "watch.md"
    assert f"{false} of {runs} healthy runs raise an alarm" in page.read_text(encoding="utf-8")


def _rows(numbers, **common):
    """Rows of (name, head, feature): value."""
    usual = {
        "role": "mlp",
        "layer": None,
        "scope": "matrix",
        "draw": np.nan,
        "status": "ok",
        "probe": "updates",
    }
    return pd.DataFrame(
        [
            {**usual, "name": name, "head": head, "feature": feature, "value": value, **common}
            for (name, head, feature), value in numbers.items()
        ]
    )


def _told(checkpoints):
    content = Content()
    return [[fault.sentence for fault in content.update(_rows(numbers))] for numbers in checkpoints]


def _vectors(along, size):
    """A bias and four gains, as large as 1."""
    gains = {(f"gain{i}", None, "tensor_along"): 0.01 for i in range(4)}
    sizes = {(f"gain{i}", None, "tensor_rms"): 1.0 for i in range(4)}
    return gains | sizes | {("bias", None, "tensor_along"): along, ("bias", None, "tensor_rms"): size}


def test_a_bias_that_rested_and_begins_to_learn_is_no_fault():
    """As a LayerNorm's bias of 16 numbers did in a real run: by .9, then .43, .18, .16 of itself."""
    moves = [0.02, -0.1, 0.03, -0.02, 0.15, 0.9, 0.43, 0.18, 0.16]
    assert not any(_told([_vectors(along, 0.08) for along in moves]))


def test_a_bias_that_is_multiplied_for_one_checkpoint_is_told_when_it_is_back():
    moves = [0.02, -0.1, 0.03, -0.02, 0.02, 2.0, -2 / 3, 0.02]
    said = _told([_vectors(along, 0.08) for along in moves])
    assert said[6] == ["bias was multiplied by 3 for one checkpoint"]
    assert not any(said[:6] + said[7:])


def test_a_vector_as_large_as_the_others_that_is_multiplied_is_told_at_once():
    moves = [0.02, -0.1, 0.03, -0.02, 0.02, 2.0]
    assert _told([_vectors(along, 1.5) for along in moves])[-1] == ["bias was multiplied by 3"]


def test_a_head_that_stands_still_is_told_as_a_matrix_is():
    def moved(head, whole=0.0):
        heads = {("attn.q", i, "update_relative"): 0.05 for i in range(4)}
        parts = {("attn.q", i, f"update_relative_{part}"): 0.05 for i in range(4) for part in "qkvo"}
        still = {key: 0.0 for key in heads | parts if head in ("all", key[1])}
        return heads | parts | still | {("attn.q", None, "unchanged_rows"): whole}

    said = _told([moved(None)] * 5 + [moved(2)] * 3)
    assert said == [[]] * 5 + [["attn.q head 2 did not change at all"], [], []]
    assert _told([moved(None)] * 5 + [moved("all", 1.0)])[-1] == ["attn.q did not change at all"]


def test_a_part_of_a_head_that_stands_still_is_told():
    moved = {("attn.q", 1, f"update_relative_{part}"): 0.05 for part in "qkvo"}
    still = moved | {("attn.q", 1, "update_relative_v"): 0.0}
    assert _told([moved] * 3 + [still])[-1] == ["attn.q head 1 did not change at all in its V"]


@pytest.mark.parametrize("block", [(slice(0, 10), slice(None)), (slice(None), slice(0, 2))])
def test_a_quarter_of_one_matrix_that_is_frozen_is_told(block):
    random, then = np.random.default_rng(1), {f"m{i}": np.ones((40, 8), np.float32) for i in range(3)}
    checkpoints = []
    for step in range(9):
        now = {
            name: value + 0.01 * random.normal(size=value.shape).astype(np.float32)
            for name, value in then.items()
        }
        if step >= 6:
            now["m1"][block] = then["m1"][block]
        checkpoints.append(
            {
                (name, None, "unchanged_values"): matrix_update(now[name], then[name])[0]["unchanged_values"]
                for name in now
            }
        )
        then = now
    said = _told(checkpoints)
    assert said[6] == ["m1 has values that stopped changing: 25%"]
    assert not any(said[:6] + said[7:])


def test_values_below_the_precision_of_all_weights_did_not_freeze():
    """In bfloat16, more and more values stand still in every matrix as the learning rate falls."""
    shares = [0.0, 0.01, 0.02, 0.03, 0.3, 0.5]
    assert not any(
        _told([{(f"m{i}", None, "unchanged_values"): share for i in range(4)} for share in shares])
    )


def test_rows_that_are_used_for_the_first_time_were_not_replaced():
    """A third of the position embedding is reached when the context grows: it learns from noise near 0."""

    def positions(renewed, resting):
        return {
            ("wpe", None, "renewed_rows"): renewed, ("wpe", None, "renewed_count"): 24 * renewed,
            ("wpe", None, "resting_rows"): resting,
        }  # fmt: skip

    ramp = [positions(0.0, 2 / 3)] * 6 + [positions(1 / 3, 1 / 3), positions(0.0, 1 / 3)]
    assert not any(_told(ramp))
    replaced = [positions(0.0, 0.0)] * 6 + [positions(1 / 3, 0.0)]
    assert _told(replaced)[-1] == ["wpe has rows that no longer resemble their earlier values: 33%"]


def test_weight_decay_alone_does_not_use_a_row():
    then = np.random.default_rng(2).normal(size=(12, 8)).astype(np.float32)
    now = then * np.float32(1 - 3e-4)
    now[:4] += 0.01
    assert matrix_update(now, then)[0]["resting_rows"] == pytest.approx(8 / 12)
    in_use = RowsInUse()
    shares = [2 / 3, 2 / 3, 1 / 3, 0.5, 1 / 3, 0.0]
    woken = [in_use.woken(_rows({("wpe", None, "resting_rows"): share})) for share in shares]
    assert [bool(one) for one in woken] == [False, False, True, False, False, True]


def _moves(updates, relative, *, wake=False):
    numbers = {(f"m{i}", None, "update_relative"): relative for i in range(6)}
    peaks = {
        ("wpe", None, "update_row_max"): 40.0 if wake else 1.5,
        ("wpe", None, "resting_rows"): 0.0 if wake else 0.5,
    }
    return _rows(numbers | peaks)


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("spacings", [(10, 80), (80, 10)])
def test_checkpoints_that_come_farther_apart_or_closer_raise_no_alarm(power, spacings):
    random, watch, told, step = np.random.default_rng(4), RunWatch("a"), [], 0
    watch.metrics(
        pd.DataFrame({"step": range(3000), "loss": np.nan, "grad_norm": np.nan, "learning_rate": 1e-3})
    )
    for i in range(40):
        step += spacings[i >= 20]
        length = 0.01 * spacings[i >= 20] ** power
        whole = _rows(
            {("model", None, "update_norm"): length * np.exp(0.05 * random.normal())}, scope="model"
        )
        parts = _rows(
            {(f"m{k}", None, "update_relative"): length * np.exp(0.05 * random.normal()) for k in range(6)}
        )
        told += watch.checkpoint(step, pd.concat([whole, parts]))
    assert [one.sentence for one in told] == []


def test_an_update_that_is_too_large_for_its_number_is_still_told():
    alarm, random = UpdateNorm(Watched("a", Spending(0.05))), np.random.default_rng(5)
    told = []
    for i in range(30):
        norm = (10.0 if i == 25 else 1.0) * np.exp(0.05 * random.normal())
        rows = _rows({("model", None, "update_norm"): norm}, scope="model")
        told += alarm.on_checkpoint(SeenCheckpoint(10 * i, rows, 10 * (i - 1), 1e-3))
    assert [one.step for one in told] == [250]


def test_a_matrix_begins_anew_where_rows_are_used_for_the_first_time():
    def run(woken):
        alarm, told = MatrixOrHead(Watched("a", Spending(0.05))), []
        for i in range(30):
            seen = SeenCheckpoint(10 * i, _moves(10, 0.05, wake=i == 25), 10 * (i - 1))
            seen.woken = frozenset(woken if i == 25 else ())
            told += alarm.on_checkpoint(seen)
        return told

    assert run(())
    assert not run(("wpe",))


def _updates(lengths):
    """Matrices of 100 values each, two to a layer."""
    numbers = {}
    for (name, _), length in lengths.items():
        numbers[name, None, "update_norm"] = length
        numbers[name, None, "tensor_norm"], numbers[name, None, "tensor_rms"] = 10.0, 1.0
    layers = dict(lengths.keys())
    return _rows(numbers).assign(layer=lambda rows: rows["name"].map(layers))


@pytest.mark.parametrize(("fold", "tells"), [(1.0, False), (8.0, True), (1 / 8, True)])
def test_a_matrix_leaves_its_level_only_beside_the_others(fold, tells):
    """All updates rise or fall alike, then one matrix alone."""

    def told(change):
        levels, found = UpdateLevels(), []
        lengths = {(f"h.{k // 2}.m{k}", k // 2): 1.0 for k in range(8)}
        before, after = (_updates(change(lengths, i)) for i in (0, 25))
        for i in range(40):
            found += levels.update(10 * i, 10 * (i - 1), 1e-3, after if i >= 25 else before)
        return {one.change.key[0] for one in found}

    def alike(lengths, i):
        return dict.fromkeys(lengths, 8.0 if i >= 25 else 1.0)

    def alone(lengths, i):
        return lengths | {("h.1.m2", 1): fold if i >= 25 else 1.0}

    assert not told(alike)
    assert told(alone) == ({"h.1.m2"} if tells else set())


def test_an_expert_that_is_used_again_becomes_as_fast_as_the_others():
    levels, found = UpdateLevels(), []
    for i in range(40):
        lengths = {(f"h.{k // 2}.m{k}", k // 2): 1.0 for k in range(8)} | {
            ("h.1.m2", 1): 1.0 if i >= 25 else 0.1
        }
        found += levels.update(10 * i, 10 * (i - 1), 1e-3, _updates(lengths))
    assert found == []


@pytest.mark.parametrize(
    ("gate", "layer", "size", "tells"),
    [
        ("h.1.ls.gamma", 1, 0.02, False), ("gates.1", None, 0.02, False), ("h.2.ls.gamma", 2, 0.02, True),
        ("h.1.ls.gamma", 1, 0.5, True), ("h.1.m2.bias", 1, 0.02, True), ("h.1.norm.weight", 1, 0.02, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fold", [8.0, 1 / 8])
def test_updates_behind_a_gate_near_0_may_fall(gate, layer, size, tells, fold):
    """Gradients pass through a gate: those behind one near 0 vanish by themselves."""

    def rows(length):
        lengths = {(f"h.{k // 2}.m{k}", k // 2): 1.0 for k in range(8)}
        lengths["h.1.m2", 1] = length
        matrices = _updates(lengths)
        largest = matrices[matrices["feature"] == "update_norm"].assign(feature="row_largest")
        of_gate = _rows({(gate, None, "tensor_rms"): size}).assign(layer=layer)
        return pd.concat([matrices, largest, of_gate.astype({"layer": float})], ignore_index=True)

    levels, found = UpdateLevels(), []
    before, after = rows(1.0), rows(fold)
    for i in range(40):
        found += levels.update(10 * i, 10 * (i - 1), 1e-3, after if i >= 25 else before)
    assert {one.change.key[0] for one in found} == ({"h.1.m2"} if tells or fold > 1 else set())
