"""A feature against the step: a line for each run, named at its right end, and the mean over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from toposcope.core.drawing.marks import mark_bends
from toposcope.core.drawing.series import DrawnSize
from toposcope.core.drawing.style import NULL, end_labels, log_axis, step_axis
from toposcope.core.lines import curve, run_lines

MOST_NAMED = 10
"""The most runs named beside their lines; beyond that, sizes are named, and a line's `gid` has its run."""
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1, 1.5)))


def draw_sizes(
    ax: Axes,
    values: pd.DataFrame,
    groups: list[DrawnSize],
    *,
    unit: str,
    marker: str = "",
    log: bool = False,
    bottom: float | None = None,
    bends: pd.DataFrame | None = None,
) -> None:
    """Draw the runs of every size that `values` has, on a step axis; `unit` names the values.

    `values` has one row for each run and step, as `toposcope.store.draws.over_draws` returns them. A size
    with seeds has a line for each of them and their mean at the steps that all have.

    `bends` are changepoints of its runs, which are marked on the curves; `bottom` is where the axis begins.
    """
    labels = []
    named = runs_are_named(values, groups)
    for group in groups:
        labels += draw_group(ax, values, group, marker=marker, bends=bends, named=named)
    if log:
        log_axis(ax.yaxis)
    step_axis(ax, values["step"].unique())
    ax.set_ylabel(unit)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    end_labels(ax, labels)


def draw_group(
    ax: Axes,
    values: pd.DataFrame,
    group: DrawnSize,
    *,
    marker: str = "",
    bends: pd.DataFrame | None = None,
    named: bool = True,
    label: str = "",
) -> list[tuple[float, str, str]]:
    """Draw the runs of one size: a line for each, and their mean with its interval where there are several.

    The mean is a thick line over the steps that all runs have; the runs are thin lines, each with its
    changepoints. Returns the labels for the right end, (y, text, colour): one for each run if they are
    `named`, else one for the size. `label` is the name of the mean, or of the only run's line, in a key.
    """
    lines = run_lines(values, group.runs)
    if not lines:
        return []
    several = len(lines) > 1
    mean = curve(values, group.runs)
    ax.fill_between(mean["step"], mean["low"], mean["high"], color=group.colour, alpha=0.25, linewidth=0)
    labels = []
    for place, (run, line) in enumerate(lines.items()):
        style = (
            {"linewidth": 0.8, "alpha": 0.75, "linestyle": _DASHES[place % len(_DASHES)]}
            if several
            else {"linewidth": group.width}
        )
        ax.plot(
            line["step"], line["mean"], color=group.colour, gid=f"run {run}",
            label=run if several else label or run,
            **{"marker": marker, "markersize": 2.5, **style},
        )  # fmt: skip
        if bends is not None:
            mark_bends(ax, line, bends, (run,), group.colour)
        if named or not several:
            text = run if several else group.label
            labels.append((float(line["mean"].iloc[-1]), text, group.colour))
    if several and len(mean):
        ax.plot(
            mean["step"], mean["mean"], color=group.colour, linewidth=max(group.width, 2.0), alpha=0.9,
            gid=f"mean {group.label}", label=label or f"{group.label}, mean",
        )  # fmt: skip
    if several and not named:
        last = max(lines.values(), key=lambda line: line["step"].iloc[-1])
        labels.append((float(last["mean"].iloc[-1]), group.label, group.colour))
    return labels


def runs_are_named(rows: pd.DataFrame, groups: list[DrawnSize]) -> bool:
    """Return whether there is room to write every run's name at the end of its line."""
    return len({run for group in groups for run in group.runs} & set(rows["run"])) <= MOST_NAMED


def draw_nulls(ax: Axes, bands: Iterable[pd.DataFrame], *, positive: bool = False) -> None:
    """Draw bands of a null and their means, in grey; `positive` keeps them above 0.

    Each has the columns step, mean, low, high, as `toposcope.study.rows.null_band` returns them.
    """
    for band in bands:
        low = np.maximum(band["low"], band["mean"] * 0.01) if positive else band["low"]
        ax.fill_between(band["step"], low, band["high"], color=NULL, alpha=0.25, linewidth=0)
        ax.plot(band["step"], band["mean"], color=NULL, linewidth=0.8, linestyle="--")
