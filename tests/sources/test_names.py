"""Name tables against the models of transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from toposcope.core.errors import SourceError
from toposcope.core.types import Role
from toposcope.sources import open_series

transformers = pytest.importorskip("transformers")


def save(model: torch.nn.Module, path: Path) -> None:
    model.save_pretrained(path)


def matrices(path: Path, **options) -> dict:
    series = open_series(path, **options)
    return {m.name: m for m in series.matrices(next(iter(series)))}


def roles(found: dict) -> dict[Role, int]:
    return {
        role: sum(m.role == role for m in found.values())
        for role in Role
        if any(m.role == role for m in found.values())
    }


def test_gpt2_is_transposed_and_split(tmp_path: Path):
    config = transformers.GPT2Config(n_embd=12, n_layer=2, n_head=3, vocab_size=40, n_positions=8)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    save(model, tmp_path)
    found = matrices(tmp_path)
    assert roles(found) == {Role.ATTENTION: 8, Role.MLP: 4, Role.EMBEDDING: 2}
    x = torch.randn(5, 12)
    q, k, v = (model.transformer.h[1].attn.c_attn(x) - model.transformer.h[1].attn.c_attn.bias).split(
        12, dim=1
    )
    for part, expected in zip("qkv", (q, k, v), strict=True):
        weight = found[f"transformer.h.1.attn.c_attn.weight[{part}]"]
        assert (weight.layer, weight.values.shape) == (1, (12, 12))
        np.testing.assert_allclose(x.numpy() @ weight.values.T, expected.detach().numpy(), atol=1e-5)
    assert found["transformer.h.0.mlp.c_fc.weight"].values.shape == (48, 12)


def test_gpt_neox_heads_are_taken_out_of_the_interleaved_matrix(tmp_path: Path):
    config = transformers.GPTNeoXConfig(
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=48,
        vocab_size=40,
        use_parallel_residual=True,
    )
    torch.manual_seed(0)
    model = transformers.GPTNeoXForCausalLM(config)
    save(model, tmp_path)
    found = matrices(tmp_path)
    assert roles(found) == {Role.ATTENTION: 8, Role.MLP: 4, Role.EMBEDDING: 1, Role.HEAD: 1}
    layer = model.gpt_neox.layers[1].attention
    x = torch.randn(5, 12)
    heads = (layer.query_key_value(x) - layer.query_key_value.bias).view(5, 3, 3 * 4)
    for part, expected in zip("qkv", heads.chunk(3, dim=-1), strict=True):
        weight = found[f"gpt_neox.layers.1.attention.query_key_value.weight[{part}]"].values
        np.testing.assert_allclose(x.numpy() @ weight.T, expected.reshape(5, 12).detach().numpy(), atol=1e-5)
    assert roles(matrices(tmp_path, split="whole"))[Role.ATTENTION] == 4
    single = matrices(tmp_path, split="heads")
    one = single["gpt_neox.layers.1.attention.query_key_value.weight[k][head 2]"]
    assert one.head == 2
    np.testing.assert_allclose(
        x.numpy() @ one.values.T, heads.chunk(3, dim=-1)[1][:, 2].detach().numpy(), atol=1e-5
    )


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Olmo2"])
def test_llama_like_models(tmp_path: Path, name: str):
    config = getattr(transformers, f"{name}Config")(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=40,
        pad_token_id=0,
    )
    save(getattr(transformers, f"{name}ForCausalLM")(config), tmp_path)
    found = matrices(tmp_path)
    counts = roles(found)
    assert counts[Role.ATTENTION] == 8
    assert counts[Role.MLP] == 6
    assert counts[Role.EMBEDDING] == 1
    assert Role.OTHER not in counts
    heads = matrices(tmp_path, split="heads")
    assert sum("k_proj" in n for n in heads) == 2 * 2
    assert sum("q_proj" in n for n in heads) == 2 * 4


def test_phi3_fused_blocks_with_grouped_keys(tmp_path: Path):
    config = transformers.Phi3Config(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=40,
        pad_token_id=0,
    )
    save(transformers.Phi3ForCausalLM(config), tmp_path)
    found = matrices(tmp_path)
    shapes = {n.rsplit(".", 1)[1]: m.values.shape for n, m in found.items() if "qkv_proj" in n}
    assert shapes == {"weight[q]": (16, 16), "weight[k]": (8, 16), "weight[v]": (8, 16)}
    assert sum("gate_up_proj" in n for n in found) == 2


def test_bert(tmp_path: Path):
    config = transformers.BertConfig(
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=24,
        vocab_size=40,
        max_position_embeddings=8,
    )
    save(transformers.BertModel(config), tmp_path)
    assert roles(matrices(tmp_path)) == {Role.ATTENTION: 8, Role.MLP: 4, Role.EMBEDDING: 3, Role.OTHER: 1}


def test_tied_heads_count_once(tmp_path: Path):
    config = transformers.GPTNeoXConfig(
        hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=48, vocab_size=40
    )
    model = transformers.GPTNeoXForCausalLM(config)
    save(model, tmp_path / "a")
    assert open_series(tmp_path / "a").runs[0].parameters == sum(p.numel() for p in model.parameters())


def test_unknown_names_are_plain_matrices(tmp_path: Path):
    torch.save(
        {"encoder.0.foo": torch.ones(3, 4), "layers.7.bar": torch.ones(2, 2), "bias": torch.ones(3)},
        tmp_path / "step_1.pt",
    )
    found = matrices(tmp_path)
    assert {n: (m.role, m.layer) for n, m in found.items()} == {
        "encoder.0.foo": (Role.OTHER, None),
        "layers.7.bar": (Role.OTHER, 7),
    }


def test_an_unknown_split_is_refused(tmp_path: Path):
    with pytest.raises(SourceError, match="split 'half': unknown"):
        open_series(tmp_path, split="half")
