"""What Lightning's loggers leave beside checkpoints: metrics.csv and hparams.yaml in a version_N folder."""

from __future__ import annotations

from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.sources import history
from toposcope.sources.blobs import Folder, read_text
from toposcope.sources.losses import separated

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
        When the file is no table.
    """
    blob = folder.open(METRICS)
    try:
        table = separated(read_text(blob))
    except ValueError as error:
        raise SourceError(f"{blob.label}: is not a table ({str(error)[:80]}); correct it") from error
    return history.tidy(table.rename(columns=_plain_names(table)), run)


def _plain_names(table: pd.DataFrame) -> dict[str, str]:
    """Return train_loss_step -> train_loss: Lightning's names of values logged by step and by epoch."""
    names = [str(column) for column in table.columns]
    return {n: n.removesuffix("_step") for n in names if n.endswith("_step") and n[:-5] not in names}


def lightning_facts(folder: Folder) -> dict[str, Any]:
    """Return the positive max_steps of hparams.yaml as planned_steps; empty where it says none."""
    if HPARAMS not in folder.files():
        return {}
    for line in read_text(folder.open(HPARAMS)).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "max_steps" and value.strip().isdigit() and int(value) > 0:
            return {"planned_steps": int(value)}
    return {}
