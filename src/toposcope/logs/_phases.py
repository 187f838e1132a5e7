"""Runs in one log that minimise different losses, one after the other: `MSE Loss`, then `MAE Loss`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.logs.dialects.phrases import phrase
from toposcope.logs.records import parts


def in_phases(table: pd.DataFrame, names: Sequence[str], step: np.ndarray) -> np.ndarray | None:
    """Return the losses of several names as one column, if each name is the loss of runs of its own.

    That is so if no record has two of them, and a new run, where the step begins again, begins with each.
    None where it is not so.

    >>> rows = pd.DataFrame({"mse loss": [3, 2, np.nan, np.nan], "mae loss": [np.nan, np.nan, 5, 4]})
    >>> in_phases(rows, list(rows), np.array([1, 2, 1, 2.0])).tolist()
    [3.0, 2.0, 5.0, 4.0]
    >>> in_phases(rows, list(rows), np.array([1, 2, 3, 4.0])) is None
    True
    """
    if len(names) < 2 or any(phrase(str(name)).held_out for name in names):
        return None
    logged = table[list(names)].notna().to_numpy()
    rows = np.flatnonzero(logged.any(axis=1))
    if (logged.sum(axis=1) > 1).any() or not np.isfinite(step[rows]).all():
        return None
    run, name = parts(step[rows]), logged[rows].argmax(axis=1)
    changes = np.flatnonzero(np.diff(name)) + 1
    if len(changes) != len(names) - 1 or (np.diff(run)[changes - 1] == 0).any():
        return None
    return table[list(names)].bfill(axis=1).iloc[:, 0].to_numpy(float)
