"""Loss curves: the training minibatch's loss, and the held-out loss where it was measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_group, runs_are_named
from toposcope.core.drawing.marks import ALARM, Marks, mark_symptoms
from toposcope.core.drawing.series import DrawnSize, binned, sizes
from toposcope.core.drawing.style import INK, end_labels, house, new_figure, on_axes, say_empty, step_axis
from toposcope.core.groups import short
from toposcope.core.lines import one_value_each

_ODD_WIDTH = 2.4
"""Line width of an odd run, in points: that of the strongest line."""

EndLabel: TypeAlias = tuple[float, str, str]
"""The label at a line's right end: its place (in units of the y axis), its words and its colour."""


def draw(
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    symptoms: Marks | None = None,
    ahead: Mapping[str, np.ndarray] | None = None,
    odd: Collection[str] = (),
) -> Figure:
    """Draw the losses of all runs on one pair of axes, every curve named at its end.

    Parameters
    ----------
    metrics
        Columns run, step, loss, heldout_loss (in one unit; NaN where not measured).
    runs
        Columns run, family, parameters.
    symptoms
        The kinds and steps of faults and alarms of each run; they are marked.
    ahead
        The forecast of each unfinished run: (n, 4) of step, loss, low and high.
    odd
        Runs unlike their siblings: strong lines in a colour of their own, left out of the means.

    Returns
    -------
    Figure
        Where a held-out loss was measured it is drawn as measured, with several seeds each of them and their
        mean with its interval at the steps that all have; the training loss, averaged within log-spaced bins,
        is a pale line under it. Else the training loss is drawn with the 5% to 95% range of each bin.
        Forecasts are dashed, with their interval.
    """
    with house():
        figure, axes = new_figure(3.3)
        ax, groups = axes[0, 0], _separated(sizes(runs[~runs["run"].isin(odd)]), sizes(runs), odd)
        both = bool(np.isfinite(metrics["heldout_loss"].to_numpy(dtype=np.float64)).any())
        if both:
            for group in groups:
                _pale(ax, metrics, group)
            labels = held_out(ax, metrics, groups)
            ax.set_ylabel("held-out loss (pale: training loss)")
        else:
            labels = training(ax, metrics, groups)
        ax.set_title("")
        for group in groups:
            for run in group.runs:
                if ahead and run in ahead:
                    _cone(ax, run, ahead[run], group.colour)
        clip_spikes(ax, metrics, ("loss", "heldout_loss") if both else ("loss",))
        ends = _forecast_ends(groups, ahead or {})
        end_labels(ax, [(ends.get(text, y), text, colour) for y, text, colour in labels])
        if ahead:
            last = max(float(path[-1, 0]) for path in ahead.values())
            step_axis(ax, [*metrics["step"].unique(), last])
        if symptoms:
            mark_symptoms(ax, symptoms)
    return figure


_WASTED = 2.0
"""Spikes are clipped where they make the axis this many times as high as the other losses need."""
_USUAL = 0.98
"""The share of a run's losses that are no spikes; its first losses are high in every run."""


def clip_spikes(ax: Axes, metrics: pd.DataFrame, columns: Sequence[str]) -> None:
    """End the axis above the usual losses where a spike would waste it; label the spike with its value."""
    runs = [
        (name, rows["step"].to_numpy(float)[finite], values[finite])
        for name, rows in metrics.groupby("run", sort=False)
        for values in (rows[column].to_numpy(float) for column in columns)
        if (finite := np.isfinite(values)).any()
    ]
    if not runs:
        return
    usual = max(max(y[0], float(np.quantile(y, _USUAL, method="lower"))) for _, _, y in runs)
    low, high = float(ax.dataLim.ymin), float(ax.dataLim.ymax)
    if not usual > low or high - low <= _WASTED * (usual - low):
        return
    top = usual + 0.12 * (usual - low)
    ax.set_ylim(low - 0.05 * (usual - low), top)
    for _, x, y in runs:
        if y.max() > top:
            at = float(x[int(np.argmax(y))])
            ax.annotate(f"↑ {short(float(y.max()))}", (at, top), xytext=(2, -2), textcoords="offset points",
                        va="top", fontsize=7.5, color=INK, gid="clipped")  # fmt: skip


def _separated(groups: list[DrawnSize], every: list[DrawnSize], odd: Collection[str]) -> list[DrawnSize]:
    """Return the sizes without the odd runs, then each odd run as a line of its own."""
    alone = [
        replace(group, label=f"{run} (odd)", runs=(run,), colour=ALARM, width=_ODD_WIDTH)
        for group in every
        for run in group.runs
        if run in odd
    ]
    return [*groups, *alone]


def _pale(ax: Axes, metrics: pd.DataFrame, group: DrawnSize) -> None:
    """Draw the training loss of a size's runs as pale lines under the held-out loss."""
    for run in group.runs:
        mine = metrics[(metrics["run"] == run) & np.isfinite(metrics["loss"].to_numpy(dtype=np.float64))]
        if len(mine):
            line = binned(mine["step"].to_numpy(), mine["loss"].to_numpy(), spread=False)
            ax.plot(
                line["step"], line["mean"], color=group.colour, linewidth=0.7, alpha=0.45, gid=f"loss {run}"
            )


def _cone(ax: Axes, run: str, path: np.ndarray, colour: str) -> None:
    """Draw the forecast of a run (step, loss, low, high), dashed, its interval shaded."""
    step, loss, low, high = path.T
    ax.fill_between(step, low, high, color=colour, alpha=0.2, linewidth=0, gid=f"cone {run}")
    ax.plot(step, loss, color=colour, linewidth=1.2, linestyle=(0, (4, 2)), gid=f"ahead {run}")


def _forecast_ends(groups: list[DrawnSize], ahead: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return where the forecast of each unfinished run ends, by the words that name the run's line."""
    named = {group.runs[0]: group.label for group in groups if len(group.runs) == 1}
    return {named.get(run, run): float(path[-1, 1]) for run, path in ahead.items()}


def draw_losses(metrics: pd.DataFrame, runs: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the training loss of every run, and return the axes."""
    with on_axes(ax, 3.2) as ax:
        end_labels(ax, training(ax, metrics, sizes(runs)))
    return ax


def training(ax: Axes, metrics: pd.DataFrame, groups: list[DrawnSize]) -> list[EndLabel]:
    """Draw the training minibatch's loss of every run on `ax`, and return what names each line at its end."""
    ax.set_title("Training minibatch")
    measured = metrics[np.isfinite(metrics["loss"].to_numpy(dtype=np.float64))]
    if measured.empty:
        say_empty(ax, "no training loss in this store")
        return []
    labels: list[EndLabel] = []
    named = runs_are_named(measured, groups)
    for group in groups:
        ends: list[tuple[float, str]] = []
        for run in group.runs:
            mine = measured[measured["run"] == run]
            if mine.empty:
                continue
            line = binned(mine["step"].to_numpy(), mine["loss"].to_numpy())
            ax.fill_between(
                line["step"], line["low"], line["high"], color=group.colour, alpha=0.18, linewidth=0
            )
            ax.plot(line["step"], line["mean"], color=group.colour, linewidth=group.width, gid=f"loss {run}")
            ends.append((float(line["mean"].iloc[-1]), run))
        if named and len(ends) > 1:
            labels += [(end, run, group.colour) for end, run in ends]
        elif ends:
            labels.append((ends[0][0], group.label, group.colour))
    step_axis(ax, measured["step"].unique())
    ax.set_ylabel("loss")
    return labels


def held_out(ax: Axes, metrics: pd.DataFrame, groups: list[DrawnSize]) -> list[EndLabel]:
    """Draw the held-out loss of every size on `ax`, and return what names each line at its end."""
    ax.set_title("Held out")
    measured = metrics[np.isfinite(metrics["heldout_loss"].to_numpy(dtype=np.float64))]
    values = one_value_each(measured, "heldout_loss")
    named = runs_are_named(values, groups)
    labels = [label for group in groups for label in draw_group(ax, values, group, marker="o", named=named)]
    step_axis(ax, measured["step"].unique())
    return labels
