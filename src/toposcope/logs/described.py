"""A log with all that is stated about its runs: their plans, sizes and kinds, and the loss that is judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError, UnrelatedTableError, did_you_mean
from toposcope.core.wording import option, renaming
from toposcope.logs.facts import DESCRIBES, configuration, size_of
from toposcope.logs.log import Log
from toposcope.logs.meanings import ALIASES, SCALES, losses_among, meaning, plain
from toposcope.logs.records import FEW_COLUMNS, PLANNED
from toposcope.logs.run import Run, nan_column, written_nan

_FEWEST_STEPS = 3
"""Fewer steps make no log that could be judged: agreement of two logs needs as many losses."""

METRICS = ("step", "tokens", "loss", "heldout_loss", "learning_rate", "grad_norm", "weight_norm")
TOLD = ("loss", "heldout_loss", "grad_norm")
"""Columns whose rows always say whether they were written as NaN (`run.nan_column`)."""
HELD_OUT = "no training loss is logged: the held-out loss"
"""How the note begins that the held-out loss is read as the loss."""


def described(read: Log, *, name: str, column: str = "loss", held_out: bool = False) -> Log:
    """Return a log whose runs have the loss that is judged, their plans, their sizes and what describes them.

    The log has `step` and the loss called `column`; optionally `run` (else a log of one run is that of the
    run `name`), `learning_rate`, `tokens`, `parameters`, `heldout_loss`, `grad_norm`, `weight_norm`.
    `logs.meanings.chosen` has found them among its columns; `column` may have one of their other names, too.
    If no column is the size, the only one that begins with "param" and has one whole number for each run is.
    With `held_out`, a log without a value of the training loss is one of its held-out loss.

    Raises
    ------
    InputError
        When the step or the loss cannot be found, or a size changes within a run.
    """
    table, notes = _with_size(read.table.copy(deep=False))
    column = canonical_name(column)
    if held_out and column == "loss" and loss_column(table) != column:
        column = loss_column(table)
        notes.append(f"{HELD_OUT} {read.taken[column]!r} is used")
    _refuse_missing(table, column, read)
    if len(table.columns) > FEW_COLUMNS:
        table = table.copy()  # pandas warns of columns that are added to many that are kept one by one
    table["run"] = _runs_named(table, name, read.path)
    planned = _planned(table)
    for metric in metric_columns(table, column):
        if table[metric].dtype.kind not in "fi":
            table[metric] = pd.to_numeric(table[metric], errors="coerce")
    told = dict.fromkeys(name for name in (column, *TOLD) if name in table)
    lost = {
        name: written_nan(table, name) | np.isinf(table[name].to_numpy(float, na_value=0)) for name in told
    }
    table = table.assign(**{nan_column(name): rows for name, rows in lost.items()})
    sizes, unsized = _sizes(table, read.path)
    parts = {run.name if len(read.runs) > 1 else name: run for run in read.runs}
    stated = {run: part.planned_steps for run, part in parts.items() if part.planned_steps}
    runs = []
    for run, rows in _by_run(table):
        part = parts.get(str(run))
        plan = stated.get(str(run)) or planned.get(str(run))
        config = (dict(part.config) if part else {}) | _kinds(rows) | ({PLANNED: plan} if plan else {})
        size = sizes[str(run)] or (part.parameters if part else 0)
        run_table = rows.drop(columns=[c for c in ("parameters", *DESCRIBES) if c in rows])
        run_part = part if part is not None else Run(str(run), run_table)
        runs.append(
            replace(
                run_part, name=str(run), table=run_table, planned_steps=plan, parameters=size, config=config
            )
        )
    return replace(read, runs=tuple(runs), assumed=(*notes, *unsized))


def _by_run(table: pd.DataFrame) -> Iterable[tuple[object, pd.DataFrame]]:
    """Return the rows of each run; those of a single one are not copied."""
    names = table["run"].unique()
    return [(names[0], table)] if len(names) == 1 else table.groupby("run", sort=False)


def recorded(name: str, rows: pd.DataFrame, record: Mapping[Any, Any]) -> Run:
    """Return a run from its rows and its record in a store: parameters, config, and what describes it."""
    kinds = {key: record[key] for key in DESCRIBES if record.get(key) not in (None, "")}
    size = size_of(record.get("parameters"))
    return Run(name, rows, parameters=int(size), config={**configuration(record.get("config")), **kinds})


def recorded_runs(
    rows: Iterable[tuple[object, pd.DataFrame]], records: Mapping[str, Mapping[Any, Any]]
) -> list[Run]:
    """Return the runs of a store or a series with their records; those without a row come last."""
    logged = {str(run): table for run, table in rows if len(table)}
    empty = pd.DataFrame({"run": [], "step": []})
    names = dict.fromkeys([*logged, *records])
    return [recorded(run, logged.get(run, empty), records.get(run, {})) for run in names]


def metric_columns(table: pd.DataFrame, column: str) -> list[str]:
    """Return the columns of a log that are its step, its losses, its rates and its norms."""
    columns = [*(name for name in METRICS if name in table), *([column] if column in table else [])]
    return list(dict.fromkeys([*columns, *(str(name) for name in table if plain(name) in SCALES)]))


def last_step(rows: pd.DataFrame) -> float | None:
    """Return the last step in the rows of a run, whatever is logged there; None without rows.

    This is how far a run has come; its last training loss may be from an earlier step.

    >>> last_step(pd.DataFrame({"step": [100.0, 200.0], "loss": [3.0, np.nan], "heldout_loss": [3.1, 2.9]}))
    200
    """
    steps = rows["step"].to_numpy(float) if len(rows) else np.empty(0)
    steps = steps[np.isfinite(steps)]
    if not len(steps):
        return None
    return int(steps.max()) if float(steps.max()).is_integer() else float(steps.max())


def loss_column(rows: pd.DataFrame, otherwise: str = "loss") -> str:
    """Return the loss of a run: the training loss if it has a value, else the held-out loss if that has one.

    >>> loss_column(pd.DataFrame({"loss": [np.nan, np.nan], "heldout_loss": [np.nan, 3.1]}))
    'heldout_loss'
    """
    logged = (name for name in ("loss", "heldout_loss") if name in rows and rows[name].notna().any())
    return next(logged, otherwise)


def canonical_name(column: str) -> str:
    """Return the canonical name of a column by its own, which an unknown column keeps."""
    return role if (role := meaning(column)) in ALIASES else column


def unknown(column: str) -> tuple[str, ...]:
    """Return a column as one that keeps its name in a reader; empty if it gets its canonical name."""
    return () if canonical_name(column) != column or column in ALIASES else (column,)


def as_named(column: str, columns: Collection[str], rename: Mapping[str, str]) -> dict[str, str]:
    """Return how columns are renamed, with a loss that the caller names before others of its meaning.

    >>> as_named("lm_loss", ["step", "train_loss", "lm_loss"], {})
    {'lm_loss': 'loss'}
    """
    role = canonical_name(column)
    if column not in columns or column in rename or role in (column, *rename.values()):
        return dict(rename)
    return {**rename, column: role}


def changing(table: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns that change along at least one run; a planned number of steps never counts.

    >>> changing(pd.DataFrame({"run": list("aab"), "plan": [9, 9, 8], "norm": [1, 2, 2]}), ["plan", "norm"])
    ['norm']
    """
    return [column for column in columns if (table.groupby("run")[column].nunique() > 1).any()]


def _planned(table: pd.DataFrame) -> dict[str, int]:
    """Remove the column of planned steps from a table, and return its last value for each run."""
    if PLANNED not in table:
        return {}
    steps = pd.to_numeric(table.pop(PLANNED), errors="coerce")
    last = steps.where((steps > 0) & np.isfinite(steps)).groupby(table["run"]).last().dropna()
    return {str(run): int(value) for run, value in last.items()}


def _kinds(rows: pd.DataFrame) -> dict[str, object]:
    """Return the description of a run by its first row: the columns `DESCRIBES` of its table."""
    first = {name: rows[name].dropna() for name in DESCRIBES if name in rows}
    return {name: values.iloc[0] for name, values in first.items() if len(values)}


def _with_size(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a table whose only column of sizes that begins with "param" is the size, and a note on it.

    A number that changes within a run, such as the norm of the parameters, is no size.
    """
    named = [c for c in table if plain(c).startswith("param") and c not in ALIASES]
    alike = [c for c in named if _may_be_size(table, str(c))]
    if "parameters" in table or len(alike) != 1:
        return table, []
    return table.rename(columns={alike[0]: "parameters"}), [f"column {alike[0]!r} is taken as parameters"]


def _may_be_size(table: pd.DataFrame, column: str) -> bool:
    """Return whether a column has one whole number from 1 for each run."""
    sizes = pd.to_numeric(table[column], errors="coerce")
    stated = sizes.dropna()
    runs = table["run"].astype(str) if "run" in table else pd.Series("", table.index)
    whole = len(stated) > 0 and bool(((stated >= 1) & (stated % 1 == 0)).all())
    return whole and bool((sizes.groupby(runs).nunique() <= 1).all())


def _refuse_missing(table: pd.DataFrame, column: str, read: Log) -> None:
    """Raise InputError if a table has no step or no loss; it names the columns and the nearest."""
    written = [read.taken.get(str(c), str(c)) for c in table]
    for needed in ("step", column):
        if needed in table:
            continue
        # a column with another known meaning is not a candidate
        free = [name for name, c in zip(written, table, strict=True) if str(c) not in ALIASES]
        among = free if needed in ALIASES else written
        near = next(
            filter(None, (did_you_mean(word, among) for word in (needed, *ALIASES.get(needed, ())))), ""
        )
        if needed == "loss" and len(several := losses_among(written)) > 1:
            raise InputError(
                f"{read.path}: has several losses and none is the total: {', '.join(several)[:160]}",
                remedy=f"choose one with {option('column', several[0])}",
            )
        refusal = InputError if _may_be_log(table) else UnrelatedTableError
        other = renaming("COLUMN", needed)
        remedy = other if needed == "step" else f"{option('column', 'COLUMN')}, or {other}"
        raise refusal(
            f"{read.path}: no column {needed!r} among {', '.join(written[:12])}; say which one it is: "
            f"{remedy}{near}"
        )


def _may_be_log(table: pd.DataFrame) -> bool:
    """Return whether a table has a known step or loss, or a column that may be the step by its numbers."""
    known = {"step", "loss", "heldout_loss"} & set(map(str, table))
    return bool(known) or any(_may_count(table[column]) for column in table)


def _may_count(column: pd.Series) -> bool:
    """Return whether a column has whole numbers only, and enough different ones to count steps."""
    values = pd.to_numeric(column, errors="coerce").dropna().to_numpy(float)
    whole = len(values) > 0 and bool((np.isfinite(values) & (values >= 0) & (values % 1 == 0)).all())
    return whole and len(np.unique(values)) >= _FEWEST_STEPS


def _runs_named(table: pd.DataFrame, name: str, label: str) -> pd.Series:
    """Return the run of each row, as text."""
    if "run" not in table:
        return pd.Series(name, table.index, dtype=object)
    if table["run"].isna().any():
        raise InputError(
            f"{label}: {int(table['run'].isna().sum()):,} rows have no run (empty, or a word such as "
            "nan); name the run"
        )
    return table["run"].astype(str)


def _sizes(table: pd.DataFrame, name: str) -> tuple[dict[str, int], list[str]]:
    """Return the parameters of each run (0 if unknown), and a note on impossible sizes."""
    if "parameters" not in table:
        return dict.fromkeys(map(str, table["run"].unique()), 0), []
    sizes = pd.to_numeric(table["parameters"], errors="coerce")
    impossible = table.loc[(sizes <= 0) | np.isinf(sizes), "run"].unique()
    sizes = sizes.where((sizes > 0) & np.isfinite(sizes))
    for run, sizes_of_run in sizes.groupby(table["run"], sort=False):
        if sizes_of_run.nunique() > 1:
            raise InputError(
                f"{name}: run {run} has parameters {sizes_of_run.min():g} and {sizes_of_run.max():g}; "
                f"give one size"
            )
    first = sizes.groupby(table["run"], sort=False).first()
    notes = [f"size unknown, parameters not above 0: {', '.join(impossible[:12])}"] if len(impossible) else []
    return {str(run): int(np.nan_to_num(size)) for run, size in first.items()}, notes
