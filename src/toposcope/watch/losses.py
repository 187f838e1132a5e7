"""Copies a growing loss history into the store: earlier rows stay, new ones are added."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import EmptyLogError, InputError
from toposcope.logs import history, read_log
from toposcope.logs.plan_beside import plan_beside, with_plan
from toposcope.logs.records import PLANNED
from toposcope.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.logs import Log


class LossFile:
    """A growing loss history beside the checkpoints; its first row may come later.

    Parameters
    ----------
    path
        What `toposcope.open_series` takes as `losses`.
    rename
        Columns of the file under other names: {"their name": "loss"}.
    pattern
        A regular expression for the lines of a text log that is not recognised: see `read_log`.

    Raises
    ------
    InputError
        When the file exists and is not a loss history.
    """

    def __init__(
        self, path: Path, rename: Mapping[str, str] | None = None, pattern: str | None = None
    ) -> None:
        self.path, self._rename, self._pattern = path, dict(rename or {}), pattern
        self._mark: tuple[int, int, frozenset[int]] | None = None
        self._table: pd.DataFrame | None = None
        self._log: Log | None = None
        self._planned: dict[str, dict[str, Any]] = {}
        self._beside: dict[str, Any] = {}
        self._alone = False
        if path.exists():
            with contextlib.suppress(EmptyLogError):  # the trainer has not logged its first loss yet
                self._read()

    def joined(self, own: pd.DataFrame, run: str) -> pd.DataFrame:
        """Return a run's own history, with gaps filled from the current file."""
        with contextlib.suppress(InputError, OSError):  # its last line is being written
            self._read()
        return own if self._table is None else history.join(own, self._table, run)

    def rows(self, run: str) -> pd.DataFrame | None:
        """Return what the file logs of a run, under any names; None before there is something."""
        table = self._table
        if table is None or "run" not in table:
            return table
        return table[table["run"].astype(str) == run].drop(columns="run")

    def replaced(self, run: str) -> pd.DataFrame | None:
        """Return the rows of a run in the file that a restart replaced; None without any."""
        return history.replaced_rows(self._log, run)

    def planned(self, run: str) -> dict[str, Any]:
        """Return the plan that the file, or one beside it, states for a run.

        The only run in a file matches every name.
        """
        return next(iter(self._planned.values()), {}) if self._alone else self._planned.get(run, {})

    def _read(self) -> None:
        if not self.path.exists():
            return
        mark = last_written(self.path)
        if mark != self._mark:
            if self._mark is not None and (mark[2] != self._mark[2] or mark[0] < self._mark[0]):
                self._beside = {}  # it was replaced by another log, whose plan may differ
            read = read_log(str(self.path), rename=self._rename, pattern=self._pattern)
            self._table, self._mark, self._alone = read.table, mark, len(read.runs) == 1
            self._log = read
            beside = self._planned_beside()
            plans = {run.name: {PLANNED: run.planned_steps} if run.planned_steps else {} for run in read.runs}
            self._planned = {run: with_plan(plan, beside) for run, plan in plans.items()}

    def _planned_beside(self) -> dict[str, Any]:
        """Return the plan in the trainer's files beside the log, as `toposcope check` reads it."""
        if not self._beside:  # keep a plan once read: the checkpoint that states it may be large
            with contextlib.suppress(InputError, OSError):  # being written
                self._beside = plan_beside(self.path, alone=self._alone)
        return self._beside


def last_written(path: Path) -> tuple[int, int, frozenset[int]]:
    """Return a value that changes when a file, or one in a folder, is written or replaced.

    It is made of sizes, modification times and inodes, because a copy may keep size and time.
    """
    inside = (
        [path_inside for path_inside in path.rglob("*") if path_inside.is_file()] if path.is_dir() else [path]
    )
    stats = [os.stat(path_inside) for path_inside in inside]
    last = max((stat.st_mtime_ns for stat in stats), default=0)
    return sum(stat.st_size for stat in stats), last, frozenset(stat.st_ino for stat in stats)


class LossCopy:
    """Keeps the store's metrics of each segment up to date with the trainer's log.

    A copied row is never changed, only its empty cells are filled, so a run that rolls back keeps the history
    of the segment it left.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, tuple[object, ...]] = {}

    def copy(self, history: pd.DataFrame, segment: str, *, after: int) -> tuple[int, int] | None:
        """Add the rows of `history` with steps above `after`; return the first and last step that changed."""
        history = history[history["step"] > after]
        if history.empty:
            return None
        cells = tuple(history.count().items())  # a step's loss may come first, and its other columns later
        mark = (len(history), int(history["step"].iloc[-1]), cells)
        if self._seen.get(segment) == mark:
            return None
        self._seen[segment] = mark
        first, last = history["step"].min(), history["step"].max()
        joined, new = _filled(self._store.metrics(segment, first=first, last=last), history)
        if not new.any():
            return None
        self._store.write_metrics(joined[new].assign(run=segment), add=True)
        changed = joined["step"].to_numpy()[new]
        return int(changed[0]), int(changed[-1])


class CompanionCopy:
    """Keeps the columns beside a policy's loss in the store, for the rules that judge the run by them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, tuple[object, ...]] = {}

    def copy(self, rows: pd.DataFrame | None, segment: str, *, after: int) -> None:
        """Write the columns with a direction in the rows with steps above `after`, if something is new."""
        table = history.companions_in(None if rows is None else rows[rows["step"] > after])
        if table is None:
            return
        mark = (len(table), tuple(table.count().items()))
        if self._seen.get(segment) != mark:
            self._seen[segment] = mark
            self._store.write_companions(segment, table)


class PlanCopy:
    """Adds the plan that a log states to the store's record of a run whose own files state none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done: set[str] = set()

    def copy(self, segment: str, planned: Callable[[], Mapping[str, Any]]) -> None:
        """Fill in the plan of a segment, once its log states it and the store knows the segment."""
        plan = {} if segment in self._done else planned()
        if not plan:
            return
        from toposcope.logs.plans import recipe_steps

        record = self._store.run(segment)
        if record is None:
            return
        self._done.add(segment)
        if recipe_steps(record.config) is None:
            self._store.write_runs([replace(record, config={**record.config, **plan})])


def _filled(table: pd.DataFrame, history: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the known rows with empty cells filled from `history`, and which rows changed."""
    import pandas as pd

    steps = np.union1d(table["step"].to_numpy(), history["step"].to_numpy())
    filled, new = {"step": steps.astype(np.int64)}, ~np.isin(steps, table["step"].to_numpy())
    for name in [column for column in table.columns if column not in ("run", "step")]:
        old, more = _by_step(table, name, steps), _by_step(history, name, steps)
        came = np.isnan(old) & ~np.isnan(more)
        filled[name] = np.where(came, more, old)
        new |= came
    return pd.DataFrame(filled).astype({"tokens": "Int64"}), new


def _by_step(table: pd.DataFrame, name: str, steps: np.ndarray) -> np.ndarray:
    """Return a column at `steps`, NaN where the table has no value."""
    column = np.full(len(steps), np.nan)
    at = np.searchsorted(steps, table["step"].to_numpy())
    column[at] = table[name].to_numpy(dtype=float, na_value=np.nan)
    return column
