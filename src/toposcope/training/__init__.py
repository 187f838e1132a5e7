"""Train small language models into run folders: recipes, corpora, the GPT family, the loop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from toposcope.core.callables import make_callable

if TYPE_CHECKING:
    from toposcope.training.api import default_jobs, train
    from toposcope.training.loop import TrainingStep
    from toposcope.training.outcome import Trained, TrainedRun

_HOME = {
    "Trained": "toposcope.training.outcome",
    "TrainedRun": "toposcope.training.outcome",
    "TrainingStep": "toposcope.training.loop",
    "default_jobs": "toposcope.training.api",
    "train": "toposcope.training.api",
}

__all__ = ["Trained", "TrainedRun", "TrainingStep", "default_jobs", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toposcope.train' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


make_callable(__name__, "toposcope.training.api.train")
