"""Loss histories that lie beside checkpoints, as the store's metrics table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.errors import SourceError, did_you_mean
from toposcope.sources.blobs import Blob, Folder
from toposcope.sources.labels import MAX_STEP
from toposcope.sources.logs import read_log
from toposcope.sources.logs.tables import parquet
from toposcope.sources.losses import chosen
from toposcope.sources.reader import read_json
from toposcope.store.schema import METRICS

COLUMNS = ("step", "tokens", "loss", "heldout_loss", "learning_rate", "grad_norm", "weight_norm", "seconds")
"""The store's metrics columns; `toposcope.sources.losses` has the names that others write them under."""

_INTEGERS = ("step", "tokens")
# Token counts at or above it would overflow a 64-bit integer; they are left empty.
_MAX_TOKENS = 2.0**62


def empty() -> pd.DataFrame:
    """Return a metrics table without rows.

    >>> len(empty()), list(empty().columns)[:3]
    (0, ['run', 'step', 'tokens'])
    """
    return tidy([], "")


def tidy(rows: Iterable[Mapping[str, Any]] | pd.DataFrame, run: str) -> pd.DataFrame:
    """Return the metrics table of a loss history: the store's columns, one row per step, sorted.

    Several rows of a step (a training and an evaluation record) are merged; the later value wins.
    """
    raw = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    columns = columns_of(raw)
    numbers = {
        name: _numbers(raw[columns[name]]) if name in columns else np.full(len(raw), np.nan)
        for name in COLUMNS
    }
    table = pd.DataFrame(numbers)
    table = table[np.abs(numbers["step"]) < MAX_STEP]  # neither NaN nor what 64 bits do not hold
    table.loc[~(np.abs(table["tokens"]) < _MAX_TOKENS), "tokens"] = np.nan
    if not table["step"].is_unique:
        table = table.groupby("step", as_index=False, sort=True).last()
    table = table.sort_values("step", ignore_index=True, kind="stable")
    for name in _INTEGERS:
        table[name] = table[name].round().astype("Int64")
    table["step"] = table["step"].astype("int64")
    table.insert(0, "run", pd.Series(run, index=table.index, dtype=object))
    return table[METRICS.names]


def _numbers(column: pd.Series) -> np.ndarray:
    """Return a column as floats: NaN for what is no number, infinity for one of too many digits."""
    try:
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    except (OverflowError, TypeError, ValueError):
        return np.array([_number(value) for value in column.tolist()])


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def columns_of(raw: pd.DataFrame) -> dict[str, object]:
    """Return meaning -> the column that has it, of those that the store has: see `losses.chosen`."""
    return {name: column for name, column in chosen(list(raw.columns)).items() if name in COLUMNS}


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
    """Read the parquet parts of a toposcope run's `metrics` folder."""
    parts = [parquet(folder.open(name)) for name in folder.files() if _is_part(name)]
    return tidy(pd.concat(parts), run) if parts else tidy([], run)


def _is_part(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def join(own: pd.DataFrame, losses: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return `own` with the values of `losses` filled in where it has none.

    A `run` column in `losses` picks the rows of this run; without one they hold for every run.
    """
    if "run" in losses.columns:
        losses = losses[losses["run"].astype(str) == run]
    other = tidy(losses, run).set_index("step")
    joined = own.set_index("step").combine_first(other).reset_index()
    joined["run"] = run
    return tidy(joined, run)


def read_losses(uri: str, rename: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Read a loss history, whatever wrote it: see `toposcope.sources.logs.read_log`.

    `rename` maps columns of the file to the names that are known ("step", "loss", "heldout_loss", ...).

    Raises
    ------
    SourceError
        When it is no log, or has no step or no loss that is known by name.
    """
    return read_log(uri, rename=rename).table


def renamed(table: pd.DataFrame, rename: Mapping[str, str], label: str) -> pd.DataFrame:
    """Return a table under other column names.

    Raises
    ------
    SourceError
        When there is no such column.
    """
    columns = [str(column) for column in table.columns]
    for old in rename:
        if old not in columns:
            has = f"it has {', '.join(columns)[:120]}{did_you_mean(old, columns)}"
            raise SourceError(f"{label}: --rename {old}=...: no such column; {has}")
    return table.rename(columns=dict(rename))


def known_losses(table: pd.DataFrame, label: str = "losses") -> pd.DataFrame:
    """Return a loss history as it is.

    Raises
    ------
    SourceError
        When it has no step or no loss that is known by name.
    """
    known = columns_of(table)
    lower = {str(column).strip().lower() for column in table.columns}
    for wanted in (("step",), ("loss", "heldout_loss")):
        if not any(name in known for name in wanted):
            raise SourceError(
                f"{label}: has no column for {' or '.join(wanted)} among "
                f"{', '.join(sorted(lower))[:120]}; name the column with --rename THEIRS={wanted[0]}"
            )
    return table
