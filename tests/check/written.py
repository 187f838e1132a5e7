"""Logs as trainers print them, of runs whose state is known, and checkpoints to lie beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def falling(n: int = 400, *, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    """Return n losses of a sound run, from step 1 on: 2 + 5 / sqrt(step), with noise."""
    return 2 + 5 * np.arange(1, n + 1) ** -0.5 + noise * np.random.default_rng(seed).standard_normal(n)


def diverging(n: int = 400) -> np.ndarray:
    """Return the losses of a run that rises to twice its loss over the last quarter."""
    loss = falling(n)
    loss[3 * n // 4 :] *= np.linspace(1, 2, n - 3 * n // 4)
    return loss


def spiked(n: int = 400, *, at: int = 201, times: float = 2.5) -> np.ndarray:
    """Return the losses of a sound run with one spike at step `at`."""
    loss = falling(n)
    loss[at - 1] *= times
    return loss


def lost(n: int = 400, *, since: int = 321) -> np.ndarray:
    """Return the losses of a run that are NaN from step `since` on."""
    return np.where(np.arange(1, n + 1) >= since, np.nan, falling(n))


def modded(loss: Sequence[float] | np.ndarray, plan: int = 1000) -> str:
    """Return a log as modded-nanogpt prints it."""
    return "".join(f"step:{s}/{plan} train_loss:{x:.5f} train_time:{s}ms\n" for s, x in enumerate(loss, 1))


def megatron(loss: Sequence[float] | np.ndarray, plan: int = 1000) -> str:
    """Return a log as Megatron-LM prints it, with the rate and the gradient norm."""
    noise = np.random.default_rng(5).standard_normal(len(loss))
    return "".join(
        f" iteration {s:8d}/{plan:8d} | consumed samples: {8 * s:12d} | learning rate: 1.500000E-04 | "
        f"lm loss: {x:.6E} | grad norm: {1 + 0.1 * e:.3f} |\n"
        for s, (x, e) in enumerate(zip(loss, noise, strict=True), 1)
    )


def transformers(loss: Sequence[float] | np.ndarray, plan: int = 1000) -> str:
    """Return a log as transformers prints it."""
    return f"  Total optimization steps = {plan}\n" + "".join(
        f"  1%|#  | {s}/{plan} [00:01<00:03,  9.0it/s]\r"
        f"{{'loss': {x:.5f}, 'grad_norm': 1.25, 'learning_rate': 3e-05, 'epoch': {s / 100}}}\n"
        for s, x in enumerate(loss, 1)
    )


def nanogpt(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return a log as nanoGPT prints it, which states no plan."""
    return "".join(f"iter {s}: loss {x:.5f}, time 9.00ms, mfu 1.00%\n" for s, x in enumerate(loss, 1))


def jsonl(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return records as JSON lines."""
    return "".join(json.dumps({"step": s, "train": {"loss": float(x)}}) + "\n" for s, x in enumerate(loss, 1))


def table(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return a CSV file."""
    return "step,loss\n" + "".join(f"{s},{x:.5f}\n" for s, x in enumerate(loss, 1))


DIALECTS = {
    "modded.log": modded, "megatron.log": megatron, "transformers.log": transformers,
    "nanogpt.log": nanogpt, "records.jsonl": jsonl, "table.csv": table,
}  # fmt: skip


def write(path: Path, text: str) -> Path:
    """Write a file, its folder made first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def checkpoints(folder: Path, steps: Sequence[int] = (0, 100, 200, 300, 400)) -> Path:
    """Write checkpoints of one matrix that moves a little from step to step."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(3)
    weights = random.standard_normal((16, 16)).astype(np.float32)
    for step in steps:
        weights = weights + 0.05 * random.standard_normal((16, 16)).astype(np.float32)
        save_file({"fc.weight": weights}, folder / f"step_{step}.safetensors")
    return folder


def trainer_state(folder: Path, loss: np.ndarray, plan: int = 1000) -> Path:
    """Write a checkpoint of transformers, its trainer_state.json beside the weights."""
    rows = [{"step": s, "loss": float(x), "learning_rate": 1e-4} for s, x in enumerate(loss, 1)]
    state = {"global_step": len(loss), "max_steps": plan, "log_history": rows}
    place = folder / f"checkpoint-{len(loss)}"
    write(place / "trainer_state.json", json.dumps(state))
    save_file({"fc.weight": np.eye(8, dtype=np.float32) * len(loss)}, place / "model.safetensors")
    return folder
