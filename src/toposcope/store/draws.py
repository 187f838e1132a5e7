"""Averages over random subsamples (draws): from long rows of features to one value for each place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.core.types import COUNTED


def is_counted(rows: pd.DataFrame) -> np.ndarray:
    """Return which long rows have a value that counts: it is finite, and its status is one of `COUNTED`.

    Rows without a column `status` have no bad one.
    """
    keep = np.isfinite(rows["value"].to_numpy(dtype=np.float64))
    return keep & rows["status"].isin(COUNTED).to_numpy(bool) if "status" in rows else keep


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the long rows whose value counts.

    >>> rows = pd.DataFrame({"value": [1.0, 2.0, float("nan")], "status": ["ok", "degenerate", "ok"]})
    >>> counted(rows)["value"].tolist()
    [1.0]
    """
    return rows[is_counted(rows)]


def over_draws(rows: pd.DataFrame, by: Sequence[str] = ("run", "step")) -> pd.DataFrame:
    """Return the mean over the draws of each place; the only average over draws that there is.

    Parameters
    ----------
    rows
        Long rows with the columns of a store's features: `value`, and where they have them `status` and
        `draw`. Only those that count are used (`counted`). Rows without the number of a draw are one draw.
    by
        The columns that make a place.

    Returns
    -------
    pandas.DataFrame
        One row for each place with a value, in the order of the rows: the columns `by`, `value` (the mean),
        `sd` (the sample standard deviation; NaN for one row), `least` (the smallest value) and `n`, the
        number of draws that gave a value. `core.lines.half_width` makes intervals of `sd` and `n`.

    Examples
    --------
    >>> rows = pd.DataFrame({"run": "a", "step": 0, "draw": [0, 1, 2], "value": [1.0, 3.0, 9.0],
    ...     "status": ["subsampled", "subsampled", "failed"]})
    >>> over_draws(rows)[["value", "n"]].to_numpy().tolist()
    [[2.0, 2.0]]
    """
    rows = counted(rows)
    grouped = rows.groupby(list(by), sort=False, dropna=False, observed=True)
    summary = grouped["value"].agg(["mean", "std", "min", "count"])
    summary.columns = pd.Index(["value", "sd", "least", "n"])
    if "draw" not in rows:
        summary["n"] = np.minimum(summary["n"], 1)
    elif (summary["n"] > 1).any():
        summary["n"] = grouped["draw"].nunique(dropna=False)
    return summary.reset_index()
