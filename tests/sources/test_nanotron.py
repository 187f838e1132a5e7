"""Nanotron's checkpoints: what its ranks hold is put together as their own metadata say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nanotron_files import nanotron_parameter, nanotron_rest
from toposcope.core.errors import SourceError
from toposcope.core.types import Role
from toposcope.sources import open_series

RANDOM = np.random.default_rng(0)
Q, K, FF, WIDTH, WORDS = 8, 4, 12, 8, 20
BLOCK = {
    "attn.qkv_proj.weight": RANDOM.normal(size=(Q + 2 * K, WIDTH)).astype(np.float32),
    "attn.o_proj.weight": RANDOM.normal(size=(WIDTH, Q)).astype(np.float32),
    "mlp.gate_up_proj.weight": RANDOM.normal(size=(2 * FF, WIDTH)).astype(np.float32),
    "mlp.down_proj.weight": RANDOM.normal(size=(WIDTH, FF)).astype(np.float32),
    "input_layernorm.weight": RANDOM.normal(size=WIDTH).astype(np.float32),
}
SPREAD = {
    "attn.qkv_proj.weight": {"chunks": (Q, K, K)},
    "attn.o_proj.weight": {"axis": 1},
    "mlp.gate_up_proj.weight": {"chunks": (FF, FF)},
    "mlp.down_proj.weight": {"axis": 1},
    "input_layernorm.weight": {"ranks": 0},
}
EMBEDDING = RANDOM.normal(size=(WORDS, WIDTH)).astype(np.float32)
CONFIG = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": WIDTH}


def _write(step, *, layers=2, stages=1):
    for layer in range(layers):
        stage = (layer * stages // layers, stages)
        for name, value in BLOCK.items():
            full = f"model.decoder.{layer}.pp_block.{name}"
            nanotron_parameter(step, full, value + layer, **{"ranks": 2, "stage": stage, **SPREAD[name]})
    place = "model.token_position_embeddings.pp_block.token_embedding.weight"
    nanotron_parameter(step, place, EMBEDDING, ranks=2, stage=(0, stages))
    nanotron_rest(step, layers=layers, **CONFIG)


@pytest.mark.parametrize("stages", [1, 2])
def test_every_parameter_is_put_together_from_its_ranks_and_stages(tmp_path, stages):
    _write(tmp_path / "run" / "100", stages=stages)
    series = open_series(tmp_path / "run")
    (at,) = series
    assert (at.run, at.step) == ("run", 100)
    read = dict(series.tensors(at))
    wanted = {
        f"model.layers.{layer}.{name.replace('attn.', 'self_attn.')}": value + layer
        for layer in (0, 1)
        for name, value in BLOCK.items()
    } | {"model.embed_tokens.weight": EMBEDDING}
    assert set(read) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(read[name], value)


def test_fused_matrices_are_split_by_the_configuration_that_lies_beside(tmp_path):
    _write(tmp_path / "run" / "100")
    series = open_series(tmp_path / "run", split="parts")
    found = {m.name: m for m in series.matrices(next(iter(series)))}
    q = next(m for name, m in found.items() if name.startswith("model.layers.1") and "[q]" in name)
    assert q.role == Role.ATTENTION
    np.testing.assert_array_equal(q.values, BLOCK["attn.qkv_proj.weight"][:Q] + 1)


@pytest.mark.parametrize(
    ("remove", "why"),
    [
        ("model/model/decoder/1/pp_block/mlp/down_proj/*tp-rank-1*", "lacks its part of rank 1"),
        ("model/model/decoder/1/**/*.safetensors", "layer 1 of 2 is missing"),
        ("model_config.json", "has no model_config.json"),
    ],
)
def test_what_is_missing_is_named(tmp_path, remove, why):
    step = tmp_path / "run" / "100"
    _write(step)
    for path in step.glob(remove):
        path.unlink()
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match=why):
        list(series.matrices(next(iter(series))))


def test_a_pipeline_stage_without_a_file_is_named(tmp_path):
    step = tmp_path / "run" / "100"
    _write(step, stages=2)
    for path in step.rglob("*pp-rank-1-*"):
        path.unlink()
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match="no file of pipeline stage 1 of 2"):
        list(series.matrices(next(iter(series))))


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ("0,4,0|None,None,None#0,4,1|None,None,None", "which are not slices"),
        ("None,None,None#None,None,None", "have a different number of dimensions"),
        ("0,2,None|None,None,None#0,2,None|None,None,None", "do not cover it"),
        ("", "which are not slices"),
    ],
)
def test_slices_that_do_not_fit_are_refused(tmp_path, pairs, why):
    from safetensors.numpy import save_file

    step = tmp_path / "run" / "100"
    (path,) = nanotron_parameter(step, "model.lm_head.pp_block.weight", EMBEDDING, ranks=1)
    nanotron_rest(step, layers=0)
    metadata = {"local_global_slices_pairs": pairs, "unsharded_shape": str(EMBEDDING.shape)}
    save_file({"data": EMBEDDING}, path, metadata=metadata)
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match=why):
        list(series.matrices(next(iter(series))))


def test_ranks_that_hold_the_same_slice_twice_are_refused(tmp_path):
    step = tmp_path / "run" / "100"
    first, second = nanotron_parameter(step, "model.lm_head.pp_block.weight", EMBEDDING, ranks=2)
    second.write_bytes(first.read_bytes())
    nanotron_rest(step, layers=0)
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match="overlap"):
        list(series.matrices(next(iter(series))))


def test_a_file_of_experts_that_no_rule_knows_is_refused_by_name(tmp_path):
    step = tmp_path / "run" / "100"
    (path,) = nanotron_parameter(step, "model.lm_head.pp_block.weight", EMBEDDING, ranks=1)
    path.rename(path.with_name("model_weight_exp-rank-0-of-2.safetensors"))
    nanotron_rest(step, layers=0)
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match="its distribution over ranks is unknown; convert it"):
        list(series.matrices(next(iter(series))))


@pytest.mark.parametrize(
    ("data", "metadata", "why"),
    [
        ("data", {"unsharded_shape": "(a, b)", "local_global_slices_pairs": "x"}, "is not a shape"),
        ("other", {}, "has no tensor 'data'"),
    ],
)
def test_a_file_that_says_nothing_of_use_is_refused(tmp_path, data, metadata, why):
    from safetensors.numpy import save_file

    step = tmp_path / "run" / "100"
    (path,) = nanotron_parameter(step, "model.lm_head.pp_block.weight", EMBEDDING, ranks=1)
    nanotron_rest(step, layers=0)
    save_file({data: EMBEDDING}, path, metadata=metadata)
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match=why):
        list(series.matrices(next(iter(series))))


def test_files_of_two_worlds_and_none_at_all_are_refused(tmp_path):
    step = tmp_path / "run" / "100"
    made = nanotron_parameter(step, "model.lm_head.pp_block.weight", EMBEDDING, ranks=1)
    made += nanotron_parameter(step, "model.decoder.0.pp_block.x.weight", EMBEDDING, ranks=2)
    nanotron_rest(step, layers=0)
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match="from runs with different numbers of ranks"):
        list(series.matrices(next(iter(series))))
    for path in made:
        path.unlink()
    series = open_series(tmp_path / "run")
    with pytest.raises(SourceError, match="its folder model contains no weights"):
        list(series.matrices(next(iter(series))))
