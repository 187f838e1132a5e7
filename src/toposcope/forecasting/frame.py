"""Loss curves from a plain table: finds its columns of step, loss, learning rate and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.wording import option, renaming
from toposcope.sources.belonging import DESCRIBES
from toposcope.sources.logs.collect import PLANNED
from toposcope.sources.losses import ALIASES, SCALES, meaning, meanings, plain

if TYPE_CHECKING:
    from toposcope.sources.logs import RunLog

METRICS = ("step", "tokens", "loss", "heldout_loss", "learning_rate", "grad_norm", "weight_norm")

Copies: TypeAlias = Callable[[pd.DataFrame, Sequence[str], Sequence[str]], Mapping[str, str]]
"""Which columns of a table are functions of its targets or the step, and of which, in words."""


@dataclass(frozen=True, slots=True)
class Log:
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


def log_from_frame(
    frame: pd.DataFrame,
    *,
    name: str,
    column: str = "loss",
    named: bool = False,
    copies: Copies | None = None,
) -> Log:
    """Read a wide table with one row per logged step as losses, run properties and features.

    Columns: `step` and the loss called `column`; optionally `run` (else the whole table is the run `name`),
    `learning_rate`, `tokens`, `parameters`, `heldout_loss`, `grad_norm`, `weight_norm`.
    `sources.losses.ALIASES` has other known names, also for `column`. If no column has a known name, the only
    one that ends in "loss" is the loss, and the only one that begins with "param" is the size. Every other
    numeric column that changes within a run is a feature, unless `copies` finds that it is a function of a
    loss or the step. `named` says that the columns already have canonical names, as after reading a file.

    Raises
    ------
    InputError
        When the step or the loss cannot be found, two columns have the same meaning, or a size changes
        within a run.

    Examples
    --------
    >>> table = pd.DataFrame({"step": [0, 100], "train_loss": [4.0, 3.0], "h0": [1.0, 2.0], "seed": 1})
    >>> log = log_from_frame(table, name="a")
    >>> log.metrics["loss"].tolist(), log.wide.columns.tolist()
    ([4.0, 3.0], ['run', 'step', 'h0'])
    >>> log.notes
    ('left out, text or the same at every step: seed', 'taken as features: h0')
    """
    if not len(frame):
        raise InputError(f"{name}: the table has no rows; give one row per logged step")
    given_name, column = column, column if meaning(column) not in ALIASES else meaning(column)
    table, notes = _named(frame, name, column, given_name, named=named)
    if "run" in table and table["run"].isna().any():
        raise InputError(
            f"{name}: {int(table['run'].isna().sum()):,} rows have no run (empty, or a word such as "
            "nan); name the run"
        )
    table["run"] = table["run"].astype(str) if "run" in table else name
    planned = _planned(table)
    numeric = [c for c in METRICS if c in table] + ([column] if column not in METRICS else [])
    numeric += [str(c) for c in table if plain(c) in SCALES]
    for known in numeric:
        table[known] = pd.to_numeric(table[known], errors="coerce")
    metrics = table[["run", *dict.fromkeys(numeric)]]
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
    if features:
        notes.append(f"taken as features: {', '.join(features)}")
    wide = None
    if features:
        wide = table[["run", "step", *features]].dropna(subset=["step"]).dropna(subset=features, how="all")
        wide = wide.drop_duplicates(["run", "step"], keep="last")
    runs, unsized = _runs(table, name)
    runs = _with_plans(runs.join(_kinds(table), on="run"), planned)
    return Log(metrics, runs, wide, notes=(*notes, *unsized))


def log_of_read(read: RunLog, *, name: str, column: str = "loss", copies: Copies | None = None) -> Log:
    """Return the data of the runs in a log, with their plans and sizes; see `log_from_frame`.

    Raises
    ------
    InputError
        As in `log_from_frame`.
    """
    log = log_from_frame(read.table, name=name, column=column, named=True, copies=copies)
    called = {run.name if len(read.runs) > 1 else name: run for run in read.runs}
    log = replace(log, runs=_with_sizes(log.runs, {run: of.parameters for run, of in called.items()}))
    planned = {run: of.planned_steps for run, of in called.items() if of.planned_steps}
    return replace(log, runs=_with_plans(log.runs, planned))


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


def _named(
    frame: pd.DataFrame, name: str, column: str, given_name: str, *, named: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Return a copy under canonical names, and notes on what was renamed by similarity.

    `column` is the canonical name of the loss, `given_name` the name that the caller gave.
    """
    renamed: dict[object, str] = {}
    for found, known in ({} if named else meanings(list(frame.columns))).items():
        if twin := next((c for c, other in renamed.items() if other == known), None):
            raise InputError(f"{name}: columns {twin!r} and {found!r} both mean {known}; drop or rename one")
        renamed[found] = known
    free = {c: plain(c) for c in frame if c not in renamed}
    epochs = [c for c, known in renamed.items() if known == "step" and plain(c) == "epoch"]
    notes = [f"column {c!r} is taken as the step: there is no other" for c in epochs]
    for known, alike in (
        ("loss", [c for c, text in free.items() if text.endswith("loss")]),
        ("parameters", [c for c, text in free.items() if text.startswith("param")]),
    ):
        wanted = known not in renamed.values() and column not in [*frame, *renamed.values()]
        if len(alike) == 1 and (wanted or (known == "parameters" and known not in renamed.values())):
            renamed[alike[0]] = known
            notes.append(f"column {alike[0]!r} is taken as {known}")
    table = frame.rename(columns=renamed)
    for needed in ("step", column):
        if needed not in table:
            listed = ", ".join(str(c) for c in frame.columns[:12])
            other = renaming("COLUMN", needed)
            remedy = other if needed == "step" else f"{option('column', 'COLUMN')}, or {other}"
            words = [needed if needed == "step" else given_name, *ALIASES.get(needed, ())]
            others = [
                str(c) for c in free if str(c) not in ALIASES
            ]  # a column with another known meaning is not a candidate
            among = others if needed in ALIASES else [str(c) for c in frame.columns]
            near = next(filter(None, (did_you_mean(word, among) for word in words)), "")
            raise InputError(
                f"{name}: no column {needed!r} among {listed}; say which one it is: {remedy}{near}"
            )
    return table, notes


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
