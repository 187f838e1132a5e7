"""Loss curves: the training minibatch's loss, and the held-out loss where it was measured."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_group, runs_are_named
from toposcope.core.drawing.marks import Marks, mark_symptoms
from toposcope.core.drawing.series import DrawnSize, binned, sizes
from toposcope.core.drawing.style import end_labels, house, new_figure, on_axes, say_empty, step_axis


def draw(
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    symptoms: Marks | None = None,
) -> Figure:
    """Draw training loss (left) and held-out loss (right) against the step, one line per model size.

    Parameters
    ----------
    metrics
        Columns run, step, loss, heldout_loss (in one unit; NaN where not measured).
    runs
        Columns run, family, parameters.
    symptoms
        For each run whose log falls ill or was alarmed at, kinds and steps: they are marked.

    Returns
    -------
    Figure
        Training losses are averaged within log-spaced bins, with the 5% to 95% range of the bin around
        them; held-out losses are drawn as measured, and have no panel where none was. A size with several
        seeds shows every seed, and the mean of the held-out loss with its interval at the steps that all
        seeds have.
    """
    with house():
        both = bool(np.isfinite(metrics["heldout_loss"].to_numpy(dtype=np.float64)).any())
        figure, axes = new_figure(3.5, columns=2 if both else 1, sharey=True)
        training(axes[0, 0], metrics, sizes(runs))
        if symptoms:
            mark_symptoms(axes[0, 0], symptoms)
        if both:
            held_out(axes[0, 1], metrics, sizes(runs))
            axes[0, 1].yaxis.set_tick_params(labelleft=True)
    return figure


def draw_losses(metrics: pd.DataFrame, runs: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the first panel of `draw` alone."""
    with on_axes(ax, 3.2) as ax:
        training(ax, metrics, sizes(runs))
    return ax


def training(ax: Axes, metrics: pd.DataFrame, groups: list[DrawnSize]) -> None:
    """Draw the training minibatch's loss of every run on `ax`."""
    ax.set_title("Training minibatch")
    measured = metrics[np.isfinite(metrics["loss"].to_numpy(dtype=np.float64))]
    if measured.empty:
        say_empty(ax, "no training loss in this store")
        return
    labels = []
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
            ax.plot(line["step"], line["mean"], color=group.colour, linewidth=1.3, gid=f"loss {run}")
            ends.append((float(line["mean"].iloc[-1]), run))
        if named and len(ends) > 1:
            labels += [(end, run, group.colour) for end, run in ends]
        elif ends:
            labels.append((ends[0][0], group.label, group.colour))
    step_axis(ax, measured["step"].unique())
    ax.set_ylabel("loss")
    end_labels(ax, labels)


def held_out(ax: Axes, metrics: pd.DataFrame, groups: list[DrawnSize]) -> None:
    """Draw the held-out loss of every size on `ax`."""
    ax.set_title("Held out")
    measured = metrics[np.isfinite(metrics["heldout_loss"].to_numpy(dtype=np.float64))]
    rows = measured.assign(value=measured["heldout_loss"])
    named = runs_are_named(rows, groups)
    labels = [label for group in groups for label in draw_group(ax, rows, group, marker="o", named=named)]
    step_axis(ax, measured["step"].unique())
    end_labels(ax, labels)
