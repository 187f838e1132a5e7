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
    return next((part.replaced for part in log.runs if len(log.runs) == 1 or part.name == run), None)


def companions_in(rows: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return the columns of a log that may judge a run beside its loss, by whole step; None without any.

    >>> logged = pd.DataFrame({"step": [2, 4], "loss": [0.1, 0.2], "reward": [1.0, 1.5]})
    >>> companions_in(logged).to_dict("list"), companions_in(logged[["step", "loss"]])
    ({'step': [2, 4], 'reward': [1.0, 1.5]}, None)
    """
    from toposcope.logs.objective import with_direction

    names = [] if rows is None or "step" not in rows else with_direction(rows)
    if rows is None or not names:
        return None
    table = rows[["step", *names]].dropna(subset=["step"]).dropna(how="all", subset=names)
    if not len(table) or not (table["step"] % 1 == 0).all():  # the store counts whole steps
        return None
    return table.groupby("step", as_index=False, sort=True).last().astype({"step": "int64"})


def records_of(state: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of a trainer's state, without the summary of its end; None if it has none."""
    rows = state.get("log_history")
    if not isinstance(rows, list):
        return None
    return [row for row in rows if isinstance(row, dict) and SUMMARY not in row]


def losses_of(state: Mapping[str, Any], run: str) -> pd.DataFrame | None:
    """Return the loss history of a trainer's state as the store's metrics; None if it has none."""
    rows = records_of(state)
    return None if rows is None else tidy(rows, run)


def lightning_metrics(folder: Folder, run: str) -> pd.DataFrame:
    """Return the losses of metrics.csv; training and validation rows of a step are merged.

    Raises
    ------
    SourceError
        When the file is not a table.
    """
    table = lightning_table(folder)
    return tidy(table.rename(columns=_plain_names(table)), run)


def lightning_table(folder: Folder) -> pd.DataFrame:
    """Return metrics.csv as it is; SourceError when it is not a table."""
    blob = folder.open(LIGHTNING_METRICS)
    try:
        return table_of_text(read_text(blob), [])
    except ValueError as error:
        raise SourceError(f"{blob.label}: is not a table ({str(error)[:80]}); correct it") from error


def _plain_names(table: pd.DataFrame) -> dict[str, str]:
    """Return train_loss_step -> train_loss: Lightning marks values logged by step and by epoch."""
    names = [str(column) for column in table.columns]
    return {n: n.removesuffix("_step") for n in names if n.endswith("_step") and n[:-5] not in names}
