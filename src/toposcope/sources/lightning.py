"""The files that Lightning's loggers write beside checkpoints: metrics.csv and hparams.yaml in version_N."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.sources.blobs import Folder, read_text
from toposcope.sources.configuration import read_yaml, stated_plan
from toposcope.sources.losses import separated
from toposcope.sources.metrics import tidy

METRICS = "metrics.csv"
HPARAMS = "hparams.yaml"
CHECKPOINTS = "checkpoints"


def is_lightning(folder: Folder) -> bool:
    """Return whether a folder is a version_N that Lightning's CSV logger wrote."""
    return METRICS in folder.files() and CHECKPOINTS in folder.folders()


def lightning_metrics(folder: Folder, run: str) -> pd.DataFrame:
    """Return the losses of metrics.csv; training and validation rows of a step are merged.

    Raises
    ------
    SourceError
        When the file is not a table.
    """
    blob = folder.open(METRICS)
    try:
        table = separated(read_text(blob))
    except ValueError as error:
        raise SourceError(f"{blob.label}: is not a table ({str(error)[:80]}); correct it") from error
    return tidy(table.rename(columns=_plain_names(table)), run)


def _plain_names(table: pd.DataFrame) -> dict[str, str]:
    """Return train_loss_step -> train_loss: Lightning marks values logged by step and by epoch."""
    names = [str(column) for column in table.columns]
    return {n: n.removesuffix("_step") for n in names if n.endswith("_step") and n[:-5] not in names}


def lightning_facts(folder: Folder) -> dict[str, Any]:
    """Return the steps that hparams.yaml plans, as planned_steps; empty if it plans none."""
    if HPARAMS not in folder.files():
        return {}
    try:
        said = read_yaml(read_text(folder.open(HPARAMS)))
    except ValueError:  # optional: the series can be read without it
        return {}
    plan = stated_plan(said) if isinstance(said, Mapping) else {}
    return {"planned_steps": plan["planned_steps"]} if plan else {}
