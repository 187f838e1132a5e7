"""What the number of a planted run decides: its training, and which tensors of it a fault hits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.planted_model import FORMATS, SIZES
from toposcope.core.seeding import rng
from toposcope.training.corpus import load_corpus

STEPS, EVERY = 400, 10
"""Updates of a healthy run, and of one checkpoint to the next."""


@dataclass(frozen=True)
class Plan:
    """One run: its number decides everything."""

    number: int

    @property
    def recipe(self) -> dict[str, Any]:
        """The settings of the training."""
        draw = rng(run=self.number, what="planted/recipe2")
        return {
            "size": list(SIZES)[self.number % 3], "layout": FORMATS[self.number // 3 % 3],
            "tied": bool(draw.random() < 0.5), "rate": float(draw.choice([1e-3, 3e-3, 6e-3])),
            "decay": float(draw.choice([0.01, 0.1])), "batch": int(draw.choice([4, 6, 8])),
            "schedule": str(draw.choice(["cosine", "constant", "wsd"])), "warmup": int(draw.choice([10, 40])),
            "rank": 0, "optimiser": "adamw",
        }  # fmt: skip

    @property
    def checkpoint(self) -> int:
        """The last checkpoint before the fault: between 30% and 55% of the run."""
        share = rng(run=self.number, what="planted/when2").uniform(0.3, 0.55)
        return int(share * STEPS) // EVERY * EVERY

    @property
    def doubling(self) -> int:
        """Checkpoints in which what grows slowly doubles."""
        return int(rng(run=self.number, what="planted/doubling").choice([2, 4, 8]))

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return SIZES[self.recipe["size"]][2]

    @property
    def layer(self) -> int:
        """The layer that is hit."""
        return int(rng(run=self.number, what="planted/layer").integers(SIZES[self.recipe["size"]][1]))

    @property
    def head(self) -> int:
        """The head that is hit."""
        return int(rng(run=self.number, what="planted/head").integers(self.heads))

    @property
    def row(self) -> int:
        """The row of the embedding that is hit: one of a frequent letter."""
        return int(rng(run=self.number, what="planted/row").choice(_frequent()))


@cache
def texts() -> tuple[np.ndarray, np.ndarray]:
    """Return two texts as tokens: letters, and the same text with its letters turned by 13."""
    raw = np.frombuffer(load_corpus("python-docs").train.encode("ascii", "replace"), np.uint8)
    tokens = np.where(raw == 10, 0, np.clip(np.where(raw >= 96, raw - 32, raw), 32, 95) - 31) % 64
    letters = (tokens >= 34) & (tokens < 60)
    return tokens.astype(np.int64), np.where(letters, (tokens - 34 + 13) % 26 + 34, tokens).astype(np.int64)


@cache
def _frequent() -> np.ndarray:
    return np.argsort(-np.bincount(texts()[0], minlength=64))[:20]
