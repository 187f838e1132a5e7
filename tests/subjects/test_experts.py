"""The probe of mixtures of experts: the gate's rows, the spread of the experts, and nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import toposcope as ts
from toposcope import open_series
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.by_name import named
from toposcope.subjects.weights.probes.experts import Experts

NAMES = "model.layers.{i}.mlp.experts.{e}.{p}_proj.weight"


def mixture(seed: int, *, stack: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out = {"model.embed_tokens.weight": rng.normal(size=(30, 8)).astype(np.float32)}
    for layer in range(2):
        out[f"model.layers.{layer}.mlp.gate.weight"] = rng.normal(size=(4, 8)).astype(np.float32)
        for part in ("up", "down"):
            values = rng.normal(size=(4, 12, 8)).astype(np.float32)
            if stack:
                out[f"model.layers.{layer}.mlp.experts.{part}_proj"] = values
            else:
                out |= {NAMES.format(i=layer, e=e, p=part): values[e] for e in range(4)}
    return out


def measured(states, tmp_path):
    table = ts.measure(open_series(states), tmp_path, features=["experts"]).features()
    return table[table["probe"] == "experts"] if len(table) else table


@pytest.mark.parametrize("stack", [False, True])
def test_the_features_are_those_of_numpy(tmp_path, stack):
    states = {step: mixture(step, stack=stack) for step in (0, 10)}
    table = measured(states, tmp_path)
    assert set(table["scope"]) == {"layer"}
    assert set(table["name"]) == {"model.layers.0.mlp.experts", "model.layers.1.mlp.experts"}
    plain = mixture(10)
    value = table[(table["step"] == 10) & (table["layer"] == 1)].set_index("feature")["value"]
    gates = [mixture(step)["model.layers.1.mlp.gate.weight"].astype(float) for step in (0, 10)]
    norms = np.linalg.norm(gates[1], axis=1)
    ranks = []
    for gate in gates:
        singular = np.linalg.svd(gate - gate.mean(0), compute_uv=False)
        ranks.append((singular**2).sum() / singular[0] ** 2)
    cosines = (gates[1] @ gates[1].T / np.outer(norms, norms))[np.triu_indices(4, 1)]
    sizes = [
        np.sqrt(sum(np.square(plain[NAMES.format(i=1, e=e, p=p)]).sum() for p in ("up", "down")))
        for e in range(4)
    ]
    assert value["gate_norm_spread"] == pytest.approx(norms.std() / norms.mean())
    assert value["gate_cosine"] == pytest.approx(cosines.mean())
    assert value["gate_cosine_largest"] == pytest.approx(cosines.max())
    assert value["gate_rank"] == pytest.approx(ranks[1])
    assert value["gate_rank_kept"] == pytest.approx(ranks[1] / ranks[0])
    assert value["expert_norm_spread"] == pytest.approx(np.std(sizes) / np.mean(sizes), rel=1e-5)
    assert value["expert_norm_least"] == pytest.approx(min(sizes) / np.median(sizes), rel=1e-5)
    assert value["expert_cosine_largest"] < 0.5
    assert "gate_rank_kept" not in set(table[table["step"] == 0]["feature"])


def test_equal_experts_are_alike(tmp_path):
    state = mixture(0)
    for part in ("up", "down"):
        state[NAMES.format(i=0, e=3, p=part)] = state[NAMES.format(i=0, e=1, p=part)]
    table = measured({0: state}, tmp_path)
    value = table[(table["feature"] == "expert_cosine_largest") & (table["layer"] == 0)]["value"]
    assert value.tolist() == pytest.approx([1.0])


def test_a_dense_model_has_no_rows_and_is_not_read(tmp_path):
    dense = {"model.layers.0.mlp.gate_proj.weight": np.eye(8, dtype=np.float32)}
    assert len(measured({0: dense}, tmp_path)) == 0


def test_all_leaves_it_out():
    assert not [probe for probe in named(["all", "cheap"], WeightOptions())[0] if isinstance(probe, Experts)]
