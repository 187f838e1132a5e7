"""One run of a log."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
import pandas as pd

_IS_NAN = " is nan"
SENT = "toposcope/"
"""How the names begin of what a watch or a check has sent to a tracker."""
_TOGETHER = 1 << 18
"""So many rows are hashed together: the hashes of a long log need as much memory as its steps."""


def nan_column(column: Hashable) -> str:
    """Return the name of the column that says where `column` was written as NaN.

    >>> nan_column("loss")
    'loss is nan'
    """
    return f"{column}{_IS_NAN}"


def is_nan_column(name: object) -> bool:
    """Return whether a column says where another one was written as NaN."""
    return str(name).endswith(_IS_NAN)


def written_nan(rows: pd.DataFrame, column: Hashable) -> np.ndarray:
    """Return in which rows a column was written as NaN, bool of shape (n,); an absent number was not.

    >>> written_nan(pd.DataFrame({"loss": [2.0, np.nan], "loss is nan": [False, True]}), "loss").tolist()
    [False, True]
    >>> written_nan(pd.DataFrame({"loss": [2.0, np.nan]}), "loss").tolist()
    [False, False]
    """
    if nan_column(column) not in rows:
        return np.zeros(len(rows), bool)
    return rows[nan_column(column)].eq(1).to_numpy(bool)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a log: its name, its rows by step, and what is stated about it.

    A dialect yields it with the trainer's own columns, and with `name` "" where the log has none;
    `read_log` returns it under canonical names. `table` has a row for each logged step and every logged
    column. `planned_steps` and `parameters` (0: unknown) are what the log states. `config` has the facts that
    the log and the trainer's files beside it state: the plan, the recipe, the corpus and so on. `features`
    (step and a column each) are what forecasts may read beside the loss, `topology` those of them that are
    declared as topology. `notes` say what was split, replaced or left out. `roles` says which columns a
    dialect knows to be the step or a loss (meaning -> column); others are known by their names.

    **Absent is not NaN.** In `table`, NaN stands for both a number that a row does not log (an absent key,
    null, an empty cell) and one that was written as NaN. Where a column X was written as NaN anywhere, the
    boolean column `X is nan` (`nan_column`) is True in exactly these rows (`written_nan`). A log that was
    `described` always has this column for its losses and its gradient norm, where it is True for infinite
    ones, too; its absence there means a store, which cannot tell. Records at the end without a loss, in a log
    whose other records have one, are left out if they log neither a learning rate nor a gradient norm.

    **Restarts.** `replaced` has the rows that later rows of the same steps replaced, with the columns of
    `table`, in their order in the log; None if there are none. `restarts` has the steps of the first records
    after the log says that the training was resumed: a line says so, or a table begins with its header again.
    `error` is the error with which a text ends, if no training follows it.

    >>> run = Run("small", pd.DataFrame({"step": [10, 20], "loss": [3.2, 2.9]}), planned_steps=100)
    >>> float(run.table["loss"].iloc[-1]), run.planned_steps, run.parameters
    (2.9, 100, 0)
    """

    name: str
    table: pd.DataFrame
    planned_steps: int | None = None
    parameters: int = 0
    notes: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    features: pd.DataFrame | None = field(default=None, repr=False)
    topology: tuple[str, ...] = ()
    replaced: pd.DataFrame | None = field(default=None, repr=False, compare=False)
    restarts: tuple[float, ...] = ()
    error: str = ""
    roles: Mapping[str, str] = field(default_factory=dict, repr=False)


def without_sent(runs: Sequence[Run]) -> Sequence[Run]:
    """Return the runs of a tracker without what toposcope has sent there, and without runs of that alone.

    >>> sent = pd.DataFrame({"step": [9], "_runtime": [1.0], "toposcope/level": [0.0]})
    >>> own = pd.DataFrame({"step": [9], "loss": [2.0], "toposcope/level": [0.0]})
    >>> [list(run.table) for run in without_sent([Run("a", sent), Run("b", own)])]
    [['step', 'loss']]
    """
    if not any(str(name).startswith(SENT) for run in runs for name in run.table):
        return runs
    kept = []
    for run in runs:
        logged = [name for name in run.table if not str(name).startswith(SENT)]
        if len(logged) == len(run.table.columns):
            kept.append(run)
        elif any(name != "step" and not str(name).startswith("_") for name in logged):
            kept.append(replace(run, table=run.table[logged]))
    return kept


def by_step(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows by ascending step; rows of one step keep their order, and rows in order are not copied."""
    return rows if rows["step"].is_monotonic_increasing else rows.sort_values("step", kind="stable")


def digest(rows: pd.DataFrame) -> bytes:
    """Return what distinguishes the values of two tables, by a hash of each row.

    >>> digest(pd.DataFrame({"loss": [2.0]})) == digest(pd.DataFrame({"loss": [2.5]}))
    False
    """
    summed = blake2b()
    for first in range(0, len(rows), _TOGETHER):
        part = rows.iloc[first : first + _TOGETHER]
        summed.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return summed.digest()


def wanted_rows(table: pd.DataFrame, wanted: np.ndarray) -> pd.DataFrame:
    """Return the rows that are `wanted`, bool of shape (n,); a table of which all are is not copied.

    >>> table = pd.DataFrame({"loss": [2.0, 1.0]})
    >>> wanted_rows(table, np.array([True, True])) is table, len(wanted_rows(table, np.array([True, False])))
    (True, 1)
    """
    return table if wanted.all() else table[wanted]


def all_different(steps: pd.Series) -> bool:
    """Return whether no step comes twice.

    Only for steps that do not ascend this needs a table of them, which is larger than the steps.

    >>> [all_different(pd.Series(steps)) for steps in ([1, 2, 5], [1, 2, 2], [2, 1])]
    [True, False, True]
    """
    if not steps.is_monotonic_increasing:
        return bool(steps.is_unique)
    values = steps.to_numpy()
    return bool((values[1:] != values[:-1]).all())
