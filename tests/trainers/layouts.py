"""What each trainer's folder is, and what the commands must read in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.trainers import folders

GPT2, LLAMA = 28, 21
"""Tensors of the two models without the output head, which GPT-2 ties to its embedding."""
FACTORS = ("q", "k", "v")


@dataclass(frozen=True)
class Layout:
    """One trainer's folder: how it is made, where its checkpoints are, and what is in them."""

    name: str
    make: Callable[[Path], Path]
    places: tuple[str, ...]
    """The checkpoints within the folder, the oldest first."""
    tensors: int
    """How many tensors the audit reads of each."""
    losses: int
    """How many losses are in the folder."""
    ends: str
    """What `check` says of its last step; "" if it has no loss."""
    packages: tuple[str, ...] = ()
    wrapped_after: str = ""
    """The part of every name that stands before that of a wrapper."""
    sampled: bool = False

    @property
    def adapter(self) -> bool:
        """Whether it holds adapters, whose effect is measured instead of whole models."""
        return "peft" in self.packages

    @property
    def hit(self) -> str:
        """The end of the name of the tensor in which a fault is planted."""
        if not self.adapter:
            return "h.1.mlp.c_fc.weight"
        return "1.attn.c_attn.lora_B.weight" if "gpt2" in self.name else "1.self_attn.q_proj.lora_B.weight"

    @property
    def matrices(self) -> dict[str, str]:
        """The matrices that are measured: the end of each name, and its role."""
        if self.adapter and "gpt2" in self.name:
            return {f"h.{i}.attn.c_attn.weight[{part}]": "attention" for i in (0, 1) for part in FACTORS}
        if self.adapter:
            return {f"layers.{i}.self_attn.q_proj.weight": "attention" for i in (0, 1)}
        found = {"wte.weight": "embedding", "wpe.weight": "embedding"}
        for i in (0, 1):
            found |= {f"h.{i}.attn.c_attn.weight[{part}]": "attention" for part in FACTORS}
            found |= {f"h.{i}.attn.c_proj.weight": "attention"}
            found |= {f"h.{i}.mlp.{name}.weight": "mlp" for name in ("c_fc", "c_proj")}
        return found | ({"lm_head.weight": "head"} if self.tensors > GPT2 else {})


def lora_gpt2(folder: Path) -> Path:
    from peft import LoraConfig

    config = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    return folders.adapted(folder, folders.gpt2(), config)[1]


def lora_llama(folder: Path) -> Path:
    from peft import LoraConfig

    return folders.adapted(folder, folders.llama(), LoraConfig(r=4, target_modules=["q_proj"]))[1]


def _numbered(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.format(step) for step in folders.STEPS)


_ENDED = "at step 30 of 30"
_LOGGED = folders.STEPS[-1] // folders.EVERY
_CHECKPOINTS = "lightning_logs/version_0/checkpoints/"

LAYOUTS = (
    Layout(
        "transformers", folders.by_trainer, _numbered("checkpoint-{}"), GPT2, _LOGGED, _ENDED,
        ("accelerate",), sampled=True,
    ),
    Layout(
        "trl", folders.by_trl, _numbered("checkpoint-{}"), GPT2, _LOGGED, _ENDED,
        ("trl", "datasets"),
    ),
    Layout(
        "lora-gpt2", lora_gpt2, _numbered("checkpoint-{}"), 2, _LOGGED, _ENDED,
        ("accelerate", "peft"), "base_model.model.", sampled=True,
    ),
    Layout(
        "lora-llama", lora_llama, _numbered("checkpoint-{}"), 2, _LOGGED, _ENDED,
        ("accelerate", "peft"), "base_model.model.",
    ),
    Layout(
        "lightning", folders.by_lightning,
        tuple(f"{_CHECKPOINTS}epoch={epoch}-step={step}.ckpt" for epoch, step in ((1, 10), (2, 20), (3, 30))),
        GPT2 + 1, _LOGGED, "at step 29", ("lightning",), "model.",
    ),
    Layout(
        "accelerate", folders.by_accelerate, _numbered("step_{}"), GPT2, 0, "",
        ("accelerate",),
    ),
    Layout("distributed", folders.by_distributed, _numbered("step-{}"), GPT2 + 1, 0, ""),
    Layout(
        "loop", folders.by_loop, _numbered("ckpt_{}.pt"), GPT2 + 1, 3, _ENDED, sampled=True
    ),
)  # fmt: skip
