"""Losses and H1 bars of a run that groks, on one step axis, with marks where each is half way."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.style import INK, MUTED, NULL, OKABE_ITO, end_labels, house, new_figure, step_axis

_COLOURS = {"loss": NULL, "heldout_loss": OKABE_ITO[1]}
_NAMES = {"loss": "training", "heldout_loss": "held out"}


def draw(table: pd.DataFrame, turns: pd.DataFrame, *, circle: float) -> Figure:
    """Draw the losses above and every other column, a longest H1 bar, below.

    Parameters
    ----------
    table
        Columns step, loss, heldout_loss (nats), and one column per way of measuring the longest bar in
        units of the plane's rms radius; the column's name is its label.
    turns
        Where a series is half way: columns series (a column of `table`), step, low, high. The step is a
        vertical line, its 95% set a bar at the foot of the panel.
    circle
        The value of equally spaced points on a circle.
    """
    bars = [name for name in table.columns if name not in ("step", "loss", "heldout_loss")]
    colours = _COLOURS | {name: OKABE_ITO[(0, 2, 3, 4)[i % 4]] for i, name in enumerate(bars)}
    with house():
        figure, axes = new_figure(5.4, rows=2, sharex=True)
        above, below = axes[:, 0]
        above.set_title("Loss")
        above.set_ylabel("nats")
        _lines(above, table, ["loss", "heldout_loss"], colours)
        above.set_ylim(bottom=-0.15 * float(np.nanmax(table["heldout_loss"])))
        below.set_title("Longest H1 bar in the planes of the key frequencies")
        below.set_ylabel("bar / rms radius")
        _lines(below, table, bars, colours)
        below.axhline(circle, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
        below.annotate(
            "equally spaced on a circle", (0.01, circle), xycoords=("axes fraction", "data"),
            xytext=(0, -3), textcoords="offset points", va="top", color=MUTED, fontsize=7.5,
        )  # fmt: skip
        below.set_ylim(0.0, 1.08 * max(circle, float(np.nanmax(table[bars].to_numpy()))))
        for ax, series in ((above, ["heldout_loss"]), (below, bars)):
            _turns(ax, turns, series, colours)
            step_axis(ax, table["step"], label=ax is below)
            last = table.iloc[-1]
            shown = ["loss", "heldout_loss"] if ax is above else bars
            end_labels(ax, [(float(last[name]), _NAMES.get(name, name), colours[name]) for name in shown])
        above.tick_params(labelbottom=False)
    return figure


def _lines(ax: Axes, table: pd.DataFrame, columns: list[str], colours: dict[str, str]) -> None:
    for name in columns:
        ax.plot(table["step"], table[name], color=colours[name], marker="o", markersize=2.2, linewidth=1.3)


def _turns(ax: Axes, turns: pd.DataFrame, series: list[str], colours: dict[str, str]) -> None:
    """Mark where each series is half way; the intervals of different series are at different heights."""
    for place, name in enumerate(series):
        height = 0.035 + 0.05 * place
        for number, turn in enumerate(turns[turns["series"] == name].itertuples(), start=1):
            colour = colours[name]
            step, low, high = (float(getattr(turn, part)) for part in ("step", "low", "high"))
            ax.axvline(step, color=colour, linewidth=0.9, linestyle=(0, (1, 1.5)))
            foot = ax.get_xaxis_transform()
            ax.annotate(
                "half way", (step, 1.0), xycoords=foot, xytext=(-3, -3), textcoords="offset points",
                ha="right", va="top", color=MUTED, fontsize=7.5,
            )  # fmt: skip
            ax.plot([low, high], [height, height], color=colour, linewidth=3.5, alpha=0.6, transform=foot,
                    solid_capstyle="butt")  # fmt: skip
            ax.plot([step], [height], color=INK, marker="|", markersize=7, transform=foot,
                    gid=f"{name} {number}")  # fmt: skip
