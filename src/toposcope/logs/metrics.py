"""The metrics table of a loss history: the store's columns, one row per step."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.bounds import MAX_STEP
from toposcope.logs.meanings import chosen
from toposcope.logs.run import all_different

COLUMNS = ("step", "tokens", "loss", "heldout_loss", "learning_rate", "grad_norm", "weight_norm", "seconds")
"""The store's metrics columns; `toposcope.logs.meanings` has other trainers' names for them."""

_INTEGERS = ("step", "tokens")
# Token counts from here on would overflow a 64-bit integer; they are left empty.
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
    table = ordered(rows if isinstance(rows, pd.DataFrame) else _framed(list(rows)), COLUMNS)
    for name in _INTEGERS:
        table[name] = table[name].astype("Int64")
    table["step"] = table["step"].astype("int64")
    table.insert(0, "run", pd.Series(run, index=table.index, dtype=object))
    return table if [*table] == ["run", *COLUMNS] else table[["run", *COLUMNS]]


def ordered(raw: pd.DataFrame, names: Collection[str]) -> pd.DataFrame:
    """Return some of the store's columns as `tidy` does, with whole steps; without the run.

    >>> ordered(pd.DataFrame({"iter": [2, 1], "train_loss": [2.5, 3.0]}), ("step", "loss")).to_dict("list")
    {'step': [1, 2], 'loss': [3.0, 2.5]}
    """
    columns = columns_of(raw)
    numbers = {
        name: _numbers(raw[columns[name]]) if name in columns else np.full(len(raw), np.nan) for name in names
    }
    if "step" in columns and raw[columns["step"]].dtype == np.int64:
        numbers["step"] = raw[columns["step"]].to_numpy()
    # each copy of a log of a million rows takes 100 MB, so none is made without need
    table = pd.DataFrame(numbers, copy=False)
    countable = np.abs(numbers["step"]) < MAX_STEP  # neither NaN nor values that exceed 64 bits
    if not countable.all():
        table = table[countable].reset_index(drop=True)
    if "tokens" in table:
        table["tokens"] = table["tokens"].where(np.abs(table["tokens"]) < _MAX_TOKENS).round()
    if not all_different(table["step"]):
        table = table.groupby("step", as_index=False, sort=True).last()
    if not table["step"].is_monotonic_increasing:
        table = table.sort_values("step", ignore_index=True, kind="stable")
    if table["step"].dtype != np.int64:
        table["step"] = table["step"].round().astype("int64")
    return table


def _framed(rows: list[Mapping[str, Any]]) -> pd.DataFrame:
    try:
        return pd.DataFrame(rows)
    except OverflowError:  # early pandas 2.2, for an integer with too many digits for a float
        return pd.DataFrame(rows, dtype=object)


def _numbers(column: pd.Series) -> np.ndarray:
    """Return a column as floats: NaN for what is not a number, infinity for too many digits."""
    try:
        number = column if column.dtype.kind in "fi" else pd.to_numeric(column, errors="coerce")
        return number.to_numpy(dtype=float, na_value=np.nan)
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
    """Return meaning -> column for the columns that the store has: see `losses.chosen`."""
    return {name: column for name, column in chosen(list(raw.columns)).items() if name in COLUMNS}
