"""Train small language models into run folders: recipes, corpora, the GPT family, the loop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from toposcope.callables import make_callable

if TYPE_CHECKING:
    from toposcope.train.api import default_jobs, train
    from toposcope.train.loop import TrainingStep
    from toposcope.train.outcome import Trained, TrainedRun

_HOME = {
    "Trained": "toposcope.train.outcome",
    "TrainedRun": "toposcope.train.outcome",
    "TrainingStep": "toposcope.train.loop",
    "default_jobs": "toposcope.train.api",
    "train": "toposcope.train.api",
}

__all__ = ["Trained", "TrainedRun", "TrainingStep", "default_jobs", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toposcope.train' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


make_callable(__name__, "toposcope.train.api.train")
