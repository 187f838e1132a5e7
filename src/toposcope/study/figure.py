"""The verdict in one picture: the correlation of innovations of all that it judges, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from toposcope.core.drawing.style import INK, MUTED, on_axes, say_empty
from toposcope.core.forms import NONE, Line, lag_cell
from toposcope.study.study import Study


def draw_verdict(study: Study, ax: Axes | None = None) -> Axes:
    """Draw the correlation of innovations of each row of the verdict over all runs; filled where it adds.

    The interval is the one that inverts the test; a feature that this design cannot judge has no mark. Where
    a feature moves a checkpoint or two before or after the target, its label says so.
    """
    mine = study.families[study.families["target"] == study.target]
    mine = mine[mine["confirmatory"].astype(bool)]
    names = [_named(study.labels.label(str(line["column"])), line) for line in mine.to_dict("records")]
    with on_axes(ax, _height(len(names))) as ax:
        if not names:
            say_empty(ax, f"no {study.judged} was tested")
            return ax
        filled = (mine["verdict"] == "adds").to_numpy()
        _bars(ax, names, mine[["r", "r_low", "r_high"]].to_numpy(float), filled)
        ax.axvline(0.0, color=MUTED, linewidth=0.8)
        ax.set_xlim(-1.03, 1.03)
        ax.set_xlabel(
            f"correlation of innovations with the {study.labels.label(study.target)} (filled: adds)"
        )
    return ax


def draw_intervals(names: Sequence[str], values: np.ndarray, ax: Axes | None = None) -> Axes:
    """Draw values (n, 3) of value, low, high, one line for each name."""
    with on_axes(ax, _height(len(names))) as ax:
        if not len(names):
            say_empty(ax, "nothing to forecast")
            return ax
        _bars(ax, names, values, np.ones(len(names), dtype=bool))
        ax.set_xlabel("final loss")
    return ax


def _bars(ax: Axes, names: Sequence[str], values: np.ndarray, filled: np.ndarray) -> None:
    for place, ((value, low, high), full) in enumerate(zip(values, filled, strict=True)):
        if np.isfinite(low) and np.isfinite(high):
            ax.hlines(place, low, high, color=INK, linewidth=1.0)
        ax.plot(value, place, "o", color=INK, markersize=4.5, markerfacecolor=INK if full else "white")
    ax.set_yticks(range(len(names)), list(names))
    ax.set_ylim(len(names) - 0.5, -0.5)


def _named(label: str, line: Line) -> str:
    """Return the label with the lag at which the feature moves with the target, if that is not 0."""
    lag = lag_cell(line)
    return label if lag in ("0", NONE) else f"{label} ({lag})"


def _height(rows: int) -> float:
    return 0.25 * max(rows, 4) + 0.9
