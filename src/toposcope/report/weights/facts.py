"""What the tables say, counted: changes, times, verdicts and paired forecasts, for the words and captions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student

from toposcope.analysis.table import SeriesTable
from toposcope.figures.names import is_baseline, leading
from toposcope.figures.series import LEVEL, curve, null_band, select, sizes
from toposcope.report.weights.study import Study

ADDS, NOTHING = "adds", "nothing beyond the trend"
"""The verdicts of a test that could be made; a third one, "untested", is left out of all counts."""

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


def verdict_counts(study: Study) -> Verdicts:
    """Count the verdicts of the leading topological features with the report's target."""
    rows = study.trends[study.trends["target"] == study.target]
    rows = rows[rows["column"].isin(leading(rows["column"]))]
    baseline = rows["column"].map(is_baseline).astype(bool) if len(rows) else pd.Series([], dtype=bool)
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


def above_null(study: Study) -> tuple[int, int, int]:
    """Return in how many sizes the last neural persistence is above, below its null band, and of how many."""
    of_model = {"probe": "neural_persistence", "filtration": study.filtration, "role": "model"}
    measured = select(study.features, "neural_persistence", **of_model)
    shuffled = select(study.features, "neural_persistence_shuffled", **of_model)
    above = below = n = 0
    for group in sizes(study.runs):
        line, null = curve(measured, group.runs), null_band(shuffled, group.runs)
        both = line.merge(null, on="step", suffixes=("", "_null")).dropna(subset=["low_null", "high_null"])
        if both.empty:
            continue
        last = both.iloc[-1]
        n += 1
        above += bool(last["mean"] > last["high_null"])
        below += bool(last["mean"] < last["low_null"])
    return above, below, n


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """The seeds' combined forecast at one fraction, paired by run with the loss-only rule and the control.

    `gain_low` and `gain_high` bound the mean gain over the control (control's error minus the combined
    one's) by Student's interval over runs; NaN with one run.
    """

    fraction: float
    runs: int
    combined: float
    loss_only: float
    control: float
    gain_low: float
    gain_high: float

    @property
    def best(self) -> bool:
        """Whether the mean error is below both the control's and the loss-only rule's."""
        return self.combined < min(self.control, self.loss_only)

    @property
    def clear(self) -> bool:
        """Whether it is the best and its gain over the control is clear of zero."""
        return self.best and self.gain_low > 0


def forecast_comparisons(forecasts: pd.DataFrame) -> list[Comparison]:
    """Return the paired comparison at every fraction where all three rules gave a number for a run."""
    if not len(forecasts):
        return []
    errors = forecasts.assign(error=forecasts["error"].abs()).pivot_table(
        index=["fraction", "run"], columns="method", values="error"
    )
    wanted = ["combined", "loss-only", "last-loss control"]
    if not set(wanted) <= set(errors.columns):
        return []
    return [
        _comparison(float(fraction), rows)  # type: ignore[arg-type]
        for fraction, rows in errors[wanted].dropna().groupby(level="fraction")
    ]


def _comparison(fraction: float, rows: pd.DataFrame) -> Comparison:
    means, n = rows.mean(), len(rows)
    gain = rows["last-loss control"] - rows["combined"]
    half = student.ppf(0.5 + LEVEL / 2, n - 1) * gain.std() / np.sqrt(n) if n > 1 else np.nan
    return Comparison(
        fraction,
        n,
        float(means["combined"]),
        float(means["loss-only"]),
        float(means["last-loss control"]),
        float(gain.mean() - half),
        float(gain.mean() + half),
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
