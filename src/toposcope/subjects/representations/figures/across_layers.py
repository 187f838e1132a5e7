"""From one layer to the next: the share of H1 that is carried over, beside CKA of the same layers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import INK, MUTED, house, new_figure, say_empty, sequential
from toposcope.study.representations import pairs
from toposcope.subjects.representations.features import REPRESENTATIONS


def draw(features: pd.DataFrame, runs: pd.DataFrame, *, probe: str = REPRESENTATIONS) -> Figure:
    """Draw carried H1 against CKA for every pair of consecutive layers, one panel per run.

    Parameters
    ----------
    features
        The store's features table; "cka" and "carried_h1" belong to the earlier layer of a pair.
    runs
        Columns run, family, parameters.

    Returns
    -------
    Figure
        A line goes through a pair's checkpoints, its colour says which pair; hollow: first checkpoint,
        filled: last.
    """
    table = pairs(features, probe=probe)
    names = [run for size in sizes(runs) for run in size.runs if (table["run"] == run).any()]
    layers = sorted(table["layer"].unique())
    colours = dict(zip(layers, sequential(max(len(layers), 2)), strict=False))
    with house():
        figure, axes = new_figure(3.2, columns=max(len(names), 1), sharex=True, sharey=True)
        if not names:
            say_empty(axes[0, 0], "fewer than two layers were measured")
            return figure
        for ax, run in zip(axes[0], names, strict=True):
            _panel(ax, table[table["run"] == run], run, colours)
        axes[0, 0].set_ylabel("share of H1 carried to the next layer")
        _key(figure, layers, colours)
    return figure


def _panel(ax: Axes, table: pd.DataFrame, run: str, colours: dict[object, str]) -> None:
    ax.set_title(run)
    for layer, line in table.sort_values("step").groupby("layer"):
        colour = colours[layer]
        ax.plot(line["cka"], line["carried"], color=colour, marker=".", markersize=3.5, linewidth=0.7)
        first, last = line.iloc[0], line.iloc[-1]
        ax.plot(first["cka"], first["carried"], "o", color=colour, markersize=5, markerfacecolor="white")
        ax.plot(last["cka"], last["carried"], "o", color=colour, markersize=5.5)
    ax.set_xlabel("CKA with the next layer")


def _key(figure: Figure, layers: list[float], colours: dict[object, str]) -> None:
    shown = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 4)).round().astype(int))
    handles = [Line2D([], [], color=colours[layers[i]], label=f"layer {layers[i]:.0f} → next") for i in shown]
    for face, text in (("white", "first checkpoint"), (MUTED, "last")):
        mark = Line2D([], [], color=MUTED, marker="o", linestyle="none", markersize=5, label=text)
        mark.set_markerfacecolor(face)
        handles.append(mark)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), labelcolor=INK)
