"""Records of a log as a table, and where one run ends and the next begins."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
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
TRAINING = "training_number"
"""The name of the number of the training that a record belongs to, where the dialect knows it."""
PARAMETERS = "model_parameters"
"""The name of the number of parameters in a record."""
MOST_COLUMNS = 4096
"""The largest number of names in a log: text with different names in every line is not a log."""
BEGINS_AGAIN = 0.1
"""If the step falls below this share of the last one, a new run begins; above it, a run resumes from a
checkpoint. A chosen value: restarts use one of the latest checkpoints, new runs begin at step 0 or the first
logged step. Of the 34 later parts of public text logs in parameter-golf's curves, none begins above it."""


class Columns:
    """Numbers by name, added record by record and kept as plain arrays."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._rows: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}
        self._count = 0

    def add(self, record: Record) -> None:
        """Add a record as a row."""
        for name, value in record.items():
            if name not in self._rows:
                if len(self._rows) == MOST_COLUMNS:
                    raise SourceError(
                        f"{self._label}: has more than {MOST_COLUMNS:,} names of numbers; check that it is a "
                        "log"
                    )
                self._rows[name], self._values[name] = array("q"), array("d")
            self._rows[name].append(self._count)
            self._values[name].append(value)
        self._count += 1

    def table(self) -> pd.DataFrame:
        """Return the records as rows; missing numbers are NaN.

        Where a name was written as NaN, the column `nan_column(name)` has 1, and NaN elsewhere.
        """
        columns = {}
        for name, rows in self._rows.items():
            columns[name] = np.full(self._count, np.nan)
            at, values = np.frombuffer(rows, np.int64), np.frombuffer(self._values[name], np.float64)
            columns[name][at] = values
            if (lost := np.isnan(values)).any():
                columns[nan_column(name)] = np.full(self._count, np.nan)
                columns[nan_column(name)][at[lost]] = 1.0
        return pd.DataFrame(columns, index=range(self._count))


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
    part = np.zeros(len(step), np.int64)
    falls = np.flatnonzero(np.diff(step) < 0) + 1
    begin = now = 0
    for at in falls.tolist():
        done = step[begin:at]
        if (step[at] <= done[0] or step[at] < BEGINS_AGAIN * done.max()) and done.max() > done.min():
            now, begin = now + 1, at
            part[at:] = now
    return part


def replaced(step: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return which rows of a run a restart from an earlier checkpoint has replaced, (rows,) of bool.

    `trained` says which rows log training: an evaluation that is logged late is not a restart.

    >>> replaced(np.array([1, 2, 3, 2, 3.0]), np.ones(5, bool)).tolist()
    [False, True, True, False, False]
    """
    gone = np.zeros(len(step), bool)
    at = np.flatnonzero(trained)
    for k in np.flatnonzero(np.diff(step[at]) < 0) + 1:
        gone[: at[k]] |= step[: at[k]] >= step[at[k]]
    return gone
