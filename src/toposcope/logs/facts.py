"""What the files of a run state of its family, task, corpus, tokenizer, recipe and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

FACTS: Mapping[str, tuple[str, ...]] = {
    "family": ("family", "architecture"),
    "task": ("task",),
    "corpus": ("corpus", "dataset", "dataset_name"),
    "tokenizer": ("tokenizer", "tokeniser", "tokenizer_name", "tokenizer_name_or_path"),
    "vocabulary": ("vocabulary", "vocab_size", "n_vocab"),
    "recipe": ("recipe",),
}
"""Facts that separate runs if they differ -> the columns and configuration keys that state them."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "learning rate": ("learning_rate", "peak_learning_rate", "max_lr", "lr"),
    "final learning rate": ("final_learning_rate", "min_lr"),
    "warmup": ("warmup_steps", "warmup_iters"),
    "batch size": ("batch_size", "batch"),
    "context": ("context", "block_size", "sequence_length"),
    "weight decay": ("weight_decay",),
    "gradient clip": ("gradient_clip", "grad_clip"),
    "initial deviation": ("init_std",),
    "optimizer": ("optimizer",),
}
"""Settings that separate runs of the same size; across the sizes of a family they may vary."""
DESCRIBES = tuple(dict.fromkeys(name for names in FACTS.values() for name in names))
"""Columns of a plain table that state one of the `FACTS`: constant along a run, never features."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A run, what its files state of `FACTS` and `SETTINGS`, and its number of parameters (0: unknown)."""

    run: str
    facts: Mapping[str, str]
    parameters: float = 0.0


def stated(row: Mapping[object, object]) -> dict[str, str]:
    """Return the `FACTS` and `SETTINGS` of a run's row, from its columns, then its configuration."""
    config = configuration(row.get("config"))
    stated_facts = {}
    for name, keys in (*FACTS.items(), *SETTINGS.items()):
        columns = (row.get(key) for key in keys) if name in FACTS else ()
        values = (_text(value) for value in (*columns, *(config.get(key) for key in keys)))
        if value := next(filter(None, values), ""):
            stated_facts[name] = value
    return stated_facts


def configuration(config: object) -> Mapping[str, object]:
    """Return a run's configuration as a mapping; empty if there is none, or none that can be read."""
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return {}
    return config if isinstance(config, Mapping) else {}


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return ""
    return f"{value:.6g}" if np.isfinite(value) and value != 0 else ""


def size_of(value: object) -> float:
    """Return a stated number of parameters; 0 if unknown.

    >>> size_of(7408), size_of(float("nan")), size_of(None)
    (7408.0, 0.0, 0.0)
    """
    is_size = isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0
    return float(value) if is_size else 0.0  # type: ignore[arg-type]
