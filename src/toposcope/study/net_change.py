"""First and last values of every run, half-way steps, and whether a change is more than its noise.

`_RATE` is the usual level, and `_NET` a definition. tests/study/test_net_change.py measures what all give:
1.5 to 6.5% of series of pure noise have moved, and over 90% of those that move by five times the noise (over
half of those with six values). Half and double of each are judged in docs/evidence/benchmarks-limits.csv
(`python -m benchmarks.limits "net change"`): both find fewer moves for `_END`, and double of `_FEWEST`
would say of all short series of noise that they moved.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile
from toposcope.study.table import SeriesTable

_NET = 0.5
"""A half-way step is given if the two ends differ by at least this share of the curve's range."""
_FEWEST = 6
"""The fewest values from which the scatter of neighbours is estimated."""
_END = 5
"""The most values whose mean is an end; also at most one in `_END` of a run's values."""
_RATE = 0.05
"""The rate at which independent noise counts as moved."""


def first_last(series: SeriesTable, column: str) -> pd.DataFrame:
    """Return run, first_step, first, last_step, last of every run with at least two values of `column`."""
    rows = []
    for run in series.run_names:
        mine = series.of_run(run)
        measured_rows = mine[["step", column]].dropna() if column in mine else mine.iloc[:0]
        if len(measured_rows) >= 2:
            a, b = measured_rows.iloc[0], measured_rows.iloc[-1]
            rows.append((run, int(a["step"]), float(a[column]), int(b["step"]), float(b[column])))
    return pd.DataFrame(rows, columns=["run", "first_step", "first", "last_step", "last"])


def half_steps(series: SeriesTable, column: str) -> pd.Series:
    """Return for each run the first step at which half of the change from first to last value was done.

    A run whose ends differ by less than half of the range of its values is left out: it came back.
    """
    out = {}
    for run in series.run_names:
        mine = series.of_run(run)
        if column not in mine:
            continue
        measured_rows = mine[["step", column]].dropna()
        if len(measured_rows) < 3:
            continue
        first, last = measured_rows[column].iloc[0], measured_rows[column].iloc[-1]
        if abs(last - first) < _NET * np.ptp(measured_rows[column].to_numpy(float)) or first == last:
            continue
        out[run] = int(measured_rows["step"][(measured_rows[column] - first) / (last - first) >= 0.5].iloc[0])
    return pd.Series(out, dtype=float)


def draw_noise(series: SeriesTable, column: str, ends: pd.DataFrame) -> np.ndarray:
    """Return the standard error of last minus first over the draws; 0 where nothing was drawn.

    `ends` is what `first_last` returns.
    """
    if column not in series.spread:
        return np.zeros(len(ends))
    n = series.draws[column].to_numpy(float) if column in series.draws else 1.0
    squares = (series.spread.set_index(["run", "step"])[column] ** 2 / n).fillna(0.0)
    out = []
    for run, first, last in ends[["run", "first_step", "last_step"]].itertuples(index=False):
        out.append(float(np.sqrt(squares.reindex([(run, first), (run, last)], fill_value=0.0).sum())))
    return np.array(out)


def beyond_scatter(series: SeriesTable, column: str, run: str) -> bool:
    """Return whether a run's two ends are further apart than the scatter of neighbouring values explains.

    The ends are means of up to five values. The scatter is that of the changes between neighbours about
    their mean, so that a straight line has none. True for fewer than six values: they cannot tell.
    """
    finite = series.of_run(run)[column].dropna().to_numpy(float)
    n = len(finite)
    if n < _FEWEST:
        return True
    k = min(_END, max(n // _END, 1))
    sd = float(np.std(np.diff(finite), ddof=1)) / np.sqrt(2.0)
    free = 2.0 * (n - 1) / 3.0  # neighbouring changes share a value: they count for two thirds
    bound = float(student_quantile(1.0 - _RATE / 2.0, free)) * sd * np.sqrt(2.0 / k)
    return bool(abs(finite[-k:].mean() - finite[:k].mean()) > bound)
