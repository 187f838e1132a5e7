"""Loss histories beside checkpoints, as the store's metrics table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.sources.blobs import Blob, Folder, LocalBlob
from toposcope.sources.logs import log_of_table, read_log
from toposcope.sources.logs.tables import parquet
from toposcope.sources.metrics import tidy
from toposcope.sources.reader import read_json
from toposcope.store.parts import is_part


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


def parquet_parts(folder: Folder, run: str) -> pd.DataFrame:
    """Read the parquet parts of a toposcope run's `metrics` folder, again only those that have changed."""
    parts = [_part(folder.open(name)) for name in folder.files() if is_part(name)]
    return tidy(pd.concat(parts), run) if parts else tidy([], run)


def _part(blob: Blob) -> pd.DataFrame:
    return _local_part(blob.path, blob.stamp) if isinstance(blob, LocalBlob) else parquet(blob)


@lru_cache(maxsize=1024)  # of some kB each; a run in training adds one at every checkpoint
def _local_part(path: Path, stamp: str) -> pd.DataFrame:
    return parquet(LocalBlob(path))


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


def read_losses(losses: str | Path | pd.DataFrame, rename: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Read a loss history in any known format, or a table: see `toposcope.sources.logs.read_log`.

    `rename` maps columns to known names ("step", "loss", "heldout_loss", ...).

    Raises
    ------
    SourceError
        When it is not a log, or has no column known as the step or as a loss.
    """
    if isinstance(losses, pd.DataFrame):
        return log_of_table(losses, "losses", rename=rename, strict=True).table
    return read_log(losses, rename=rename).table
