"""Very small GPTs with what a planted fault needs: a scalar, adapters, averages, three formats.

The names of tensors are nanoGPT's; `write` puts a checkpoint on the disk as nanoGPT, transformers' GPT-2, or
Llama's names in shards would.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from toposcope.core.seeding import rng

VOCABULARY, CONTEXT = 64, 24
SIZES = {"6k": (16, 1, 2), "18k": (24, 2, 2), "43k": (32, 3, 4)}
"""Name, about its number of weights -> width, layers, heads."""

FORMATS = ("nanogpt", "gpt2", "llama")
State = dict[str, np.ndarray]


MATRICES = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
_PARTS = dict(zip(MATRICES, ((3, 1), (1, 1), (4, 1), (1, 4)), strict=True))


def first_weights(size: str, seed: int) -> State:
    """Return the weights of a run before its first update; every model has biases and a head of its own."""
    width, layers, _ = SIZES[size]
    source = rng(run=seed, what="planted/weights")

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return (scale * source.standard_normal(shape)).astype(np.float32)

    made = {
        "transformer.wte.weight": normal(VOCABULARY, width),
        "transformer.wpe.weight": normal(CONTEXT, width),
    }
    for i in range(layers):
        at = f"transformer.h.{i}."
        for name, (out, into) in _PARTS.items():
            scale = 0.02 / math.sqrt(2 * layers) if name.endswith("c_proj") else 0.02
            made[f"{at}{name}.weight"] = normal(out * width, into * width, scale=scale)
            made[f"{at}{name}.bias"] = np.zeros(out * width, np.float32)
        for norm in ("ln_1", "ln_2"):
            made |= _norm(at + norm, width)
    made |= _norm("transformer.ln_f", width) | {"logit_scale": np.ones((), np.float32)}
    return made | {"lm_head.weight": normal(VOCABULARY, width)}


def _norm(name: str, width: int) -> State:
    return {f"{name}.weight": np.ones(width, np.float32), f"{name}.bias": np.zeros(width, np.float32)}


def first_adapter(size: str, rank: int, seed: int) -> State:
    """Return a low-rank pair for every matrix of every layer, as PEFT begins them."""
    width, layers, _ = SIZES[size]
    source = rng(run=seed, what="planted/adapter")
    made = {}
    for i in range(layers):
        for name, (out, into) in _PARTS.items():
            at = f"transformer.h.{i}.{name}.lora_"
            a = source.uniform(-1.0, 1.0, (rank, into * width)) / math.sqrt(into * width)
            made |= {
                f"{at}A.weight": a.astype(np.float32),
                f"{at}B.weight": np.zeros((out * width, rank), np.float32),
            }
    return made


@dataclass
class Stack:
    """The losses of many models of one size side by side: every tensor has a first axis of runs."""

    size: str
    tied: torch.Tensor
    rank: int = 0

    def losses(
        self, held: Mapping[str, torch.Tensor], tokens: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Return each run's mean cross-entropy of tokens (runs, batch, context + 1), sequences weighted."""
        width, layers, heads = SIZES[self.size]
        into, target = tokens[:, :, :-1], tokens[:, :, 1:]
        runs, batch, length = into.shape
        flat = into.reshape(runs, -1)
        wte = held["transformer.wte.weight"]
        x = torch.gather(wte, 1, flat[:, :, None].expand(-1, -1, width))
        x = x + held["transformer.wpe.weight"][:, :length].repeat(1, batch, 1)
        causal = torch.full((length, length), -torch.inf).triu(1)
        for i in range(layers):
            at = f"transformer.h.{i}."
            parts = self._linear(held, self._normed(held, x, at + "ln_1"), at + "attn.c_attn").chunk(
                3, dim=-1
            )
            q, k, v = (one.view(runs, batch, length, heads, width // heads).transpose(2, 3) for one in parts)
            scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads) + causal
            mixed = (torch.softmax(scores, -1) @ v).transpose(2, 3).reshape(runs, batch * length, width)
            x = x + self._linear(held, mixed, at + "attn.c_proj")
            inner = functional.gelu(self._linear(held, self._normed(held, x, at + "ln_2"), at + "mlp.c_fc"))
            x = x + self._linear(held, inner, at + "mlp.c_proj")
        tied = self.tied[:, None, None]
        head = tied * wte + (1.0 - tied) * held["lm_head.weight"]
        logits = torch.bmm(self._normed(held, x, "transformer.ln_f"), head.transpose(1, 2))
        logits = logits * held["logit_scale"][:, None, None]
        every = functional.cross_entropy(logits.reshape(-1, VOCABULARY), target.reshape(-1), reduction="none")
        return (every.view(runs, batch, length).mean(-1) * weights).sum(-1) / weights.sum(-1)

    def _linear(self, held: Mapping[str, torch.Tensor], x: torch.Tensor, name: str) -> torch.Tensor:
        weight = held[f"{name}.weight"]
        if self.rank:
            weight = weight + (16.0 / self.rank) * (
                held[f"{name}.lora_B.weight"] @ held[f"{name}.lora_A.weight"]
            )
        return torch.baddbmm(held[f"{name}.bias"][:, None], x, weight.transpose(1, 2))

    def _normed(self, held: Mapping[str, torch.Tensor], x: torch.Tensor, name: str) -> torch.Tensor:
        gain, shift = held[f"{name}.weight"][:, None], held[f"{name}.bias"][:, None]
        return functional.layer_norm(x, x.shape[-1:]) * gain + shift


_LLAMA = {
    "transformer.wte.weight": "model.embed_tokens.weight",
    "transformer.wpe.weight": "model.embed_positions.weight",
    "transformer.ln_f": "model.norm", "ln_1": "input_layernorm", "ln_2": "post_attention_layernorm",
    "attn.c_proj": "self_attn.o_proj", "mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj",
    "transformer.h.": "model.layers.",
}  # fmt: skip


def written_as(name: str, layout: str) -> tuple[str, ...]:
    """Return the names that a tensor of ours has in a format: Llama's queries, keys and values are three."""
    if layout != "llama" or "lora" in name:
        return (name,)
    for ours, theirs in _LLAMA.items():
        name = name.replace(ours, theirs)
    if "attn.c_attn" in name:
        return tuple(name.replace("attn.c_attn", f"self_attn.{part}_proj") for part in "qkv")
    return (name,)


def write(state: Mapping[str, np.ndarray], folder: Path, step: int, settings: Mapping[str, Any]) -> Path:
    """Write one checkpoint; return its file or folder."""
    from safetensors.torch import save_file

    width, layers, heads = SIZES[settings["size"]]
    layout = settings["layout"]
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()}
    if settings.get("bf16"):
        tensors = {name: value.bfloat16() for name, value in tensors.items()}
    if settings["rank"]:
        place = folder / f"checkpoint-{step}"
        place.mkdir(parents=True)
        save_file(
            {f"base_model.model.{name}": value for name, value in tensors.items()},
            place / "adapter_model.safetensors",
        )
        config = {
            "peft_type": "LORA",
            "r": settings["rank"],
            "lora_alpha": 16,
            "base_model_name_or_path": "base",
        }
        (place / "adapter_config.json").write_text(json.dumps(config))
        return place
    if layout == "nanogpt":
        folder.mkdir(parents=True, exist_ok=True)
        args = {
            "n_layer": layers,
            "n_head": heads,
            "n_embd": width,
            "block_size": CONTEXT,
            "vocab_size": VOCABULARY,
        }
        torch.save({"model": tensors, "model_args": args, "iter_num": step}, folder / f"ckpt_{step:06d}.pt")
        return folder / f"ckpt_{step:06d}.pt"
    place = folder / f"checkpoint-{step}"
    place.mkdir(parents=True)
    if layout == "gpt2":
        turned = {
            name: value.T.contiguous() if value.ndim == 2 and ".h." in name else value
            for name, value in tensors.items()
        }
        save_file(turned, place / "model.safetensors")
        config = {"model_type": "gpt2", "n_head": heads, "n_embd": width, "n_layer": layers}
    else:
        named = {}
        for name, value in tensors.items():
            new = written_as(name, layout)
            pieces = value.chunk(3) if len(new) == 3 else (value,)
            named |= {one: piece.clone() for one, piece in zip(new, pieces, strict=True)}
        _shards(named, place)
        config = {
            "model_type": "llama",
            "num_attention_heads": heads,
            "hidden_size": width,
            "num_hidden_layers": layers,
        }
    (place / "config.json").write_text(json.dumps(config))
    return place


def _shards(tensors: Mapping[str, torch.Tensor], place: Path) -> None:
    from safetensors.torch import save_file

    names = sorted(tensors)
    halves = [names[::2], names[1::2]]
    files = [f"model-{i + 1:05d}-of-00002.safetensors" for i in range(2)]
    for file, half in zip(files, halves, strict=True):
        save_file({name: tensors[name] for name in half}, place / file)
    where = {name: file for file, half in zip(files, halves, strict=True) for name in half}
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
