"""What the tables say of neural persistence and its null, counted, for the words and captions."""

from __future__ import annotations

from toposcope.figures.series import curve, null_band, select, sizes
from toposcope.report.weights.study import Study
from toposcope.types import Scope


def above_null(study: Study) -> tuple[int, int, int]:
    """Return in how many sizes the last neural persistence is above, below its null band, and of how many."""
    of_model = {"probe": "neural_persistence", "filtration": study.filtration, "scope": Scope.MODEL}
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
