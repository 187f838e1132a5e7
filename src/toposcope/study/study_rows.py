"""The data of runs that a log or a table states: their losses, what describes them, and features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.wording import option, renaming
from toposcope.logs import log_of_table, with_index
from toposcope.logs.belonging import DESCRIBES
from toposcope.logs.meanings import ALIASES, SCALES, meaning, plain
from toposcope.logs.records import PLANNED

if TYPE_CHECKING:
    from toposcope.logs import Log

METRICS = ("step", "tokens", "loss", "heldout_loss", "learning_rate", "grad_norm", "weight_norm")
HELD_OUT = "no training loss is logged: the held-out loss"
"""How the note begins that the held-out loss is read as the loss."""

Copies: TypeAlias = Callable[[pd.DataFrame, Sequence[str], Sequence[str]], Mapping[str, str]]
"""Which columns of a table are functions of its targets or the step, and of which, in words."""


@dataclass(frozen=True, slots=True)
class StudyRows:
    """The data of some runs: `metrics` and `runs` with a store's columns, and features.

    `features` and `diagrams` are a store's long rows, `catalogue` what its probes declare, `wide` a table of
    run, step and one column for each feature; None if nothing was measured. `notes` say how the columns of a
    plain table were understood; `said` says in one line what was read, and what was taken as step and loss.
    """

    metrics: pd.DataFrame
    runs: pd.DataFrame
    wide: pd.DataFrame | None = None
    features: pd.DataFrame | None = None
    diagrams: pd.DataFrame | None = None
    catalogue: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    said: str = ""


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


def log_from_frame(
    frame: pd.DataFrame,
    *,
    label: str = "the table",
    column: str = "loss",
    rename: Mapping[str, str] | None = None,
    copies: Copies | None = None,
) -> StudyRows:
    """Return the data of the runs in a table in memory, which is read as a file is; see `log_of_read`.

    A table without a column `run` is one run, called "run". `label` is its name in errors.

    Raises
    ------
    InputError
        As in `log_of_read`, and when the table has no rows or two columns have one name.

    Examples
    --------
    >>> table = pd.DataFrame({"step": [0, 100], "train_loss": [4.0, 3.0], "h0": [1.0, 2.0], "seed": 1})
    >>> log = log_from_frame(table)
    >>> log.metrics["loss"].tolist(), log.wide.columns.tolist()
    ([4.0, 3.0], ['run', 'step', 'h0'])
    >>> log.notes
    ('left out, text or the same at every step: seed', 'taken as features: h0')
    """
    frame = with_index(frame)
    chosen = as_named(column, [str(one) for one in frame], rename or {})
    read = log_of_table(frame, label, rename=chosen, keep=unknown(column))
    return log_of_read(read, name="run", column=column, copies=copies)


def log_of_read(
    read: Log, *, name: str, column: str = "loss", copies: Copies | None = None, held_out: bool = False
) -> StudyRows:
    """Return the data of the runs in a log, with their plans and sizes.

    The log has `step` and the loss called `column`; optionally `run` (else a log of one run is that of the
    run `name`), `learning_rate`, `tokens`, `parameters`, `heldout_loss`, `grad_norm`, `weight_norm`.
    `sources.losses.chosen` has found them among its columns; `column` may have one of their other names, too.
    If no column is the size, the only one that begins with "param" and has one whole number for each run is.
    Every other numeric column that changes within a run is a feature, unless `copies` finds that it is a
    function of a loss or the step. With `held_out`, a log without a value of the training loss is one of its
    held-out loss.

    Raises
    ------
    InputError
        When the step or the loss cannot be found, or a size changes within a run.
    """
    table, notes = _with_size(read.table.copy())
    column = canonical_name(column)
    if held_out and column == "loss" and loss_column(table) != column:
        column = loss_column(table)
        notes.append(f"{HELD_OUT} {read.taken[column]!r} is used")
    _refuse_missing(table, column, read)
    table["run"] = _runs_named(table, name, read.path)
    planned = _planned(table)
    numeric = [c for c in METRICS if c in table] + ([column] if column not in METRICS else [])
    numeric += [str(c) for c in table if plain(c) in SCALES]
    for known in numeric:
        table[known] = pd.to_numeric(table[known], errors="coerce")
    metrics = table[["run", *dict.fromkeys(numeric)]]
    wide, more = _features(table, metrics, column, copies)
    runs, unsized = _runs(table, read.path)
    runs = _with_plans(runs.join(_kinds(table), on="run"), planned)
    parts = {run.name if len(read.runs) > 1 else name: run for run in read.runs}
    runs = _with_sizes(runs, {run: part.parameters for run, part in parts.items()})
    stated = {run: part.planned_steps for run, part in parts.items() if part.planned_steps}
    return StudyRows(
        metrics, _with_plans(runs, stated), wide, notes=(*notes, *more, *unsized), said=read.said
    )


def canonical_name(column: str) -> str:
    """Return the canonical name of a column by its own, which an unknown column keeps."""
    return known if (known := meaning(column)) in ALIASES else column


def unknown(column: str) -> tuple[str, ...]:
    """Return a column as one that keeps its name in a reader; empty if it gets its canonical name."""
    return () if canonical_name(column) != column or column in ALIASES else (column,)


def as_named(column: str, columns: Collection[str], rename: Mapping[str, str]) -> dict[str, str]:
    """Return how columns are renamed, with a loss that the caller names before others of its meaning.

    >>> as_named("lm_loss", ["step", "train_loss", "lm_loss"], {})
    {'lm_loss': 'loss'}
    """
    known = canonical_name(column)
    if column not in columns or column in rename or known in (column, *rename.values()):
        return dict(rename)
    return {**rename, column: known}


def _features(
    table: pd.DataFrame, metrics: pd.DataFrame, column: str, copies: Copies | None
) -> tuple[pd.DataFrame | None, list[str]]:
    """Return run, step and the features of a table, None without any, and notes on the other columns."""
    notes = []
    others = [str(c) for c in table if c not in {*metrics.columns, "parameters", *DESCRIBES}]
    features = [c for c in others if pd.api.types.is_numeric_dtype(table[c])]
    features = changing(table, features)
    if left := [c for c in others if c not in features]:
        notes.append(f"left out, text or the same at every step: {', '.join(left)}")
    losses = [c for c in dict.fromkeys((column, "loss", "heldout_loss")) if c in table]
    finite = table.replace([np.inf, -np.inf], np.nan)
    same = copies(finite, losses, features) if copies and features else {}
    if same:
        notes.append("left out: " + ", ".join(f"{one} ({why})" for one, why in same.items()))
        features = [c for c in features if c not in same]
    if not features:
        return None, notes
    notes.append(f"taken as features: {', '.join(features)}")
    wide = table[["run", "step", *features]].dropna(subset=["step"]).dropna(subset=features, how="all")
    return wide.drop_duplicates(["run", "step"], keep="last"), notes


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


def _with_plans(runs: pd.DataFrame, planned: Mapping[str, int]) -> pd.DataFrame:
    """Return the runs, with their plans as their configuration."""
    if not planned:
        return runs
    facts = [{PLANNED: planned[run]} if run in planned else {} for run in runs["run"]]
    return runs.assign(config=pd.Series(facts, runs.index, dtype=object))


def _with_sizes(runs: pd.DataFrame, stated: Mapping[str, int]) -> pd.DataFrame:
    """Add the size that a log states for a run, if no column has it."""
    sizes = [size or stated.get(run, 0) for run, size in zip(runs["run"], runs["parameters"], strict=True)]
    return runs.assign(parameters=sizes)


def _kinds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the description of each run by its first row: the columns `DESCRIBES` of the table."""
    known = [name for name in DESCRIBES if name in table]
    return table.groupby("run", sort=False)[known].first()


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
    known = sizes.dropna()
    runs = table["run"].astype(str) if "run" in table else pd.Series("", table.index)
    whole = len(known) > 0 and bool(((known >= 1) & (known % 1 == 0)).all())
    return whole and bool((sizes.groupby(runs).nunique() <= 1).all())


def _refuse_missing(table: pd.DataFrame, column: str, read: Log) -> None:
    """Raise InputError if a table has no step or no loss; it names the columns and the nearest."""
    written = [read.taken.get(str(c), str(c)) for c in table]
    for needed in ("step", column):
        if needed in table:
            continue
        # a column with another known meaning is not a candidate
        free = [own for own, c in zip(written, table, strict=True) if str(c) not in ALIASES]
        among = free if needed in ALIASES else written
        near = next(
            filter(None, (did_you_mean(word, among) for word in (needed, *ALIASES.get(needed, ())))), ""
        )
        other = renaming("COLUMN", needed)
        remedy = other if needed == "step" else f"{option('column', 'COLUMN')}, or {other}"
        raise InputError(
            f"{read.path}: no column {needed!r} among {', '.join(written[:12])}; say which one it is: "
            f"{remedy}{near}"
        )


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


def _runs(table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Return run and parameters (0 if unknown), and a note on impossible sizes."""
    if "parameters" not in table:
        return pd.DataFrame({"run": table["run"].unique(), "parameters": 0}), []
    sizes = pd.to_numeric(table["parameters"], errors="coerce")
    impossible = table.loc[(sizes <= 0) | np.isinf(sizes), "run"].unique()
    sizes = sizes.where((sizes > 0) & np.isfinite(sizes))
    for run, own in sizes.groupby(table["run"], sort=False):
        if own.nunique() > 1:
            raise InputError(
                f"{name}: run {run} has parameters {own.min():g} and {own.max():g}; give one size"
            )
    first = sizes.groupby(table["run"], sort=False).first()
    notes = [f"size unknown, parameters not above 0: {', '.join(impossible[:12])}"] if len(impossible) else []
    return pd.DataFrame(
        {"run": first.index, "parameters": np.nan_to_num(first.to_numpy()).astype(int)}
    ), notes
