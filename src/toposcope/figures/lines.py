"""A feature against the step: one line with its interval for each size, named at its right end."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from toposcope.analysis.lines import curve, null_band
from toposcope.figures.marks import mark_bends
from toposcope.figures.series import DrawnSize
from toposcope.figures.style import NULL, end_labels, log_axis, step_axis


def draw_sizes(
    ax: Axes,
    rows: pd.DataFrame,
    groups: list[DrawnSize],
    *,
    unit: str,
    marker: str = "",
    log: bool = False,
    bottom: float | None = None,
    bends: pd.DataFrame | None = None,
) -> None:
    """Draw the curve of every size that `rows` has, on a step axis; `unit` names the values.

    `bends` are changepoints of its runs, which are marked on the curves; `bottom` is where the axis begins.
    """
    labels = []
    for group in groups:
        line = curve(rows, group.runs)
        if line.empty:
            continue
        ax.fill_between(line["step"], line["low"], line["high"], color=group.colour, alpha=0.25, linewidth=0)
        ax.plot(line["step"], line["mean"], color=group.colour, marker=marker, markersize=2.5)
        if bends is not None:
            mark_bends(ax, line, bends, group.runs, group.colour)
        labels.append((float(line["mean"].iloc[-1]), group.label, group.colour))
    if log:
        log_axis(ax.yaxis)
    step_axis(ax, rows["step"].unique())
    ax.set_ylabel(unit)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    end_labels(ax, labels)


def draw_null(ax: Axes, rows: pd.DataFrame, groups: list[DrawnSize], *, positive: bool = False) -> None:
    """Draw the band of a null and its mean for every size, in grey; `positive` keeps it above 0."""
    for group in groups if len(rows) else ():
        band = null_band(rows, group.runs)
        low = np.maximum(band["low"], band["mean"] * 0.01) if positive else band["low"]
        ax.fill_between(band["step"], low, band["high"], color=NULL, alpha=0.25, linewidth=0)
        ax.plot(band["step"], band["mean"], color=NULL, linewidth=0.8, linestyle="--")
