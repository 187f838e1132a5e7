"""The runs of a table: where one ends, what a restart replaced, and which records hold no loss."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.core.forms import step_text
from toposcope.logs.records import PARAMETERS, PLANNED, RESTARTED, TRAINING, parts, replaced
from toposcope.logs.run import Run, all_different, is_nan_column, nan_column, wanted_rows, written_nan

LARGEST_STEP = 2.0**53
"""From here on, float64 cannot represent every integer step."""
LEAST_ROWS = 3
"""The fewest rows per run of a table on average; with fewer, the rows count as unordered."""
OUT_OF_ORDER = 0.1
"""The largest share of rows where the step falls within a run; with more, the rows count as unordered."""
_LOSSES = ("loss", "heldout_loss")
_OF_TRAINING = (*_LOSSES, "learning_rate", "grad_norm")
"""A record at the end of a log with none of these is a summary, not a step of training."""
_HABIT = 0.5
"""If at least this share of the earlier records logs a loss, one without is an exception."""


def cut(
    table: pd.DataFrame,
    run: Run,
    name: str,
    taken: Mapping[str, str],
    notes: list[str],
    *,
    text: bool,
    keep: Collection[str] = (),
) -> list[Run]:
    """Return the runs of a table under canonical names, split where the step falls back.

    The records of a step become one row, and rows that a restart trained again are replaced. `notes` takes
    what was done.
    """
    if not len(table):
        return []
    alone = "run" not in table and "step" in table
    which: np.ndarray = np.zeros(len(table), np.int8)
    if "step" in table and (TRAINING in table or _returns(table)):
        from toposcope.logs.starts import run_numbers, without_copies

        table = without_copies(table, name, notes)
        which = run_numbers(table) if alone else np.zeros(len(table), np.int8)
    count = int(which.max()) + 1
    if not text and _in_no_order(table, count):
        which, count = np.zeros(len(table), np.int8), 1
    if count > 1:
        notes.append(f"{name}: split into {count:,} runs where the step falls back")
    runs: list[Run] = []
    distinct: list[pd.DataFrame] = []
    for part in range(count):
        part_table = (
            wanted_rows(table, which == part).reset_index(drop=True).drop(columns=TRAINING, errors="ignore")
        )
        planned = (
            run.planned_steps if "run" in part_table else _stated(part_table, PLANNED) or run.planned_steps
        )
        parameters = _stated(part_table, PARAMETERS) or run.parameters
        restarts: tuple[float, ...] = ()
        if RESTARTED in part_table:
            from toposcope.logs.resumed import without_marks

            part_table, restarts = without_marks(part_table)
        part_table, gone = _without_replaced(part_table, name, notes)
        if alone:
            part_table = _together(part_table, taken, text=text)
        if any(part_table.equals(earlier) for earlier in distinct):
            notes.append(f"{name}: run {part + 1} repeats an earlier one and is left out")
            continue
        distinct.append(part_table)
        part_table = _tidied(_without_closing(part_table, keep) if alone else part_table, taken)
        own_name = name if count == 1 else f"{name}-{part + 1}"
        part_run = Run(own_name, part_table, planned, parameters, config=run.config, replaced=gone)
        runs.append(replace(part_run, restarts=restarts) if restarts else part_run)
    runs[-1] = replace(runs[-1], error=run.error) if run.error else runs[-1]
    runs = runs if keep else _with_losses(runs, name, notes)
    return [replace(runs[0], name=name)] if len(runs) == 1 else runs


def _with_losses(runs: list[Run], name: str, notes: list[str]) -> list[Run]:
    """Return the runs that log a loss, if any does: a start that logged none is no run."""
    logged = [run for run in runs if any(c in run.table and run.table[c].notna().any() for c in _LOSSES)]
    logged = [run for run in runs if run in logged or any(nan_column(c) in run.table for c in _LOSSES)]
    if not logged or len(logged) == len(runs):
        return runs
    notes.append(f"{name}: {len(runs) - len(logged):,} starts without a loss left out")
    return logged


def _returns(table: pd.DataFrame) -> bool:
    """Return whether the step falls, or comes again with another loss."""
    if table["step"].is_monotonic_increasing and all_different(table["step"]):
        return False
    step = table["step"].to_numpy(float)
    trained = step[table["loss"].notna().to_numpy()] if "loss" in table else step
    return bool((np.diff(step) < 0).any() or (np.diff(trained) == 0).any())


def _tidied(table: pd.DataFrame, taken: Mapping[str, str]) -> pd.DataFrame:
    """Return a table without empty columns, the known ones first; marks of NaN become booleans."""
    values = [c for c in table if not is_nan_column(c)]
    marked = [c for c in values if nan_column(c) in table]
    marks = {nan_column(c): written_nan(table, c) & table[c].isna().to_numpy() for c in marked}
    marks = {name: mark for name, mark in marks.items() if mark.any()}
    full = [c for c in values if c in ("step", "loss") or nan_column(c) in marks or table[c].notna().any()]
    front = [c for c in ("run", *taken) if c in full]
    ordered = table[[*dict.fromkeys(front), *(c for c in full if c not in front)]]
    return ordered.assign(**marks) if marks else ordered


def _stated(table: pd.DataFrame, name: str) -> int | None:
    """Remove a column from a table and return its last value as an integer; None if there is none."""
    if name not in table:
        return None
    stated = table.pop(name).dropna()
    return int(stated.iloc[-1]) if len(stated) and 0 < stated.iloc[-1] < LARGEST_STEP else None


def _in_no_order(table: pd.DataFrame, count: int) -> bool:
    """Return whether the rows of a table are unordered, given that its steps split it into `count` runs."""
    falls = int((np.diff(table["step"].to_numpy(float)) < 0).sum()) if count > 1 else 0
    inside = falls - (count - 1)
    return count > max(1, len(table) // LEAST_ROWS) or inside > OUT_OF_ORDER * len(table)


def _without_replaced(
    table: pd.DataFrame, name: str, notes: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return a table without the rows that a restart from an earlier checkpoint replaced, and these rows."""
    if "step" not in table or table["step"].is_monotonic_increasing:
        return table, None
    step = table["step"].to_numpy(float)
    trained = table["loss"].notna().to_numpy() if "loss" in table else np.ones(len(table), bool)
    gone = np.zeros(len(table), bool)
    restarts = 0
    for rows in table.groupby("run", sort=False).indices.values() if "run" in table else [slice(None)]:
        falls = int((np.diff(step[rows][trained[rows]]) < 0).sum())
        # more falls: unordered or repeated rows; a fall to the begin of a named run is no restart of it
        if 0 < falls <= OUT_OF_ORDER * len(step[rows]) and not parts(step[rows]).any():
            gone[rows] = replaced(step[rows], trained[rows])
            restarts += falls
    if not gone.any():
        return table, None
    first, last = step_text(step[gone].min()), step_text(step[gone].max())
    notes.append(
        f"{name}: {int(gone.sum()):,} rows were replaced, because restarts trained their steps again "
        f"(steps {first} to {last}; restarts: {restarts:,})"
    )
    return table[~gone].reset_index(drop=True), _numbers(table[gone].reset_index(drop=True))


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without the columns that say where NaN was written."""
    return table[[column for column in table if not is_nan_column(column)]]


def _together(table: pd.DataFrame, taken: Mapping[str, str], *, text: bool) -> pd.DataFrame:
    """Merge the records of a step, such as training and evaluation; in text logs the last value counts.

    Rows of a table that contradict each other in a known column stay separate.
    """
    if all_different(table["step"]):
        return table
    grouped = table.groupby("step", sort=False)
    known_columns = [name for name in taken if name in table and name != "step"]
    if not text and (grouped[known_columns].nunique() > 1).to_numpy().any():
        return table
    if not text and not (table[known_columns].isna().any(axis=1)).any():
        return table  # identical rows: the caller reports them
    return grouped.last().reset_index()[list(table.columns)]


def _without_closing(table: pd.DataFrame, keep: Collection[str]) -> pd.DataFrame:
    """Leave out the records at the end that hold nothing of training: a trainer's summary is no step.

    Only where a loss is logged in most records before them; `keep` are columns that the caller asks for.
    """
    losses = [name for name in (*_LOSSES, *keep) if name in table]
    wanted = [name for name in (*_OF_TRAINING, *keep) if name in table]
    if not losses:
        return table
    marks = [nan_column(name) for name in wanted if nan_column(name) in table]
    used = table[[*wanted, *marks]].notna().any(axis=1).to_numpy()
    if not used.any() or used[-1]:
        return table
    end = int(np.flatnonzero(used)[-1]) + 1
    before_closing = table.iloc[:end]
    if _is_another_step(before_closing, table.iloc[end:], {*wanted, *marks}):
        return table
    habit = before_closing[[*losses, *(mark for mark in marks)]].notna().any(axis=1).mean()
    return before_closing if habit >= _HABIT else table


def _is_another_step(earlier: pd.DataFrame, later: pd.DataFrame, known_columns: Collection[str]) -> bool:
    """Return whether what follows the last loss is one further step, with a quantity that most rows have."""
    if (
        "step" not in earlier
        or later["step"].nunique() != 1
        or later["step"].iloc[0] <= earlier["step"].max()
    ):
        return False
    others = [c for c in earlier if c not in ("run", "step", "epoch", *known_columns)]
    usual = [c for c in others if earlier[c].notna().mean() >= _HABIT and earlier[c].nunique() > 1]
    return bool(later[usual].notna().to_numpy().any())
