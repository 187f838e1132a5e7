"""What `compare BASE ADAPTER`, `audit` and `check` say of sound adapters of fused and unfused bases.

    python -m benchmarks.adapters --json adapters.jsonl

Trains 60 adapters with PEFT: five methods on tiny models of four families (GPT-2, whose c_attn is a Conv1D;
GPT-NeoX, query_key_value; Phi-3, qkv_proj and gate_up_proj; Llama, all apart), three of each, with ranks 2, 4
and 8. Each is saved at three steps. The change of every matrix is compared with that of PEFT's own merge.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import toposcope as ts
from toposcope.core.seeding import rng
from toposcope.sources.adapter_base import in_base

VOCABULARY, CONTEXT, WIDTH, BATCH = 48, 16, 32, 8
STEPS = (4, 8, 12)
RATE = 5e-3
RANKS = (2, 4, 8)
METHODS = ("LoRA", "rsLoRA", "DoRA", "IA3", "prompt tuning")


@dataclass(frozen=True)
class Family:
    """A family of models: how a tiny one is made, which modules are adapted, and those of the MLP."""

    name: str
    model: Callable[[], Any]
    targets: tuple[str, ...]
    feedforward: tuple[str, ...]
    conv1d: bool = False


def _of(kind: str, **settings: Any) -> Callable[[], Any]:
    def model() -> Any:
        import transformers

        given = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0} | settings
        config = getattr(transformers, f"{kind}Config")(**given)
        return getattr(transformers, f"{kind}ForCausalLM" if kind != "GPT2" else "GPT2LMHeadModel")(config)

    return model


_SIZES = {
    "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 2 * CONTEXT,
}  # fmt: skip
FAMILIES = (
    Family(
        "GPT-2", _of("GPT2", n_positions=2 * CONTEXT, n_embd=WIDTH, n_layer=2, n_head=4),
        ("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"), ("c_fc", "mlp.c_proj"), conv1d=True,
    ),
    Family(
        "GPT-NeoX", _of("GPTNeoX", **_SIZES), ("query_key_value", "dense_h_to_4h"), ("dense_h_to_4h",)
    ),
    Family(
        "Phi-3", _of("Phi3", num_key_value_heads=2, **_SIZES), ("qkv_proj", "gate_up_proj"), ("gate_up_proj",)
    ),
    Family(
        "Llama", _of("Llama", num_key_value_heads=2, **_SIZES), ("q_proj", "v_proj", "up_proj"), ("up_proj",)
    ),
)  # fmt: skip


def configuration(family: Family, method: str, rank: int) -> Any:
    """Return PEFT's configuration of one method."""
    from peft import IA3Config, LoraConfig, PromptTuningConfig

    if method == "prompt tuning":
        return PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=rank)
    if method == "IA3":
        return IA3Config(
            target_modules=list(family.targets), feedforward_modules=list(family.feedforward),
            fan_in_fan_out=family.conv1d,
        )  # fmt: skip
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules=list(family.targets), fan_in_fan_out=family.conv1d,
        use_rslora=method == "rsLoRA", use_dora=method == "DoRA",
    )  # fmt: skip


def train(family: Family, method: str, rank: int, folder: Path) -> dict[str, np.ndarray] | None:
    """Save a base and an adapter of it at three steps; return PEFT's merged weights, None for prompts."""
    from peft import get_peft_model

    torch.manual_seed(rank)
    model = family.model()
    model.save_pretrained(folder / "base")
    model.name_or_path = str(folder / "base")
    tuned = get_peft_model(model, configuration(family, method, rank))
    optimizer = torch.optim.AdamW([one for one in tuned.parameters() if one.requires_grad], lr=RATE)
    for step, rows in enumerate(_batches(rank), start=1):
        loss = tuned(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in STEPS:
            tuned.save_pretrained(folder / "run" / f"checkpoint-{step}")
    if method == "prompt tuning":
        return None
    return {name: one.detach().numpy() for name, one in tuned.merge_and_unload().named_parameters()}


def _batches(seed: int) -> Iterator[torch.Tensor]:
    draw = rng(name=f"adapters/{seed}")
    for _ in range(STEPS[-1]):
        yield torch.from_numpy(draw.integers(1, VOCABULARY, (BATCH, CONTEXT)))


def farthest(found: Any, base: Path, merged: dict[str, np.ndarray]) -> float:
    """Return the largest error of a matrix's change, in parts of it, against PEFT's merged weights."""
    from safetensors.numpy import load_file

    stored = load_file(base / "model.safetensors")
    errors = []
    for name, change in zip(found.relative["name"], found.relative["change"], strict=True):
        weight = stored[in_base(name)]
        true = np.linalg.norm(merged[in_base(name)] - weight) / np.linalg.norm(weight)
        errors.append(abs(change - true) / true)
    return float(max(errors))


def judged(family: Family, method: str, rank: int, folder: Path) -> dict[str, Any]:
    """Train one adapter, and return what the commands say of it."""
    merged = train(family, method, rank, folder)
    last = folder / "run" / f"checkpoint-{STEPS[-1]}"
    beside = ts.compare(folder / "base", last)
    series = ts.audit(folder / "run")
    alone = ts.audit(last)
    lone, whole = ts.check(last), ts.check(folder / "run")
    faults = [*beside.faults, *series.faults, *alone.faults]
    return {
        "family": family.name, "method": method, "rank": rank, "line": beside.line,
        "faults": [str(one) for one in faults], "unread": list(beside.unread),
        "matrices": len(beside.relative), "levels": [lone.level, whole.level],
        "error": None if merged is None else farthest(beside, folder / "base", merged),
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """Return the counts by method and family."""
    out = ["| method | base | adapters | false fault | change read within | not judged: no log |"]
    out.append("| --- | --- | --- | --- | --- | --- |")
    for method in METHODS:
        for family in FAMILIES:
            part = [one for one in lines if (one["family"], one["method"]) == (family.name, method)]
            errors = [one["error"] for one in part if one["error"] is not None]
            within = f"{max(errors):.1g} of PEFT's merge" if errors else "changes no matrix"
            false = sum(bool(one["faults"]) for one in part)
            silent = sum(set(one["levels"]) == {"not judged"} for one in part)
            row = (method, family.name, len(part), false, within, f"{silent} of {len(part)}")
            out.append(f"| {' | '.join(map(str, row))} |")
    false = sum(bool(one["faults"]) for one in lines)
    return "\n".join([*out, f"false faults: {false} of {len(lines)}"])


def main() -> None:
    """Train and judge the 60 adapters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    lines = []
    for family in FAMILIES:
        for method in METHODS:
            for rank in RANKS:
                with tempfile.TemporaryDirectory() as temporary:
                    lines.append(judged(family, method, rank, Path(temporary)))
    if given.json:
        given.json.write_text("\n".join(map(json.dumps, lines)))
    print(table(lines))


if __name__ == "__main__":
    main()
