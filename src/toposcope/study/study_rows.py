"""The rows that a study starts from: those of a store, or of a log with its further columns as features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from toposcope.logs import Log, log_of_table, with_index
from toposcope.logs.described import as_named, canonical_name, described, metric_columns, unknown
from toposcope.logs.facts import DESCRIBES
from toposcope.logs.features import Copies, features_of


@dataclass(frozen=True, slots=True)
class StudyRows:
    """The data of some runs: `metrics` and `runs` with a store's columns, and features.

    `features` and `diagrams` are a store's long rows, `catalogue` what its probes declare, `wide` a table of
    run, step and one column for each feature; None if nothing was measured. `notes` say how the columns of a
    plain table were understood. `logged` has every column of a log; None for a store, whose `metrics` are all
    that is known. `replaced` has the rows of runs that a restart replaced, by run.
    """

    metrics: pd.DataFrame
    runs: pd.DataFrame
    wide: pd.DataFrame | None = None
    features: pd.DataFrame | None = None
    diagrams: pd.DataFrame | None = None
    catalogue: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    logged: pd.DataFrame | None = None
    replaced: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def judged(self) -> pd.DataFrame:
        """The rows that a run is judged by: every column of a log, as `check` reads it."""
        return self.metrics if self.logged is None else self.logged


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
    chosen = as_named(column, [str(name) for name in frame], rename or {})
    read = log_of_table(frame, label, rename=chosen, keep=unknown(column))
    return log_of_read(read, name="run", column=column, copies=copies)


def log_of_read(
    read: Log, *, name: str, column: str = "loss", copies: Copies | None = None, held_out: bool = False
) -> StudyRows:
    """Return the rows of the runs in a log, with their plans and sizes: see `logs.described.described`.

    Every numeric column without a known meaning that changes within a run is a feature, unless `copies`
    finds that it is a function of a loss or the step.

    Raises
    ------
    InputError
        When the step or the loss cannot be found, or a size changes within a run.
    """
    return rows_of_log(described(read, name=name, column=column, held_out=held_out), column, copies)


def rows_of_log(log: Log, column: str = "loss", copies: Copies | None = None) -> StudyRows:
    """Return the rows of a log that was described; `column` is the loss that was asked for."""
    table = pd.concat([run.table for run in log.runs], ignore_index=True)
    name = canonical_name(column)
    metrics = table[["run", *metric_columns(table, name)]]
    wide, notes = features_of(table, metrics, name, copies)
    runs = pd.DataFrame({
        "run": [run.name for run in log.runs], "parameters": [run.parameters for run in log.runs],
    })  # fmt: skip
    for kind in (
        description for description in DESCRIBES if any(description in run.config for run in log.runs)
    ):
        runs[kind] = pd.Series([run.config.get(kind) for run in log.runs], dtype=object)
    if any(run.config.keys() - {*DESCRIBES} for run in log.runs):
        facts = [{k: v for k, v in run.config.items() if k not in DESCRIBES} for run in log.runs]
        runs["config"] = pd.Series(facts, runs.index, dtype=object)
    replaced = {run.name: run.replaced for run in log.runs if run.replaced is not None}
    return StudyRows(metrics, runs, wide, notes=(*log.assumed, *notes), logged=table, replaced=replaced)
