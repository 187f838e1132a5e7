"""One loss curve as eleven kinds of trainers print it, in four states; each log states its plan if it can."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tests.check.written import diverging, falling, megatron, modded, transformers

PLAN = 1000


def spike_on_its_way_back(n: int = 400, last: int = 6) -> np.ndarray:
    """Return the losses of a sound run that ends in a spike which falls again."""
    loss = falling(n)
    loss[-last:] *= np.linspace(2.6, 1.35, last)
    return loss


def nanogpt(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return a log as nanoGPT prints it, which states no plan."""
    return "".join(f"iter {s}: loss {x:.5f}, time 9.00ms, mfu 1.00%\n" for s, x in enumerate(loss, 1))


def litgpt(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return a log as LitGPT prints it, which states no plan."""
    return "".join(
        f"Epoch 1 | iter {s} step {s} | loss train: {x:.5f}, val: n/a | iter time: 120.00 ms (step)\n"
        for s, x in enumerate(loss, 1)
    )


def llmc(loss: Sequence[float] | np.ndarray, plan: int = PLAN) -> str:
    """Return a log as llm.c prints it."""
    return "".join(
        f"step {s:4d}/{plan} | loss {x:.5f} (+nanz)| norm 1.25 (+nanz)| lr 1.00e-04 | 9.0 ms\n"
        for s, x in enumerate(loss, 1)
    )


def torchtitan(loss: Sequence[float] | np.ndarray, plan: int = PLAN) -> str:
    """Return a log as torchtitan prints it."""
    return f"[titan] - root - INFO - Training starts at step 1, total steps {plan} (warmup 10)\n" + "".join(
        f"[titan] - root - INFO - step: {s}  loss: {x:.5f}  grad_norm:  1.2500  memory:  9.6GiB(10%)  "
        "tps: 5,000  mfu: 9.0%\n"
        for s, x in enumerate(loss, 1)
    )


def verl(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return a log as verl prints it, which states no plan."""
    return "".join(f"step:{s} - train/loss:{x:.5f} - train/lr:1e-05\n" for s, x in enumerate(loss, 1))


def olmo(loss: Sequence[float] | np.ndarray, plan: int = PLAN) -> str:
    """Return a log as OLMo prints it."""
    return "".join(
        f"2026-11-24 INFO [step={s}/{plan},epoch=1]\n"
        f"    train/CE loss={x:.5f}\n    optim/total grad norm=1.25\n"
        for s, x in enumerate(loss, 1)
    )


def lightning(loss: Sequence[float] | np.ndarray, plan: int = 0) -> str:
    """Return a metrics.csv as Lightning writes it; its plan stands in hparams.yaml."""
    return "epoch,step,train_loss\n" + "".join(f"0,{s},{x:.5f}\n" for s, x in enumerate(loss, 1))


def trainer_state(loss: Sequence[float] | np.ndarray, plan: int = PLAN) -> str:
    """Return a trainer_state.json."""
    rows = [{"step": s, "loss": round(float(x), 5), "learning_rate": 1e-4} for s, x in enumerate(loss, 1)]
    return json.dumps({"global_step": len(loss), "max_steps": plan, "log_history": rows})


def plain(loss: Sequence[float] | np.ndarray, plan: int = PLAN) -> str:
    """Return lines of a loop of one's own."""
    return "".join(f"step {s}/{plan} | loss {x:.5f}\n" for s, x in enumerate(loss, 1))


TRAINERS: dict[str, tuple[str, Callable[..., str]]] = {
    "modded-nanogpt": ("train.log", modded), "Megatron-LM": ("train.log", megatron),
    "transformers": ("train.log", transformers), "LitGPT": ("train.log", litgpt),
    "nanoGPT": ("train.log", nanogpt), "llm.c": ("train.log", llmc), "torchtitan": ("train.log", torchtitan),
    "verl": ("train.log", verl), "OLMo": ("train.log", olmo), "Lightning": ("metrics.csv", lightning),
    "trainer state": ("trainer_state.json", trainer_state), "own loop": ("train.log", plain),
}  # fmt: skip
"""A file's name and what writes its text, by trainer."""


class State(NamedTuple):
    """Losses, the plan of the run, and what is to be said of it."""

    loss: np.ndarray
    plan: int
    verdict: str


STATES = {
    "healthy and unfinished": State(falling(), PLAN, "all right"),
    "healthy and finished": State(falling(), 400, "all right"),
    "diverging": State(diverging(), PLAN, "stop"),
    "a spike on its way back": State(spike_on_its_way_back(), PLAN, "look"),
}
