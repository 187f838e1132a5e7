"""What the tables say, counted: changes, times, verdicts and paired forecasts, for the words and captions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student

from toposcope.figures.series import LEVEL, curve, null_band, select, sizes
from toposcope.report.weights.study import Study


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
