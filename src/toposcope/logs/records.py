"""Records of a log as a table, and where one run ends and the next begins."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Real

import numpy as np
import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.logs.run import nan_column

Record = Mapping[str, float]
"""What one line of a log says: printed names and numbers."""

PLANNED = "planned_steps"
"""The name of the planned steps in a record."""
IN_EPOCHS = "checkpoints_in_epochs"
"""The name of the fact that the checkpoints of a run are counted in epochs, and its log in steps."""
TRAINING = "training_number"
"""The name of the number of the training that a record belongs to, where the dialect knows it."""
PARAMETERS = "model_parameters"
"""The name of the number of parameters in a record."""
RESTARTED = "restarted_here"
"""The name of the mark of a record that is the first after the log says that the training was resumed."""
PLACED, OF, HEADING = "\0", " of", "\0above "
"""Marks of columns: a place that a line names, how many there are of it, and one that a line above names."""
HELD = "\0held out"
"""Marks a record that has held-out losses alone."""
NOT_A_NUMBER = "\0not a number"
"""Marks a record whose training loss was written as NaN, which is no absent one."""
ROUNDED = PLACED + "rounded"
"""The column of what a step is rounded to: 1,000 for `12K`."""
LEADING = "leading"
"""The kind of a number at the begin of a line, which is the step where no other number is."""
FEW_COLUMNS = 50
"""The most columns of a table that are kept one by one; with 100, pandas warns that it becomes slow."""
_TOGETHER = 1 << 16
"""So many records become columns together: of a usual log, 4 MB."""
MOST_COLUMNS = 4096
"""The largest number of names in a log: text with different names in every line is not a log."""
BEGINS_AGAIN = 0.1
"""If the step falls below this share of the last one, a new run begins; above it, a run resumes from a
checkpoint. A chosen value: restarts use one of the latest checkpoints, new runs begin at step 0 or the first
logged step. Of the 34 later parts of public text logs in parameter-golf's curves, none begins above it."""


class Columns:
    """Numbers by name, added record by record.

    Records have few layouts (which names, in which order): a record is the number of its layout and its
    values, which are kept one after another. This takes a third of the time of a row number beside each
    value. Of a long log, every `_TOGETHER` records become columns, so that its numbers are in memory once.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._layouts: dict[tuple[str, ...], int] = {}
        self._rows = array("q")
        self._values = array("d")
        self._columns: dict[str, array[float]] = {}  # they grow in place, which those of numpy do not
        self._lost: dict[str, list[np.ndarray]] = {}
        self._count = 0

    def add(self, record: Record) -> None:
        """Add a record as a row."""
        names = tuple(record)
        layout = self._layouts.get(names)
        if layout is None:
            layout = self._new_layout(names)
        self._rows.append(layout)
        self._values.extend(record.values())
        if len(self._rows) == _TOGETHER:
            self._settle()

    def _new_layout(self, names: tuple[str, ...]) -> int:
        for name in names:
            if name not in self._columns:
                self._columns[name] = array("d", [math.nan]) * self._count
        if len(self._columns) > MOST_COLUMNS:
            raise SourceError(
                f"{self._label}: has more than {MOST_COLUMNS:,} names of numbers; check that it is a log"
            )
        return self._layouts.setdefault(names, len(self._layouts))

    def _settle(self) -> None:
        """Append the records since the last call to the columns."""
        missing = np.full(len(self._rows), np.nan).tobytes()
        for column in self._columns.values():
            column.frombytes(missing)
        for names, rows, values in self._by_layout():
            for place, name in enumerate(names):
                np.frombuffer(self._columns[name])[self._count :][rows] = values[:, place]
            for place in np.flatnonzero(np.isnan(values).any(axis=0)).tolist():
                lost = rows[np.isnan(values[:, place])] + self._count
                self._lost.setdefault(names[place], []).append(lost)
        self._count += len(self._rows)
        self._rows, self._values = array("q"), array("d")

    def table(self) -> pd.DataFrame:
        """Return the records as rows; missing numbers are NaN.

        Where a name was written as NaN, the column `nan_column(name)` has 1, and NaN elsewhere.
        """
        self._settle()
        table = {}
        for name, column in self._columns.items():
            table[name] = np.frombuffer(column)
            if name in self._lost:
                table[nan_column(name)] = np.full(self._count, np.nan)
                table[nan_column(name)][np.concatenate(self._lost[name])] = 1.0
        # together, the columns are in memory twice
        return pd.DataFrame(table, index=range(self._count), copy=len(table) > FEW_COLUMNS)

    def _by_layout(self) -> Iterator[tuple[tuple[str, ...], np.ndarray, np.ndarray]]:
        """Yield the names of each layout, the new records of it, (k,), and their values, (k, names)."""
        layouts, values = np.frombuffer(self._rows, np.int64), np.frombuffer(self._values)
        lengths = np.array([len(names) for names in self._layouts], np.int64)
        begins = np.cumsum(lengths[layouts]) - lengths[layouts]
        order = np.argsort(layouts, kind="stable")
        ends = np.cumsum(np.bincount(layouts, minlength=len(lengths))).tolist()
        for names, start, end in zip(self._layouts, [0, *ends], ends, strict=False):
            if end > start:
                rows = order[start:end]
                yield names, rows, values[begins[rows][:, None] + np.arange(len(names))]


def collected(records: Iterable[Record], label: str) -> pd.DataFrame:
    """Return records as a table, one row each, in their order.

    >>> collected([{"step": 1.0, "loss": 3.0}, {"step": 1.0, "val": 4.0}], "log").shape
    (2, 3)
    """
    columns = Columns(label)
    for record in records:
        columns.add(record)
    return columns.table()


def number(text: object) -> float:
    """Return a text, a JSON value or the value of a table's cell as a number; NaN if it is not one.

    >>> number("1,024"), number("3.5e-4"), number("nan"), number(True), number(10**400)
    (1024.0, 0.00035, nan, nan, inf)
    >>> number(np.float32(2.5)), number(Decimal("2.5")), number(np.array(2.5)), number(np.bool_(True))
    (2.5, 2.5, 2.5, nan)
    """
    if type(text) is str:  # most of a text's numbers: without the checks below, a fifth of its reading time
        try:
            return float(text.replace(",", "") if "," in text else text)
        except ValueError:
            return math.nan
    if isinstance(text, str):
        text = text.strip().replace(",", "")
        if not text.isascii():  # `float` reads the digits of every script
            return math.nan
    elif getattr(text, "ndim", None) == 0 and hasattr(text, "item"):  # numpy's scalars, tensors of losses
        text = text.item()
    if isinstance(text, bool) or not isinstance(text, str | Real | Decimal):
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf if text > 0 else -math.inf  # type: ignore[operator]


def parts(step: np.ndarray) -> np.ndarray:
    """Return the run number (0, 1, ...) of each row, from the steps (rows,) of the log.

    A run begins if the step falls to the first step of the previous run, or below a tenth of its last.

    >>> parts(np.array([0, 10, 20, 0, 10, 900, 800, 810.0])).tolist()
    [0, 0, 0, 1, 1, 1, 1, 1]
    """
    begins = np.zeros(len(step), np.int64)
    first = last = 0  # where the run began, and where the steps fell last; they ascend between two falls
    low, top = np.inf, -np.inf
    for at in (np.flatnonzero(np.diff(step) < 0) + 1).tolist():
        low, top = min(low, step[last]), max(top, step[at - 1])
        last = at
        if (step[at] <= step[first] or step[at] < BEGINS_AGAIN * top) and top > low:
            begins[at] = 1
            first, low, top = at, np.inf, -np.inf
    return np.cumsum(begins)


def replaced(step: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return which rows of a run a restart from an earlier checkpoint has replaced, (rows,) of bool.

    `trained` says which rows log training: an evaluation that is logged late is not a restart.

    >>> replaced(np.array([1, 2, 3, 2, 3.0]), np.ones(5, bool)).tolist()
    [False, True, True, False, False]
    """
    at = np.flatnonzero(trained)
    falls = at[np.flatnonzero(np.diff(step[at]) < 0) + 1]
    again = np.full(len(step) + 1, np.inf)
    again[falls] = step[falls]
    gone: np.ndarray = step >= np.minimum.accumulate(again[::-1])[::-1][1:]  # the lowest step of a later fall
    return gone
