"""Loss histories beside checkpoints, as the store's metrics table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.files import LIGHTNING_METRICS
from toposcope.files.blobs import Blob, Folder, read_text
from toposcope.files.formats.reader import read_json
from toposcope.logs import log_of_table, read_log
from toposcope.logs.dialects.json_files import SUMMARY
from toposcope.logs.dialects.table_text import table_of_text
from toposcope.logs.log import Log
from toposcope.logs.metrics import tidy


def training_log(blob: Blob, run: str) -> pd.DataFrame:
    """Read a JSON list of records with a step each."""
    content = read_json(blob)
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if lists else []
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise SourceError(
            f"{blob.label}: is not a list of records that each have a step; correct or remove it"
        )
    return tidy(content, run)


def join(own: pd.DataFrame, losses: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return `own` with missing values filled in from `losses`.

    A `run` column in `losses` selects the rows of this run; without it, they apply to every run.
    """
    if "run" in losses.columns:
        losses = losses[losses["run"].astype(str) == run]
    other = tidy(losses, run).set_index("step")
    joined = own.set_index("step").combine_first(other).reset_index()
    joined["run"] = run
    return tidy(joined, run)


def read_losses(
    losses: str | Path | pd.DataFrame, rename: Mapping[str, str] | None = None, pattern: str | None = None
) -> pd.DataFrame:
    """Read a loss history in any known format, or a table: see `toposcope.logs.read_log`.

    `rename` maps columns to known names ("step", "loss", "heldout_loss", ...), and `pattern` reads the lines
    of a text that is not recognised.

    Raises
    ------
    SourceError
        When it is not a log, or has no column known as the step or as a loss.
    """
    return log_of_losses(losses, rename, pattern).table


def log_of_losses(
    losses: str | Path | pd.DataFrame, rename: Mapping[str, str] | None = None, pattern: str | None = None
) -> Log:
    """Return the log that `read_losses` reads."""
    if isinstance(losses, pd.DataFrame):
        return log_of_table(losses, "losses", rename=rename, strict=True)
    return read_log(losses, rename=rename, pattern=pattern)


def replaced_rows(log: Log | None, run: str) -> pd.DataFrame | None:
    """Return the rows of a run that a restart replaced; the only run of a log matches every name."""
    if log is None:
        return None
    return next((one.replaced for one in log.runs if len(log.runs) == 1 or one.name == run), None)


def losses_of(state: Mapping[str, Any], run: str) -> pd.DataFrame | None:
    """Return the loss history of a trainer's state as the store's metrics; None if it has none."""
    rows = state.get("log_history")
    if not isinstance(rows, list):
        return None
    return tidy([row for row in rows if isinstance(row, dict) and SUMMARY not in row], run)


def lightning_metrics(folder: Folder, run: str) -> pd.DataFrame:
    """Return the losses of metrics.csv; training and validation rows of a step are merged.

    Raises
    ------
    SourceError
        When the file is not a table.
    """
    blob = folder.open(LIGHTNING_METRICS)
    try:
        table = table_of_text(read_text(blob), [])
    except ValueError as error:
        raise SourceError(f"{blob.label}: is not a table ({str(error)[:80]}); correct it") from error
    return tidy(table.rename(columns=_plain_names(table)), run)


def _plain_names(table: pd.DataFrame) -> dict[str, str]:
    """Return train_loss_step -> train_loss: Lightning marks values logged by step and by epoch."""
    names = [str(column) for column in table.columns]
    return {n: n.removesuffix("_step") for n in names if n.endswith("_step") and n[:-5] not in names}
