"""An adapter is matched to the weight as its base stores it: fused, apart, transposed, under a prefix."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import toposcope as ts

WIDTH, RANK = 8, 2


def write(folder: Path, weights: dict[str, np.ndarray], file: str, **config: object) -> Path:
    folder.mkdir(parents=True)
    save_file({name: np.ascontiguousarray(one, np.float32) for name, one in weights.items()}, folder / file)
    name = "adapter_config.json" if "peft_type" in config else "config.json"
    (folder / name).write_text(json.dumps(config))
    return folder


def lora(
    folder: Path, module: str, shape: tuple[int, int], more: dict | None = None, **config: object
) -> Path:
    g = np.random.default_rng(1)
    start = f"base_model.model.{module}"
    pair = {
        f"{start}.lora_A.weight": g.normal(size=(RANK, shape[1])),
        f"{start}.lora_B.weight": g.normal(size=(shape[0], RANK)),
    } | {f"{start}.{end}": values for end, values in (more or {}).items()}
    stated = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, **config}
    return write(folder, pair, "adapter_model.safetensors", **stated)


HEADS = {"num_attention_heads": 2, "hidden_size": WIDTH}
CASES = [  # the weights of the base (name, shape), the adapter's module and shape, and its configuration
    ({"h.0.attn.c_attn.weight": (8, 24)}, "transformer.h.0.attn.c_attn", (24, 8), {"fan_in_fan_out": True}),
    ({"h.0.attn.c_attn.weight": (8, 24)}, "transformer.h.0.attn.q_proj", (8, 8), {}),
    ({"model.layers.0.self_attn.qkv_proj.weight": (24, 8)}, "model.layers.0.self_attn.v_proj", (8, 8), {}),
    ({"layers.0.attention.query_key_value.weight": (24, 8)}, "layers.0.attention.q_proj", (8, 8), {}),
    ({"transformer.blocks.0.attn.Wqkv.weight": (24, 8)}, "transformer.blocks.0.attn.Wqkv", (24, 8), {}),
    ({"model.layers.0.mlp.gate_up_proj.weight": (32, 8)}, "model.layers.0.mlp.up_proj", (16, 8), {}),
    (
        {f"model.layers.0.self_attn.{part}_proj.weight": (8, 8) for part in "qkv"},
        "model.layers.0.self_attn.qkv_proj", (24, 8), {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "module", "shape", "config"), CASES)
def test_a_sound_adapter_is_measured_beside_its_base(tmp_path: Path, stored, module, shape, config) -> None:
    weights = {name: np.ones(size) for name, size in stored.items()}
    base = write(tmp_path / "base", weights, "model.safetensors", **HEADS)
    adapter = lora(tmp_path / "adapter", module, shape, **config)
    found = ts.compare(base, adapter)
    assert found.ok
    g = np.random.default_rng(1)
    a, b = g.normal(size=(RANK, shape[1])), g.normal(size=(shape[0], RANK))
    # all weights are 1, so the norm of the changed part is the root of its size
    expected = np.linalg.norm(b @ a) / np.sqrt(shape[0] * shape[1])
    assert found.relative["change"].tolist() == pytest.approx([expected], rel=1e-5)


def test_dora_is_compared_by_its_rescaled_weights(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"fc.weight": np.eye(WIDTH)}, "model.safetensors")
    twice = {"lora_magnitude_vector": np.full(WIDTH, 2.0), "lora_B.weight": np.zeros((WIDTH, RANK))}
    adapter = lora(tmp_path / "dora", "fc", (WIDTH, WIDTH), twice, use_dora=True)
    found = ts.compare(base, adapter)
    assert found.ok  # B A is zero, and the magnitudes alone were trained
    assert found.relative["change"].tolist() == pytest.approx([1.0])


def test_steps_of_dora_differ_where_their_products_do(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        more = {"lora_magnitude_vector": np.ones(WIDTH), "lora_B.weight": np.full((WIDTH, RANK), step / 100)}
        lora(tmp_path / "run" / f"checkpoint-{step}", "fc", (WIDTH, WIDTH), more, use_dora=True)
    assert ts.audit(tmp_path / "run").findings == ()


def test_prompts_change_no_matrix(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"fc.weight": np.eye(WIDTH)}, "model.safetensors")
    config = {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4}
    vectors = {"prompt_embeddings": np.ones((4, WIDTH))}
    adapter = write(tmp_path / "prompt", vectors, "adapter_model.safetensors", **config)
    found = ts.compare(base, adapter)
    assert found.ok
    assert "it changes no matrix" in found.line
