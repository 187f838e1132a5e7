"""Deep graph persistence as a feature: which matrices are paired, whatever their names and layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope import measure, open_series
from toposcope.core.types import Checkpoint, Matrix, Role, Row, Scope
from toposcope.sources.matrices import Heads
from toposcope.sources.names import FAMILIES
from toposcope.sources.projections import projection_of
from toposcope.subjects.snapshot import RunReader
from toposcope.subjects.weights.features import DEEP, DEEP_EXCESS, DEEP_PERSISTENCE, DEEP_SHUFFLED
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes._composed import Composition
from toposcope.subjects.weights.probes.by_name import named
from toposcope.subjects.weights.probes.graph_persistence import DeepGraphPersistence
from toposcope.topology import deep_graph_persistence

D, VOCABULARY, HEADS = 8, 30, 2
Weights = dict[str, np.ndarray]


def blocks(seed: int = 0) -> Weights:
    """Return what one block computes with, by its part, and embedding and head."""
    generator = np.random.default_rng(seed)
    shapes = {
        "token": (VOCABULARY, D), "q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D), "gate": (32, D),
        "up": (32, D), "down": (D, 32), "head": (VOCABULARY, D),
    }  # fmt: skip
    return {part: generator.standard_t(4, shape).astype(np.float32) for part, shape in shapes.items()}


def gpt2(of: Weights) -> Weights:
    fused = np.concatenate([of[part] for part in "qkv"])
    return {
        "wte.weight": of["token"], "h.0.attn.c_attn.weight": fused.T, "h.0.attn.c_proj.weight": of["o"].T,
        "h.0.mlp.c_fc.weight": of["up"].T, "h.0.mlp.c_proj.weight": of["down"].T,
        "lm_head.weight": of["head"],
    }  # fmt: skip


def neox(of: Weights) -> Weights:
    per_head = [of[part].reshape(HEADS, -1, D) for part in "qkv"]
    block = "gpt_neox.layers.0"
    return {
        "gpt_neox.embed_in.weight": of["token"],
        f"{block}.attention.query_key_value.weight": np.concatenate(per_head, axis=1).reshape(-1, D),
        f"{block}.attention.dense.weight": of["o"], f"{block}.mlp.dense_h_to_4h.weight": of["up"],
        f"{block}.mlp.dense_4h_to_h.weight": of["down"], "embed_out.weight": of["head"],
    }  # fmt: skip


def llama(of: Weights) -> Weights:
    block = "model.layers.0"
    return {
        "lm_head.weight": of["head"], "model.embed_tokens.weight": of["token"],
        f"{block}.mlp.down_proj.weight": of["down"], f"{block}.mlp.gate_proj.weight": of["gate"],
        f"{block}.mlp.up_proj.weight": of["up"], f"{block}.self_attn.k_proj.weight": of["k"],
        f"{block}.self_attn.o_proj.weight": of["o"], f"{block}.self_attn.q_proj.weight": of["q"],
        f"{block}.self_attn.v_proj.weight": of["v"],
    }  # fmt: skip


def ours(of: Weights) -> Weights:
    fused = np.concatenate([of[part] for part in "qkv"])
    return {
        "token_emb.weight": of["token"], "layers.0.attn.qkv.weight": fused,
        "layers.0.attn.proj.weight": of["o"],
        "layers.0.mlp.fc1.weight": of["up"], "layers.0.mlp.fc2.weight": of["down"], "head.weight": of["head"],
    }  # fmt: skip


NAMINGS = {"gpt2": gpt2, "gpt_neox": neox, "llama": llama, "gpt": ours}


def measured(folder: Path, weights: Weights, **options: Any) -> list[Row]:
    """Return the rows of a model folder with these weights."""
    folder.mkdir(exist_ok=True)
    save_file({name: np.ascontiguousarray(W) for name, W in weights.items()}, folder / "model.safetensors")
    config = {"num_attention_heads": HEADS, "hidden_size": D, "model_type": "test"}
    (folder / "config.json").write_text(json.dumps(config))
    series = open_series(folder)
    (checkpoint,) = series
    probe = DeepGraphPersistence(WeightOptions(nulls=2) if not options else WeightOptions(**options))
    return probe.measure(RunReader(series, [checkpoint])[0]).rows


def values(rows: list[Row], feature: str = DEEP.name) -> dict[tuple[str, int | None], float]:
    """Return the values of the pairs, by role and head."""
    pairs = [row for row in rows if row.feature == feature and row.scope in (Scope.MATRIX, Scope.HEAD)]
    return {(str(row.role), row.head): row.value for row in pairs}


@pytest.mark.parametrize("naming", NAMINGS)
def test_every_naming_has_the_same_pairs(tmp_path: Path, naming: str) -> None:
    of = blocks()
    found = values(measured(tmp_path / naming, NAMINGS[naming](of)))
    first = np.concatenate([of["q"], of["k"], of["v"]])
    expected = {
        ("mlp", None): deep_graph_persistence([of["up"], of["down"]]),
        ("attention", None): deep_graph_persistence([of["v"], of["o"]]),
        ("attention", 0): deep_graph_persistence([of["v"][:4], of["o"][:, :4]]),
        ("attention", 1): deep_graph_persistence([of["v"][4:], of["o"][:, 4:]]),
        ("embedding", None): deep_graph_persistence([of["token"].T, first]),
    }
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("stored", [True, False])
def test_a_tied_embedding_has_no_pair(tmp_path: Path, stored: bool) -> None:
    of = blocks()
    weights = llama(of | {"head": of["token"]})
    if not stored:
        del weights["lm_head.weight"]
    roles = {role for role, _ in values(measured(tmp_path / "tied", weights))}
    assert roles == {"mlp", "attention"}


def test_heads_that_share_their_values(tmp_path: Path) -> None:
    """Each of the two query heads reads the one group of values."""
    of = blocks()
    of |= {"k": of["k"][:4], "v": of["v"][:4]}
    weights, folder = llama(of), tmp_path / "shared"
    measured(folder, weights)
    config = json.loads((folder / "config.json").read_text()) | {"num_key_value_heads": 1}
    (folder / "config.json").write_text(json.dumps(config))
    series = open_series(folder)
    found = values(
        DeepGraphPersistence(WeightOptions(nulls=0)).measure(RunReader(series, list(series))[0]).rows
    )
    for head, columns in enumerate((slice(0, 4), slice(4, 8))):
        expected = deep_graph_persistence([of["v"], of["o"][:, columns]])
        assert found["attention", head] == pytest.approx(expected, rel=1e-6)
    whole = deep_graph_persistence([np.concatenate([of["v"]] * 2), of["o"]])
    assert found["attention", None] == pytest.approx(whole, rel=1e-6)


def test_means_excess_and_draws(tmp_path: Path) -> None:
    rows = measured(tmp_path / "run", llama(blocks()), nulls=3)
    whole = {key: value for key, value in values(rows).items() if key[1] is None}
    model = {row.feature: row.value for row in rows if row.scope == Scope.MODEL and row.draw is None}
    null = [row.value for row in rows if row.scope == Scope.MODEL and row.feature == DEEP_SHUFFLED.name]
    assert model[DEEP.name] == pytest.approx(np.mean(list(whole.values())))
    assert len(null) == 3
    assert model[DEEP_EXCESS.name] == pytest.approx(model[DEEP.name] - np.mean(null))
    roles = {str(row.role): row.value for row in rows if row.scope == Scope.ROLE and row.feature == DEEP.name}
    assert roles == pytest.approx({role: value for (role, _), value in whole.items()})


def test_the_draws_are_seeded_by_run_step_and_name(tmp_path: Path) -> None:
    once, again = (measured(tmp_path / "run", llama(blocks()), nulls=2) for _ in range(2))
    assert once == again
    heads = {row.name for row in once if row.scope == Scope.HEAD}
    assert heads == {f"model.layers.0.self_attn.v_proj.weight[head {head}]" for head in range(HEADS)}
    drawn = [row.value for row in once if row.feature == DEEP_SHUFFLED.name and row.scope == Scope.HEAD]
    assert len(set(drawn)) == len(drawn) == 2 * HEADS


def test_parts_of_names_that_are_left_out_have_no_pair(tmp_path: Path) -> None:
    found = values(measured(tmp_path / "run", llama(blocks()), nulls=0, without=("embed", "down")))
    assert {role for role, _ in found} == {"attention"}


def test_a_pair_is_dropped_once_it_is_measured() -> None:
    composition = Composition(Heads())
    of = llama(blocks())
    most = 0
    for layer in range(6):
        for name, W in of.items():
            named = name.replace("layers.0", f"layers.{layer}")
            matrix = Matrix(Checkpoint("a", 0), named, W, Role.OTHER, layer)
            list(composition.add(matrix))
            most = max(most, len(composition.halves))
    assert most <= 2
    assert composition.halves == {}


def test_it_is_measured_by_its_name_and_by_all_and_read_as_any_feature(tmp_path: Path) -> None:
    weights = {step: ours(blocks(step)) for step in (0, 10)}
    store = measure(open_series(weights), tmp_path / "store", features=[DEEP_PERSISTENCE])
    found = store.features(feature=DEEP.name)
    assert set(found["scope"]) == {"matrix", "model", "role"}  # no configuration: no heads
    assert sorted(set(found["step"])) == [0, 10]
    names = [probe.name for probe in named(["all"], WeightOptions())[0]]
    assert DEEP_PERSISTENCE in names
    assert DEEP_PERSISTENCE not in [probe.name for probe in named(["cheap"], WeightOptions())[0]]


def test_a_name_has_the_same_part_in_every_table() -> None:
    for family in FAMILIES:
        for rule in family.rules:
            name = rule.pattern.replace("{i}", "3").replace("{e}", "5")
            known = projection_of(name)
            assert known is not None
            assert (known.part, known.layer) == (rule.part, 3 if "{i}" in rule.pattern else None), name
            assert known.fused == rule.fused or rule.part == ""
