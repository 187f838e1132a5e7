"""The files that Lightning's loggers write beside checkpoints: metrics.csv and hparams.yaml in version_N."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toposcope.files import LIGHTNING_METRICS
from toposcope.files.blobs import Folder, read_text
from toposcope.files.configuration import read_yaml, stated_plan

HPARAMS = "hparams.yaml"
CHECKPOINTS = "checkpoints"


def is_lightning(folder: Folder) -> bool:
    """Return whether a folder is a version_N that Lightning's CSV logger wrote."""
    return LIGHTNING_METRICS in folder.files() and CHECKPOINTS in folder.folders()


def lightning_facts(folder: Folder) -> dict[str, Any]:
    """Return the steps that hparams.yaml plans, as planned_steps; empty if it plans none."""
    if HPARAMS not in folder.files():
        return {}
    try:
        hyperparameters = read_yaml(read_text(folder.open(HPARAMS)))
    except ValueError:  # optional: the series can be read without it
        return {}
    plan = stated_plan(hyperparameters) if isinstance(hyperparameters, Mapping) else {}
    return {"planned_steps": plan["planned_steps"]} if plan else {}
