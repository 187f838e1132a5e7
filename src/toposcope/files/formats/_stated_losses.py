"""The losses that a training checkpoint states beside its weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toposcope.files.labels import step_of_file

Number = Callable[[Any], float | None]
"""Reads a number, or a tensor of one value."""

_HELD_OUT = re.compile(r"(^|[^a-z])(val|valid|validation|eval|dev|test|held_?out)([^a-z]|$)", re.I)
_TRAINING = re.compile(r"(^|[^a-z])(train|training)([^a-z]|$)", re.I)
_AT_THE_STEP = ("val_loss", "valid_loss", "eval_loss", "dev_loss", "test_loss", "train_loss", "loss")
_RATES = (("optimizer",), ("optimizer_states", 0), ("optimizer_state_dict",))
"""Where a checkpoint keeps its first optimizer: nanoGPT, Lightning, PyTorch's tutorials."""


def loss_named(name: str) -> str | None:
    """Return the store's column for a monitored quantity; None if it is no loss.

    >>> loss_named("val_loss"), loss_named("train/loss"), loss_named("loss"), loss_named("val_acc")
    ('heldout_loss', 'loss', 'loss', None)
    """
    if "loss" not in name.lower():
        return None
    if _HELD_OUT.search(name.replace("_", " ")):
        return "heldout_loss"
    return "loss" if _TRAINING.search(name.replace("_", " ")) or name.lower() == "loss" else None


def stated_losses(tree: Mapping[Any, Any], step: int | None, number: Number) -> Iterator[dict[str, Any]]:
    """Yield the rows that a checkpoint states: its own step's, and those of Lightning's best checkpoints."""
    rows: dict[int, dict[str, Any]] = {}
    if step is not None:
        row = rows.setdefault(step, {})
        for name in _AT_THE_STEP:
            if (value := number(tree.get(name))) is not None:
                row.setdefault(str(loss_named(name)), value)
        # nanoGPT sets it to this step's loss whenever it saves, also with always_save_checkpoint.
        if "iter_num" in tree and (value := number(tree.get("best_val_loss"))) is not None:
            row.setdefault("heldout_loss", value)
        if (rate := _rate(tree, number)) is not None:
            row["learning_rate"] = rate
    for at, column, value in _monitored(tree.get("callbacks"), step, number):
        rows.setdefault(at, {}).setdefault(column, value)
    losses = ("loss", "heldout_loss")
    yield from ({"step": at, **row} for at, row in sorted(rows.items()) if any(map(row.__contains__, losses)))


def _monitored(callbacks: Any, step: int | None, number: Number) -> Iterator[tuple[int, str, float]]:
    """Yield step, column and value of what Lightning's ModelCheckpoint monitors, if it is a loss."""
    for state in callbacks.values() if isinstance(callbacks, Mapping) else ():
        monitor = state.get("monitor") if isinstance(state, Mapping) else None
        column = loss_named(monitor) if isinstance(monitor, str) else None
        if column is None:
            continue
        if step is not None and (value := number(state.get("current_score"))) is not None:
            yield step, column, value
        named = [(state.get("best_model_path"), state.get("best_model_score"))]
        best = state.get("best_k_models")
        named += list(best.items()) if isinstance(best, Mapping) else []
        for path, score in named:
            at = step_of_file(str(path).rsplit("/", 1)[-1].removesuffix(".ckpt")) if path else None
            if at is not None and "step" in str(path) and (value := number(score)) is not None:
                yield at, column, value


def _rate(tree: Mapping[Any, Any], number: Number) -> float | None:
    """Return the learning rate of the first group of the first optimizer."""
    for path in _RATES:
        part: Any = tree
        for key in (*path, "param_groups", 0):
            inside = isinstance(part, Mapping) and key in part
            inside = inside or (isinstance(part, list) and isinstance(key, int) and key < len(part))
            part = part[key] if inside else None
        if isinstance(part, Mapping):
            return number(part.get("lr"))
    return None
