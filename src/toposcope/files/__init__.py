"""Files one at a time: bytes, names, configurations, event files, and the formats of checkpoints.

Readers are loaded on first use: whether a trainer's file is there is known by its name alone.
"""

from __future__ import annotations

import lazy_loader

TRAINER_STATE = "trainer_state.json"
"""The file in which transformers keeps the log of a run."""
LIGHTNING_METRICS = "metrics.csv"
"""The file in which Lightning's logger keeps the log of a run."""
NANOGPT_CHECKPOINT = "ckpt.pt"
"""The file in which nanoGPT keeps the weights of a run and its configuration."""
PLANNED_RATE = "planned_rate"
"""The fact that holds a planned learning rate: kind, peak, last, warmup, steps and, if known, decay."""

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
