"""How often the audit accuses a healthy series: tiny trainings by three trainers.

    python -m benchmarks.audit_rates --first 0 --seconds 110 --json rates.json

Each series has a model (GPT-2's, Llama's or nanoGPT's names), a width, a number of layers, a learning rate, a
warm-up, a decay, a number of checkpoints (2 to 30) and, in a third of them, a spike that recovers, all drawn
at random from its number. It is trained for seconds, written as its trainer writes it, and audited with every
value. The limits of the audit were set on series 0 to 19,999; the published figures are of later ones.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from toposcope.core.seeding import rng
from toposcope.sources import open_series
from toposcope.sources.audit import audit

TRAINERS = ("loop", "loop", "transformers", "lightning")
VOCABULARY, CONTEXT, BATCH = 48, 24, 8
LONGEST = 90
"""The most updates of a series."""


@dataclass(frozen=True)
class Setting:
    """One series, drawn from its number."""

    number: int
    trainer: str
    width: int
    layers: int
    rate: float
    warmup: float
    decay: float
    optimizer: str
    checkpoints: int
    every: int
    spike: int | None

    @classmethod
    def of(cls, number: int) -> Setting:
        """Return the setting of a series."""
        draw = rng(name=f"audit rates/{number}")
        count, every = int(draw.choice([2, 3, 5, 10, 20, 30])), int(draw.choice([1, 2, 5]))
        every = min(every, max(1, LONGEST // count))
        total = count * every
        return cls(
            number,
            TRAINERS[number % len(TRAINERS)],
            int(draw.choice([16, 32, 64])),
            int(draw.choice([1, 2, 4])),
            float(10 ** draw.uniform(-3.5, -1.7)),
            float(draw.choice([0, 0.05, 0.3])),
            float(draw.choice([0, 0.1])),
            str(draw.choice(["adamw", "adamw", "adamw", "sgd"])),
            count,
            every,
            int(draw.integers(total // 3, max(total // 3 + 1, total - 1))) if draw.random() < 1 / 3 else None,
        )

    @property
    def total(self) -> int:
        """The number of updates."""
        return self.checkpoints * self.every

    def factor(self, step: int) -> float:
        """Return the learning rate of an update as a share of the peak: warm-up, cosine, and the spike."""
        warm = max(1.0, self.warmup * self.total)
        shape = min(1.0, (step + 1) / warm) * (0.55 + 0.45 * np.cos(np.pi * step / self.total))
        spiked = self.spike is not None and self.spike <= step < self.spike + 2
        return float(shape * (8.0 if spiked else 1.0))


def tokens(setting: Setting, count: int) -> torch.Tensor:
    """Return sequences of a random language in which each token has four likely successors."""
    draw = rng(name=f"audit rates tokens/{setting.number}")
    after = draw.integers(0, VOCABULARY, size=(VOCABULARY, 4))
    rows = np.empty((count, CONTEXT), np.int64)
    rows[:, 0] = draw.integers(0, VOCABULARY, count)
    for at in range(1, CONTEXT):
        odd = draw.random(count) < 0.1
        likely = after[rows[:, at - 1], draw.integers(0, 4, count)]
        rows[:, at] = np.where(odd, draw.integers(0, VOCABULARY, count), likely)
    return torch.from_numpy(rows)


def model_of(setting: Setting) -> Any:
    """Return a small model with transformers' names: GPT-2's or Llama's."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    width, heads = setting.width, 2
    if setting.number % 3:
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=CONTEXT,
            n_embd=width,
            n_layer=setting.layers,
            n_head=heads,
            bos_token_id=0,
            eos_token_id=0,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        return GPT2LMHeadModel(config)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=2 * width,
            bos_token_id=0,
            num_hidden_layers=setting.layers,
            num_attention_heads=heads,
            num_key_value_heads=1,
            eos_token_id=0,
            max_position_embeddings=CONTEXT,
        )
    )


class NanoBlock(torch.nn.Module):
    """A block with nanoGPT's names."""

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        linear = torch.nn.Linear
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(width, bias=bias), torch.nn.LayerNorm(width, bias=bias)
        self.attn = torch.nn.ModuleDict(
            {"c_attn": linear(width, 3 * width, bias=bias), "c_proj": linear(width, width, bias=bias)}
        )
        self.mlp = torch.nn.ModuleDict(
            {"c_fc": linear(width, 4 * width, bias=bias), "c_proj": linear(4 * width, width, bias=bias)}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        parts = self.attn["c_attn"](self.ln_1(x)).split(x.shape[-1], dim=-1)
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in parts)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).flatten(2))
        return x + self.mlp["c_proj"](torch.nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class Nano(torch.nn.Module):
    """A GPT with nanoGPT's names and initial weights; its head is tied to its embedding."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        width, bias = setting.width, bool(setting.number // 4 % 2)
        self.transformer = torch.nn.ModuleDict(
            {
                "wte": torch.nn.Embedding(VOCABULARY, width),
                "wpe": torch.nn.Embedding(CONTEXT, width),
                "h": torch.nn.ModuleList(NanoBlock(width, bias=bias) for _ in range(setting.layers)),
                "ln_f": torch.nn.LayerNorm(width, bias=bias),
            }
        )
        self.lm_head = torch.nn.Linear(width, VOCABULARY, bias=False)
        for name, one in self.named_parameters():
            if one.ndim > 1:
                scale = 0.02 / (2 * setting.layers) ** 0.5 if name.endswith("c_proj.weight") else 0.02
                torch.nn.init.normal_(one, std=scale)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(one)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        x = self.transformer["wte"](batch) + self.transformer["wpe"].weight[: batch.shape[1]]
        for block in self.transformer["h"]:
            x = block(x)
        logits = self.lm_head(self.transformer["ln_f"](x))[:, :-1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def optimizer_of(setting: Setting, model: Any) -> torch.optim.Optimizer:
    """Return AdamW or SGD with momentum."""
    if setting.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=10 * setting.rate, momentum=0.9)
    return torch.optim.AdamW(
        model.parameters(), lr=setting.rate, betas=(0.9, 0.95), weight_decay=setting.decay
    )


def by_loop(setting: Setting, folder: Path) -> None:
    """Train and save as nanoGPT's train.py does; the first weights are saved in half of the series."""
    model = Nano(setting)
    optimizer, data = optimizer_of(setting, model), tokens(setting, 256)

    def save(step: int) -> None:
        args = {"n_layer": setting.layers, "n_head": 2, "n_embd": setting.width}
        kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}
        torch.save(kept | {"model_args": args}, folder / f"ckpt_{step}.pt")

    peak = optimizer.param_groups[0]["lr"]
    if setting.number // 8 % 2:
        save(0)
    for step in range(setting.total):
        optimizer.param_groups[0]["lr"] = peak * setting.factor(step)
        at = torch.randint(0, len(data), (BATCH,))
        loss = model(data[at])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % setting.every == 0:
            save(step + 1)


def by_transformers(setting: Setting, folder: Path) -> None:
    """Train with transformers' Trainer, which saves checkpoint-N folders."""
    from transformers import Trainer, TrainingArguments

    model, data = model_of(setting), tokens(setting, 128)
    optimizer = optimizer_of(setting, model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, setting.factor)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=setting.total,
        save_steps=setting.every,
        logging_steps=setting.every,
        per_device_train_batch_size=BATCH,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    rows = [{"input_ids": row, "labels": row} for row in data]
    Trainer(model=model, args=arguments, train_dataset=rows, optimizers=(optimizer, schedule)).train()


def by_lightning(setting: Setting, folder: Path) -> None:
    """Train with Lightning, whose callback saves .ckpt files."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model_of(setting)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            return self.model(input_ids=batch[0], labels=batch[0]).loss

        def configure_optimizers(self) -> dict[str, Any]:
            optimizer = optimizer_of(setting, self)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, setting.factor)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    saver = ModelCheckpoint(
        dirpath=folder, filename="{step}", every_n_train_steps=setting.every, save_top_k=-1
    )
    rows = torch.utils.data.TensorDataset(tokens(setting, 128))
    trainer = lightning.Trainer(
        max_steps=setting.total,
        callbacks=[saver],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=BATCH, shuffle=True))


TRAIN = {"loop": by_loop, "transformers": by_transformers, "lightning": by_lightning}


def judged(number: int, kept: Path | None = None) -> dict[str, Any]:
    """Train one series, audit it, and return its setting and the findings; a kept one is only audited."""
    setting = Setting.of(number)
    torch.manual_seed(number)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if kept is None else kept / str(number)
        if kept is None or not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            TRAIN[setting.trainer](setting, folder)
        series = open_series(folder)
        found = audit(series)
        newest = audit(series, newest=True)

    def rows(findings: list[Any]) -> list[list[Any]]:
        return [[one.fault, one.is_remark, one.step, one.tensor, one.message] for one in findings]

    return {
        "number": number,
        "trainer": setting.trainer,
        "setting": vars_of(setting),
        "saved": len(series),
        "findings": rows(found),
        "newest": rows(newest),
    }


def vars_of(setting: Setting) -> dict[str, Any]:
    """Return a setting as plain data."""
    return {name: getattr(setting, name) for name in setting.__dataclass_fields__}


def upper(count: int, series: int) -> float:
    """Return the upper end of the exact 95% interval of a rate."""
    from scipy.stats import beta

    return float(beta.ppf(0.975, count + 1, series - count)) if count < series else 1.0


def table(lines: list[dict[str, Any]]) -> str:
    """Return the counts: series with a fault, and with a remark, by trainer and by kind."""
    out = ["| trainer | series | with a fault | with a remark |", "| --- | --- | --- | --- |"]
    for trainer in (*TRAIN, "all"):
        part = [one for one in lines if trainer in (one["trainer"], "all")]
        faults = sum(any(not found[1] for found in one["findings"]) for one in part)
        remarks = sum(any(found[1] for found in one["findings"]) for one in part)
        limit = f" (95%: at most {upper(faults, len(part)):.1%})" if part else ""
        out.append(f"| {trainer} | {len(part)} | {faults}{limit} | {remarks} |")
    kinds = Counter(kind for one in lines for kind in {found[0] for found in one["findings"]})
    out += ["", "series with each kind: " + (", ".join(f"{k} {n}" for k, n in kinds.items()) or "none")]
    newest = sum(any(not found[1] for found in one["newest"]) for one in lines)
    return "\n".join([*out, f"newest checkpoint alone: {newest} of {len(lines)} series with a fault"])


def main() -> None:
    """Train and audit as many series as the time allows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=110, help="of processor time")
    parser.add_argument("--count", type=int, default=10_000, help="the most series")
    parser.add_argument("--keep", type=Path, help="keep the checkpoints here, to be audited again")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    began, lines = time.process_time(), []
    while time.process_time() - began < given.seconds and len(lines) < given.count:
        lines.append(judged(given.first + len(lines), given.keep))
        if given.json:
            given.json.write_text("\n".join(map(json.dumps, lines)))
    print(table(lines))


if __name__ == "__main__":
    main()
