"""What a trend table and a series say, counted: verdicts, first and last values, half-way steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.analysis.catalogue import is_baseline, leading
from toposcope.analysis.table import SeriesTable

ADDS, NOTHING = "adds", "trend only"
"""The verdicts of a test that could be made; a third one, "cannot tell", is left out of all counts."""

TESTED = (ADDS, NOTHING)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How often a feature was found to add something, over features x runs with a usable test."""

    tested: int
    found: int
    untested: int
    features_found: tuple[str, ...]
    baselines_tested: int
    baselines_found: int
    detectable: float
    """Median half-width of the intervals: roughly the smallest correlation that would have been seen."""


def verdict_counts(trends: pd.DataFrame, target: str, catalogue: pd.DataFrame) -> Verdicts:
    """Count the verdicts of the leading topological features with `target` in a trend table."""
    rows = trends[trends["target"] == target]
    rows = rows[rows["column"].isin(leading(rows["column"], catalogue))]
    baseline = pd.Series(
        [is_baseline(column, catalogue) for column in rows["column"]], rows.index, dtype=bool
    )
    topology, other = rows[~baseline], rows[baseline]
    tested = topology[topology["verdict"].isin(TESTED)]
    found = tested[tested["verdict"] == ADDS]
    half = np.nan
    if {"innovation_low", "innovation_high"} <= set(tested.columns) and len(tested):
        half = float((tested["innovation_high"] - tested["innovation_low"]).median() / 2)
    return Verdicts(
        tested=len(tested),
        found=len(found),
        untested=len(topology) - len(tested),
        features_found=tuple(dict.fromkeys(found["column"])),
        baselines_tested=int(other["verdict"].isin(TESTED).sum()),
        baselines_found=int((other["verdict"] == ADDS).sum()),
        detectable=half,
    )


def first_last(series: SeriesTable, column: str) -> pd.DataFrame:
    """Return run, first_step, first, last_step, last of every run with at least two values of `column`."""
    rows = []
    for run in series.run_names:
        mine = series.of_run(run)
        known = mine[["step", column]].dropna() if column in mine else mine.iloc[:0]
        if len(known) >= 2:
            a, b = known.iloc[0], known.iloc[-1]
            rows.append((run, int(a["step"]), float(a[column]), int(b["step"]), float(b[column])))
    return pd.DataFrame(rows, columns=["run", "first_step", "first", "last_step", "last"])


def half_steps(series: SeriesTable, column: str) -> pd.Series:
    """Return for each run the first step by which half of the way from first to last value was done."""
    out = {}
    for run in series.run_names:
        mine = series.of_run(run)
        if column not in mine:
            continue
        known = mine[["step", column]].dropna()
        if len(known) < 3 or known[column].iloc[0] == known[column].iloc[-1]:
            continue
        way = (known[column] - known[column].iloc[0]) / (known[column].iloc[-1] - known[column].iloc[0])
        out[run] = int(known["step"][way >= 0.5].iloc[0])
    return pd.Series(out, dtype=float)
