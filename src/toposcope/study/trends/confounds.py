"""Partial correlations of features with a target, given a control that needs no topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from toposcope.statistics import correlations as stat
from toposcope.statistics.trends.resampling import WALK, null_correlations
from toposcope.study.table import SeriesTable

LEAST_POINTS = 6
"""Checkpoints of a partial correlation."""


def confound_table(
    table: SeriesTable, target: str, columns: Sequence[str], controls: Mapping[str, str]
) -> pd.DataFrame:
    """Return the partial Spearman correlation of every feature with `target`, given each control alone.

    Parameters
    ----------
    table
        Features and targets.
    target, columns
        What is correlated: a target and features of the table.
    controls
        Name -> column of a control, such as {"top": ".../top_eigenvalue"}.

    Returns
    -------
    pandas.DataFrame
        One row per run and feature: `run`, `column`, and `given_NAME` for each control. NaN for the control
        itself, where the control explains a series completely, and below six common checkpoints. Its
        p-value is not given: like that of any partial correlation it is not calibrated under drift.

    Examples
    --------
    >>> from toposcope.study.table import from_frame
    >>> noise = np.random.default_rng(0).standard_normal((2, 40))
    >>> frame = pd.DataFrame({"step": range(40), "top": noise[0], "count": noise[0] + 0.1 * noise[1]})
    >>> table = from_frame(frame.assign(loss=noise[0]), features=["top", "count"])
    >>> confound_table(table, "loss", ["count"], {"top": "top"})["given_top"].isna().tolist()
    [True]
    """
    rows = []
    for run in table.run_names:
        frame = table.of_run(run)
        for column in columns:
            given = {
                f"given_{name}": _partial(frame, target, column, control)
                for name, control in controls.items()
            }
            rows.append({"run": run, "column": column, **given})
    names = ["run", "column", *(f"given_{name}" for name in controls)]
    return pd.DataFrame(rows, columns=names)


def _partial(frame: pd.DataFrame, target: str, column: str, control: str) -> float:
    if control not in frame or column == control:
        return float("nan")
    complete = frame[[target, column, control]].dropna()
    if len(complete) < LEAST_POINTS:
        return float("nan")
    y, x, z = (stat.ranks(complete[[name]].to_numpy(float)) for name in (target, column, control))
    return float(stat.partial_correlation(x, y, z)[0][0])


def walk_bound(n: int, *, level: float = 0.95, draws: int = 10_000) -> float:
    """Return the |rho| that only 1 - `level` of the pairs of independent random walks of length n exceed.

    >>> 0.8 < walk_bound(14) < 0.9
    True
    """
    if n < LEAST_POINTS:
        return float("nan")
    return float(np.quantile(null_correlations(n, draws, WALK, WALK), level))
