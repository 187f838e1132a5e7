from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from toposcope.core.errors import SourceError
from toposcope.core.types import Role
from toposcope.sources import open_series
from toposcope.sources.audit import audit


def read(path: Path, **options) -> dict[str, np.ndarray]:
    series = open_series(path, **options)
    return {m.name: np.asarray(m.values, np.float32) for m in series.matrices(next(iter(series)))}


def test_sharded_safetensors_with_an_index(tmp_path: Path, tensors):
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[:4], "model-00002-of-00002.safetensors": names[4:]}
    for shard, inside in shards.items():
        save_file({n: tensors[n] for n in inside}, tmp_path / shard)
    got_without_index = read(tmp_path)
    index = {"metadata": {}, "weight_map": {n: shard for shard, inside in shards.items() for n in inside}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    got = read(tmp_path)
    assert set(got) == set(got_without_index) == {n for n, t in tensors.items() if t.ndim == 2}
    for name in got:
        np.testing.assert_array_equal(got[name], tensors[name])
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        SourceError,
        match=r"model-00002-of-00002.safetensors: the index names this shard, but the file is missing",
    ):
        read(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(SourceError, match="this shard is missing"):
        read(tmp_path)


def test_sharded_bin_files(tmp_path: Path, tensors):
    names = sorted(tensors)
    table = {}
    for number, inside in enumerate((names[:4], names[4:]), 1):
        shard = f"pytorch_model-{number:05d}-of-00002.bin"
        torch.save({n: torch.from_numpy(tensors[n]) for n in inside}, tmp_path / shard)
        table |= dict.fromkeys(inside, shard)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": table}))
    got = read(tmp_path)
    assert all(np.array_equal(got[n], tensors[n]) for n in got)
    assert len(got) == 7


def test_trainer_folders_bring_steps_and_losses(tmp_path: Path, tensors):
    for step in (500, 1000):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors")
        (folder / "optimizer.pt").write_bytes(b"unread")
        history = [
            {"step": s, "loss": 3.0 - s / 1000, "learning_rate": 1e-3, "epoch": 1}
            for s in range(100, step + 1, 100)
        ]
        history.append({"step": step, "eval_loss": 2.5})
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": history}))
    series = open_series(tmp_path)
    assert [c.step for c in series] == [500, 1000]
    table = series.metrics(tmp_path.name).set_index("step")
    assert table.loc[700, "loss"] == pytest.approx(2.3)
    assert table.loc[1000, "heldout_loss"] == 2.5
    assert table.loc[1000, "loss"] == pytest.approx(2.0)


def test_nanogpt_and_lightning_checkpoints(tmp_path: Path):
    weights = {
        "_orig_mod.transformer.h.0.attn.c_attn.weight": torch.randn(12, 4),
        "_orig_mod.lm_head.weight": torch.randn(9, 4),
    }
    nano = tmp_path / "nano"
    nano.mkdir()
    torch.save(
        {
            "model": weights,
            "optimizer": {"state": {}},
            "iter_num": 250,
            "model_args": {"n_head": 2, "n_embd": 4},
        },
        nano / "ckpt.pt",
    )
    series = open_series(nano)
    assert [(c.run, c.step) for c in series] == [("nano", 250)]
    names = [m.name for m in series.matrices(next(iter(series)))]
    assert [n.rsplit(".", 1)[-1] for n in names] == ["weight[q]", "weight[k]", "weight[v]", "weight"]
    light = tmp_path / "light"
    light.mkdir()
    for step in (10, 20):
        content = {
            "state_dict": {"net.0.weight": torch.ones(3, 2) * step},
            "global_step": step,
            "pytorch-lightning_version": "2",
            "optimizer_states": [],
        }
        torch.save(content, light / f"epoch=0-step={step}.ckpt")
    torch.save(content, light / "last.ckpt")
    assert [c.step for c in open_series(light)] == [10, 20]


def test_torch_distributed_checkpoint(tmp_path: Path):
    import torch.distributed.checkpoint as dcp

    state = {
        "model": {
            "layers.0.attn.qkv.weight": torch.randn(24, 8),
            "layers.0.mlp.fc1.weight": torch.randn(32, 8).to(torch.bfloat16),
        },
        "optimizer": {"exp_avg": torch.randn(24, 8)},
        "step": 42,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    series = open_series(tmp_path / "dcp")
    (checkpoint,) = series
    assert checkpoint.step == 42
    got = dict(series.tensors(checkpoint))
    assert set(got) == {"model.layers.0.attn.qkv.weight", "model.layers.0.mlp.fc1.weight"}
    for name, values in got.items():
        expected = state["model"][name.removeprefix("model.")]
        np.testing.assert_array_equal(values.astype(np.float32), expected.float().numpy())
    with series.reading(checkpoint) as reader:
        part = reader.rows("model.layers.0.attn.qkv.weight", 3, 9)
    np.testing.assert_array_equal(part, state["model"]["layers.0.attn.qkv.weight"][3:9].numpy())
    next((tmp_path / "dcp").glob("*.distcp")).unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        list(series.tensors(checkpoint))


def test_neox_tensor_parallel_shards_are_merged(tmp_path: Path):
    rng = np.random.default_rng(0)
    qkv, dense = rng.normal(size=(24, 8)).astype(np.float32), rng.normal(size=(8, 8)).astype(np.float32)
    up, down, emb = (rng.normal(size=s).astype(np.float32) for s in ((32, 8), (8, 32), (20, 8)))
    folder = tmp_path / "global_step1000"
    folder.mkdir()
    for rank in (0, 1):
        half = {
            "attention.query_key_value.weight": np.split(qkv, 2)[rank],
            "attention.dense.weight": np.split(dense, 2, axis=1)[rank],
            "mlp.dense_h_to_4h.weight": np.split(up, 2)[rank],
            "mlp.dense_4h_to_h.weight": np.split(down, 2, axis=1)[rank],
            "input_layernorm.weight": np.ones(8, np.float32),
        }
        _save(half, folder / f"layer_02-model_{rank:02d}-model_states.pt")
        _save(
            {"word_embeddings.weight": np.split(emb, 2)[rank]},
            folder / f"layer_00-model_{rank:02d}-model_states.pt",
        )
        torch.save({"dp_world_size": 1}, folder / f"mp_rank_{rank:02d}_model_states.pt")
    got = read(tmp_path)
    expected = {
        "word_embeddings.weight": emb,
        "layers.0.attention.query_key_value.weight": qkv,
        "layers.0.attention.dense.weight": dense,
        "layers.0.mlp.dense_h_to_4h.weight": up,
        "layers.0.mlp.dense_4h_to_h.weight": down,
    }
    assert set(got) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values)
    (folder / "layer_02-model_00-model_states.pt").unlink()
    with pytest.raises(SourceError, match="layer 2 lacks its part of rank 0"):
        read(tmp_path)


def _save(arrays: dict[str, np.ndarray], path: Path) -> None:
    torch.save({name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}, path)


def _megatron(folder: Path, parts: list[dict[str, np.ndarray]], **args) -> None:
    import argparse

    for rank, part in enumerate(parts):
        inner = folder / f"mp_rank_{rank:02d}"
        inner.mkdir(parents=True)
        weights = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in part.items()}
        torch.save(
            {"model": weights, "args": argparse.Namespace(**args), "iteration": 1000},
            inner / "model_optim_rng.pt",
        )


def test_megatron_ranks_are_merged_with_gated_layers_in_order(tmp_path: Path):
    rng = np.random.default_rng(0)
    gate, up = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)
    down = rng.normal(size=(4, 6)).astype(np.float32)
    parts = [
        {
            "decoder.layers.0.mlp.linear_fc1.weight": np.concatenate(
                [np.split(gate, 2)[r], np.split(up, 2)[r]]
            ),
            "decoder.layers.0.mlp.linear_fc2.weight": np.split(down, 2, axis=1)[r],
        }
        for r in (0, 1)
    ]
    _megatron(tmp_path / "iter_0001000", parts, swiglu=True, num_attention_heads=2)
    got = read(tmp_path / "iter_0001000")
    np.testing.assert_array_equal(got["decoder.layers.0.mlp.linear_fc1.weight"], np.concatenate([gate, up]))
    np.testing.assert_array_equal(got["decoder.layers.0.mlp.linear_fc2.weight"], down)
    assert open_series(tmp_path)._sources[tmp_path.name].entries[0].checkpoint.step == 1000


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["mp_rank_00_000", "mp_rank_00_001"], "split over pipeline stages; convert it with Megatron-LM's"),
        (["mp_rank_00", "mp_rank_02"], "a rank among .* is missing"),
    ],
)
def test_unknown_megatron_layouts_name_the_converter(tmp_path: Path, names: list[str], message: str):
    for name in names:
        (tmp_path / "iter_10" / name).mkdir(parents=True)
    with pytest.raises(SourceError, match=message):
        read(tmp_path / "iter_10")


def test_an_unknown_parallel_parameter_names_the_converter(tmp_path: Path):
    _megatron(tmp_path / "iter_10", [{"odd.weight": np.ones((2, 2), np.float32)}] * 2)
    with pytest.raises(SourceError, match=r"'odd.weight' is spread over 2 ranks is not known; convert it"):
        read(tmp_path / "iter_10")


@pytest.mark.parametrize("rslora", [False, True])
def test_lora_adapters_give_the_change_that_peft_merges(tmp_path: Path, rslora: bool):
    peft = pytest.importorskip("peft")
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=30
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    options = peft.LoraConfig(
        r=4, lora_alpha=10, target_modules=["q_proj", "up_proj", "embed_tokens"], use_rslora=rslora
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(model, options)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
        merged = dict(adapted.merge_and_unload().named_parameters())
    got = read(tmp_path / "adapter")
    assert len(got) == 3
    for name, change in got.items():
        plain = name.removeprefix("base_model.model.")
        np.testing.assert_allclose(change, (merged[plain] - before[plain]).detach().numpy(), atol=1e-5)


def test_numpy_archives(tmp_path: Path, tensors):
    for step, save in ((1, np.savez), (2, np.savez_compressed)):
        save(
            tmp_path / f"step_{step}.npz", **tensors, fortran=np.asfortranarray(np.arange(6.0).reshape(2, 3))
        )
    series = open_series(tmp_path)
    for checkpoint in series:
        got = dict(series.tensors(checkpoint))
        for name, values in tensors.items():
            np.testing.assert_array_equal(got[name], values)
        np.testing.assert_array_equal(got["fortran"], np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "step_1.npz", a=np.array([object()], dtype=object))
    with pytest.raises(SourceError, match="contains Python objects and is not read"):
        list(series.tensors(next(iter(series))))


def test_llama2c_binary_without_shared_classifier(tmp_path: Path):
    dim, hidden, layers, heads, groups, vocabulary, context = 8, 12, 2, 4, 2, 10, 16
    keys, half = dim // heads * groups, dim // heads // 2
    counts = [
        vocabulary * dim,
        layers * dim,
        layers * dim * dim,
        layers * keys * dim,
        layers * keys * dim,
        layers * dim * dim,
    ]
    counts += [
        layers * dim,
        layers * hidden * dim,
        layers * dim * hidden,
        layers * hidden * dim,
        dim,
        context * half,
        context * half,
    ]
    flat = np.arange(sum(counts) + vocabulary * dim, dtype=np.float32)
    header = struct.pack("<7i", dim, hidden, layers, heads, groups, -vocabulary, context)
    path = tmp_path / "toy.bin"
    path.write_bytes(header + flat.tobytes())
    got = read(path)
    at = np.cumsum([0, *counts])
    np.testing.assert_array_equal(got["tok_embeddings.weight"], flat[: at[1]].reshape(vocabulary, dim))
    wk = flat[at[3] : at[4]].reshape(layers, keys, dim)
    np.testing.assert_array_equal(got["layers.1.attention.wk.weight"], wk[1])
    w2 = flat[at[8] : at[9]].reshape(layers, dim, hidden)
    np.testing.assert_array_equal(got["layers.0.feed_forward.w2.weight"], w2[0])
    np.testing.assert_array_equal(got["output.weight"], flat[at[-1] :].reshape(vocabulary, dim))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(SourceError, match="its header needs"):
        read(path)


def test_llama2c_int8_binary(tmp_path: Path):
    dim, hidden, vocabulary, group = 8, 16, 10, 4
    rng = np.random.default_rng(0)
    header = struct.pack("<4s8iBi", b"24ka", 2, dim, hidden, 1, 2, 2, vocabulary, 16, 1, group).ljust(
        256, b"\0"
    )
    body, expected = rng.normal(size=3 * dim).astype(np.float32).tobytes(), {}
    shapes = {"tok_embeddings": (vocabulary, dim)} | {f"layers.0.attention.w{p}": (dim, dim) for p in "qkvo"}
    shapes |= {
        "layers.0.feed_forward.w1": (hidden, dim),
        "layers.0.feed_forward.w2": (dim, hidden),
        "layers.0.feed_forward.w3": (hidden, dim),
    }
    for name, shape in shapes.items():
        q = rng.integers(-127, 128, size=shape, dtype=np.int8)
        scale = rng.random(q.size // group).astype(np.float32)
        body += q.tobytes() + scale.tobytes()
        expected[f"{name}.weight"] = (q.reshape(-1, group) * scale[:, None]).reshape(shape)
    (tmp_path / "toy.bin").write_bytes(header + body)
    got = read(tmp_path / "toy.bin")
    assert set(got) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-6)


def test_stories260k_is_the_real_model(shared_data: Path):
    series = open_series(shared_data / "stories260K" / "stories260K.bin")
    assert series.runs[0].parameters == 260_032
    roles = [m.role for m in series.matrices(next(iter(series)))]
    assert roles.count(Role.ATTENTION) == 20
    assert roles.count(Role.MLP) == 15
    assert roles.count(Role.EMBEDDING) == 1


def test_stacked_experts_are_taken_apart(tmp_path: Path):
    rng = np.random.default_rng(0)
    stack = rng.normal(size=(3, 6, 4)).astype(np.float32)
    content = {
        "model.layers.4.mlp.experts.down_proj": stack,
        "model.layers.4.mlp.gate.weight": np.ones((3, 4), np.float32),
        "conv.kernel": stack,
    }
    save_file(content, tmp_path / "model.safetensors")
    series = open_series(tmp_path)
    found = {m.name: m for m in series.matrices(next(iter(series)))}
    assert set(found) == {f"model.layers.4.mlp.experts.down_proj[{e}]" for e in range(3)} | {
        "model.layers.4.mlp.gate.weight"
    }
    for expert in range(3):
        matrix = found[f"model.layers.4.mlp.experts.down_proj[{expert}]"]
        np.testing.assert_array_equal(matrix.values, stack[expert])
        assert (matrix.role, matrix.layer) == (Role.MLP, 4)


def test_float8_is_dequantised_by_the_scale_beside_it(tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    full = torch.randn(256, 130, generator=generator)
    f8 = full.to(torch.float8_e4m3fn)
    scale, blocks = torch.rand(256, 1, generator=generator), torch.rand(2, 2, generator=generator)
    content = {
        "a.weight": f8,
        "a.weight_scale": scale,
        "b.weight": f8.clone(),
        "b.weight_scale_inv": blocks,
        "c.weight": f8.clone(),
        "d.weight": torch.zeros(4, 4, dtype=torch.int8),
    }
    save_torch(content, tmp_path / "model.safetensors")
    got = read(tmp_path)
    assert set(got) == {"a.weight", "b.weight"}
    np.testing.assert_allclose(got["a.weight"], (f8.float() * scale).numpy())
    grown = blocks.repeat_interleave(128, 0).repeat_interleave(128, 1)[:256, :130]
    np.testing.assert_allclose(got["b.weight"], (f8.float() * grown).numpy())
    series = open_series(tmp_path)
    skipped = series.skipped(next(iter(series)))
    assert skipped["c.weight"] == "8-bit floats without a scale beside them"
    assert "packed integers" in skipped["d.weight"]


def test_int8_gptq_and_awq_weights_are_dequantised(tmp_path: Path):
    rng = np.random.default_rng(0)
    n_in, n_out, groups = 32, 16, 4
    q = rng.integers(0, 16, size=(n_in, n_out))
    zero = rng.integers(1, 16, size=(groups, n_out))
    scale = rng.random((groups, n_out)).astype(np.float16)
    group = np.arange(n_in) // (n_in // groups)
    weight = ((q - zero[group]) * scale.astype(np.float32)[group]).T
    awq = (0, 2, 4, 6, 1, 3, 5, 7)  # the column that each nibble of an integer holds
    content = {
        "g.qweight": _pack(q.T).T.copy(),
        "g.qzeros": _pack(zero - 1),
        "g.scales": scale,
        "g.g_idx": group.astype(np.int32),
        "a.qweight": _pack(q.reshape(n_in, -1, 8)[:, :, awq].reshape(n_in, -1)),
        "a.qzeros": _pack(zero.reshape(groups, -1, 8)[:, :, awq].reshape(groups, -1)),
        "a.scales": scale,
        "i.weight": rng.integers(-127, 128, size=(5, 6), dtype=np.int8),
        "i.SCB": rng.random(5).astype(np.float32),
    }
    save_file(content, tmp_path / "model.safetensors")
    got = read(tmp_path)
    np.testing.assert_allclose(got["g.weight"], weight, rtol=1e-6)
    np.testing.assert_allclose(got["a.weight"], weight, rtol=1e-6)
    np.testing.assert_allclose(
        got["i.weight"], content["i.weight"] * content["i.SCB"][:, None] / 127, rtol=1e-6
    )


def _pack(values: np.ndarray) -> np.ndarray:
    nibbles = values.reshape(values.shape[0], -1, 8).astype(np.uint32)
    return (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32).view(np.int32)


def test_four_bit_floats_with_their_map(tmp_path: Path):
    rng = np.random.default_rng(0)
    table, absmax = rng.normal(size=16).astype(np.float32), rng.random(3).astype(np.float32)
    codes = rng.integers(0, 16, size=192).astype(np.uint8)
    state = json.dumps({"shape": [12, 16], "blocksize": 64, "quant_type": "nf4", "dtype": "float16"}).encode()
    content = {
        "m.weight": ((codes[::2] << 4) | codes[1::2]).reshape(-1, 1),
        "m.weight.absmax": absmax,
        "m.weight.quant_map": table,
        "m.weight.quant_state.bitsandbytes__nf4": np.frombuffer(state, np.uint8),
    }
    save_file(content, tmp_path / "model.safetensors")
    expected = (table[codes].reshape(3, 64) * absmax[:, None]).reshape(12, 16)
    np.testing.assert_allclose(read(tmp_path)["m.weight"], expected, rtol=1e-6)


def test_bfloat16_stays_bfloat16(tmp_path: Path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4).astype(ml_dtypes.bfloat16)
    save_torch(
        {"a.weight": torch.arange(12.0).reshape(3, 4).to(torch.bfloat16)}, tmp_path / "model.safetensors"
    )
    series = open_series(tmp_path)
    (matrix,) = series.matrices(next(iter(series)))
    assert matrix.values.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(matrix.values, values)


def test_an_epoch_stands_for_the_step_where_nothing_else_does(tmp_path):
    weights = {"layer.weight": torch.ones(4, 4)}
    for name, content in (("last", {"epoch": 3}), ("best", {"epoch": 3, "global_step": 90})):
        folder = tmp_path / name
        folder.mkdir()
        torch.save({"state_dict": weights, **content}, folder / "last.ckpt")
    (last,) = open_series(tmp_path / "last" / "last.ckpt")
    assert last.step == 3
    (best,) = open_series(tmp_path / "best" / "last.ckpt")
    assert best.step == 90
    torch.save({"model": weights, "epoch": 3}, tmp_path / "last" / "step_900.pt")
    assert audit(open_series(tmp_path / "last" / "step_900.pt")) == []
