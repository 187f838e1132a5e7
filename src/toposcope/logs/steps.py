"""Steps that rise: which column is the step, and steps that begin again in every epoch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.logs.meanings import meaning, plain
from toposcope.logs.run import Run

_EPOCH = ("epoch", "epochs")
_WITHIN = (
    "batch",
    "batch_idx",
    "batch_index",
    "batch_id",
    "batch_num",
    "minibatch",
    "local_step",
    "step_in_epoch",
)
"""Columns that count within an epoch; with the epoch they are the step if there is no other."""
_MOSTLY = 0.8
"""The step begins again with the epoch if it falls at this share of the places where the epoch rises."""
_COUNTER = "_step"
ROW = "row"
ROWS_COUNTED = "no column is a step: the rows are counted"
COUNTED_ON = "the step begins again in every epoch and is counted on"
COUNTED = "only an epoch is logged: its losses are counted in order as steps"


def steady_step(tables: Sequence[pd.DataFrame], step: str, columns: Collection[str]) -> str:
    """Return the column of the step: `step`, or another one that never falls where that one does.

    >>> rows = pd.DataFrame({"step": [1, 2, 1, 2], "global_step": [1, 2, 3, 4]})
    >>> steady_step([rows], "step", ["step", "global_step"])
    'global_step'
    """
    others = [c for c in columns if c not in (step, _COUNTER) and meaning(c) == "step"]
    if not others or not _falls(tables, step):
        return step
    rows = _logged(tables, step)
    steady = (c for c in others if not _falls(tables, c) and _logged(tables, c) >= _MOSTLY * rows)
    return next(steady, step)


def _numbers(table: pd.DataFrame, column: str) -> np.ndarray:
    if column not in table:
        return np.full(len(table), np.nan)
    return pd.to_numeric(table[column], errors="coerce").to_numpy(float, na_value=np.nan)


def _falls(tables: Sequence[pd.DataFrame], column: str) -> bool:
    steps = [_numbers(table, column) for table in tables]
    return any((np.diff(step[np.isfinite(step)]) < 0).any() for step in steps)


def _logged(tables: Sequence[pd.DataFrame], column: str) -> int:
    return sum(int(np.isfinite(_numbers(table, column)).sum()) for table in tables)


def filled(table: pd.DataFrame, step: str, columns: Collection[str]) -> pd.DataFrame:
    """Return a table whose rows without a step have the one of another column that means the step.

    A held-out loss without any belongs to the step before it.

    >>> rows = pd.DataFrame({"num_updates": [1, np.nan], "valid_num_updates": [np.nan, 2]})
    >>> filled(rows, "num_updates", list(rows))["num_updates"].tolist()
    [1.0, 2.0]
    """
    if step not in table or table[step].notna().all():
        return table
    others = [c for c in columns if c not in (step, _COUNTER) and meaning(c) == "step" and c in table]
    named = table[[step, *others]].bfill(axis=1).iloc[:, 0] if others else table[step]
    held = [c for c in columns if meaning(c) == "heldout_loss" and c in table]
    late = table[held].notna().any(axis=1) & named.isna()
    return table.assign(**{step: named.where(~late, named.ffill())})


def with_rising_steps(table: pd.DataFrame, taken: Mapping[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Return a table under canonical names whose steps do not begin again in every epoch, and notes.

    A step that falls where the epoch rises is counted on. Where only an epoch is logged, its losses are
    counted in order.

    >>> rows = pd.DataFrame({"epoch": [0, 0, 1, 1], "step": [0, 10, 0, 10], "loss": 2.0})
    >>> with_rising_steps(rows, {"step": "step"})[0]["step"].tolist()
    [0, 10, 20, 30]
    >>> rows = pd.DataFrame({"step": [1, 1, 2, 2], "loss": 2.0})
    >>> with_rising_steps(rows, {"step": "epoch"})[0]["step"].tolist()
    [1, 2, 3, 4]
    """
    if "run" in table or "step" not in table or len(table) < 2:
        return table, []
    names = {plain(column): str(column) for column in table}
    if plain(taken.get("step", "")) in _EPOCH:
        epoch = table["step"].to_numpy(float)
        within = next((names[name] for name in _WITHIN if name in names), None)
        local = _numbers(table, within) if within else _places(epoch, _trained(table))
        if local is None or not np.isfinite(local).all() or not (np.diff(epoch) > 0).any():
            return table, []
        counted = _counted_on(local, epoch, _trained(table))
        return table.assign(epoch=table["step"], step=_whole(counted)), [COUNTED_ON if within else COUNTED]
    named = next((names[name] for name in _EPOCH if name in names), None)
    if named is None:
        return table, []
    epoch, step = _numbers(table, named), table["step"].to_numpy(float)
    finite = np.isfinite(epoch)
    rises = np.diff(epoch[finite]) > 0
    if not rises.any():
        return table, []
    if len(np.unique(step)) == 1 and finite.all():
        return table.assign(step=_whole(epoch)), [
            f"{taken['step']!r} is always the same: the epoch is the step"
        ]
    if (rises & (np.diff(step[finite]) < 0)).sum() < _MOSTLY * rises.sum():
        return table, []
    filled_epoch = pd.Series(epoch).ffill().bfill().to_numpy()
    counted = _counted_on(step, filled_epoch, _trained(table))
    return table.assign(step=_whole(counted)), [COUNTED_ON]


def _whole(step: np.ndarray) -> np.ndarray:
    return step.astype(np.int64) if (step == np.floor(step)).all() else step


def _trained(table: pd.DataFrame) -> np.ndarray:
    logged = table["loss"].notna().to_numpy() if "loss" in table else np.zeros(len(table), bool)
    return logged if logged.any() else np.ones(len(table), bool)


def _places(epoch: np.ndarray, trained: np.ndarray) -> np.ndarray | None:
    """Return the place of each row among the losses of its epoch, from 1; None if most have one loss only."""
    begins = np.flatnonzero(np.r_[True, np.diff(epoch) != 0])
    count = np.cumsum(trained)
    before = (count - trained)[begins]
    lengths = np.diff(np.r_[before, count[-1]])
    if np.median(lengths) < 2:
        return None
    block = np.cumsum(np.r_[True, np.diff(epoch) != 0]) - 1
    return np.maximum(count - before[block], 1).astype(float)


def _counted_on(local: np.ndarray, epoch: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return steps counted on over the epochs: each begins one interval after the end of the one before.

    An epoch that comes again, after a restart, begins where it began before. Rows that log no training may
    count something else, so an epoch ends with its last row that does; they stand at that end at most.
    """
    begins = np.flatnonzero(np.r_[True, np.diff(epoch) != 0])
    offsets: dict[float, float] = {}
    steps = np.empty(len(local))
    last = 0.0
    interval = 1.0
    for begin, end in zip(begins, np.r_[begins[1:], len(local)], strict=True):
        number = float(epoch[begin])
        offsets = {other: offset for other, offset in offsets.items() if other <= number}
        if number not in offsets:
            offsets[number] = last + interval - local[begin] if offsets else 0.0
        steps[begin:end] = local[begin:end] + offsets[number]
        rows = trained[begin:end]
        if rows.any():
            last = float(steps[begin:end][rows].max())
            steps[begin:end] = np.minimum(steps[begin:end], last)
        between = np.diff(local[begin:end][rows])
        interval = float(np.median(between[between > 0])) if (between > 0).any() else interval
    return steps


def with_counted_rows(runs: Sequence[Run], taken: Mapping[str, str]) -> tuple[Sequence[Run], dict[str, str]]:
    """Return runs whose rows are counted in a column `ROW`, if nothing else may be their step; and meanings.

    This needs a loss with a known name, columns of numbers only (other tables with a loss describe no run),
    and no column of rising whole numbers, which may be the step under an unknown name.
    """
    has_loss = any(meaning(taken[name]) == name for name in ("loss", "heldout_loss") if name in taken)
    columns = [run.table[column] for run in runs for column in run.table]
    if "step" in taken or not has_loss or any(str(column.name) == ROW for column in columns):
        return runs, dict(taken)
    if any(_rises(column) or not pd.api.types.is_numeric_dtype(column) for column in columns):
        return runs, dict(taken)
    counts = [np.arange(1, len(run.table) + 1) for run in runs]
    counted = [
        replace(run, table=run.table.assign(**{ROW: count}), notes=(*run.notes, ROWS_COUNTED))
        for run, count in zip(runs, counts, strict=True)
    ]
    return counted, {"step": ROW, **taken}


def _rises(column: pd.Series) -> bool:
    """Return whether a column has whole numbers that rise in every row."""
    values = pd.to_numeric(column, errors="coerce").to_numpy(float, na_value=np.nan)
    if len(values) < 2 or not np.isfinite(values).all():
        return len(values) < 2
    return bool((values == np.floor(values)).all() and (np.diff(values) > 0).all())
