"""Marks on curves: changepoints with their intervals, faults of a log, and alarms of a watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from toposcope.core.drawing.style import INK, OKABE_ITO

ALARM = OKABE_ITO[1]


def bends_of(segments: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return where the segments of a column begin, the first of each run left out.

    Columns run, start_step, start_low, start_high.
    """
    names = ["run", "start_step", "start_low", "start_high"]
    if segments.empty:
        return pd.DataFrame(columns=names)
    mine = segments[(segments["column"] == column) & (segments["segment"].astype(float) > 0)]
    return mine.loc[np.isfinite(mine["start_step"].astype(float)), names].astype(
        dict.fromkeys(names[1:], float)
    )


def mark_bends(ax: Axes, line: pd.DataFrame, bends: pd.DataFrame, runs: Sequence[str], colour: str) -> None:
    """Mark the changepoints of some runs on their line (columns step, mean)."""
    mine = bends[bends["run"].isin(list(runs))]
    for bend in mine.to_dict("records"):
        at, low, high = (float(bend[name]) for name in ("start_step", "start_low", "start_high"))
        y = float(np.interp(at, line["step"], line["mean"]))
        if np.isfinite(low) and np.isfinite(high) and high > low:
            ax.plot([low, high], [y, y], color=INK, linewidth=0.9, solid_capstyle="butt", zorder=3)
        ax.plot(
            [at], [y], marker="v", markersize=5, color=colour, markeredgecolor=INK,
            markeredgewidth=0.7, zorder=4, gid=f"changepoint {bend['run']}",
        )  # fmt: skip


Marks = Mapping[str, Sequence[tuple[str, float]]]
"""For each run, what is marked on its curves and at which step: symptoms of its log, alarms of a watch."""


def mark_symptoms(ax: Axes, symptoms: Marks, *, named: bool = True) -> None:
    """Mark each fault of a log and each alarm with a line and its name."""
    marked = sorted(
        (step, kind, run) for run, symptoms_of_run in symptoms.items() for kind, step in symptoms_of_run
    )
    for place, (step, kind, run) in enumerate(marked):
        ax.axvline(step, color=ALARM, linewidth=0.9, linestyle=(0, (3, 2)), gid=f"alarm {run}")
        if not named:
            continue
        several = f" ({run})" if len(symptoms) > 1 else ""
        ax.annotate(
            f"{kind}{several}", (step, 0.97 - 0.08 * (place % 5)), xycoords=("data", "axes fraction"),
            xytext=(-3, 0), textcoords="offset points", ha="right", va="top", fontsize=7, color=ALARM,
            bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.6},
        )  # fmt: skip
