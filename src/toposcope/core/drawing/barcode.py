"""The bars of a cloud as a persistence diagram and as a barcode, at the first and the last checkpoint."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.style import MUTED, OKABE_ITO, house, new_figure, say_empty

MOST_BARS = 60
"""Longest bars of a dimension that a barcode draws."""
_COLOURS = {0: OKABE_ITO[0], 1: OKABE_ITO[1], 2: OKABE_ITO[2]}


def draw(diagrams: pd.DataFrame, run: str) -> Figure:
    """Draw the bars of one run's cloud: diagram (left) and barcode (right), last checkpoint above the first.

    Parameters
    ----------
    diagrams
        A store's diagrams of one cloud: columns run, step, draw, dim, birth, death; one draw is drawn.
    run
        Which run.

    Returns
    -------
    Figure
        H0 in blue, H1 in orange. Bars that never die end at the right edge; a barcode of more than sixty
        bars of a dimension shows the longest, and says so.
    """
    mine = diagrams[diagrams["run"] == run]
    steps = sorted({int(mine["step"].min()), int(mine["step"].max())}, reverse=True) if len(mine) else []
    with house():
        figure, axes = new_figure(2.9 * max(len(steps), 1), rows=max(len(steps), 1), columns=2)
        for row, step in zip(axes, steps, strict=False):
            bars = bars_at(mine, step)
            edge = _edge(bars)
            pairs(row[0], bars, edge)
            row[0].set_title(f"{run}, step {step:,}: diagram", fontsize=9)
            barcode(row[1], bars, edge)
            row[1].set_title("the same as a barcode", fontsize=9)
        if not steps:
            for ax in axes.flat:
                say_empty(ax, "the store has no diagrams")
    return figure


def bars_at(diagrams: pd.DataFrame, step: int) -> dict[int, np.ndarray]:
    """Return the (birth, death) pairs of each dimension at a step, of the first draw."""
    mine = diagrams[diagrams["step"] == step]
    first = mine["draw"].min()
    mine = mine if pd.isna(first) else mine[mine["draw"] == first]
    return {
        int(line["dim"]): np.column_stack([np.asarray(line["birth"]), np.asarray(line["death"])])
        for line in mine.sort_values("dim").to_dict("records")
    }


def _edge(bars: dict[int, np.ndarray]) -> float:
    finite = np.concatenate([pairs[np.isfinite(pairs)] for pairs in bars.values()] or [np.zeros(1)])
    return 1.06 * float(finite.max(initial=0.0)) or 1.0


def pairs(ax: Axes, bars: dict[int, np.ndarray], edge: float) -> None:
    """Draw death against birth; what never dies is a triangle on the upper edge."""
    ax.plot([0, edge], [0, edge], color=MUTED, linewidth=0.8)
    for dim, bars_of_dim in bars.items():
        finite = np.isfinite(bars_of_dim[:, 1])
        ax.plot(*bars_of_dim[finite].T, "o", color=_COLOURS[dim], markersize=3, alpha=0.7, label=f"H{dim}")
        ax.plot(
            bars_of_dim[~finite, 0], np.full((~finite).sum(), edge), "^", color=_COLOURS[dim], markersize=5
        )
    ax.set_xlabel("birth (distance)")
    ax.set_ylabel("death (distance)")
    ax.legend(loc="lower right")


def barcode(ax: Axes, bars: dict[int, np.ndarray], edge: float) -> None:
    """Draw every bar from its birth to its death, dimension by dimension, the longest at the bottom."""
    at = 0
    for dim, bars_of_dim in bars.items():
        ends = np.where(np.isfinite(bars_of_dim[:, 1]), bars_of_dim[:, 1], edge)
        order = np.argsort(-(ends - bars_of_dim[:, 0]), kind="stable")[:MOST_BARS]
        ax.hlines(
            np.arange(at, at + len(order)),
            bars_of_dim[order, 0],
            ends[order],
            color=_COLOURS[dim],
            linewidth=1.0,
        )
        more = (
            f", the {MOST_BARS} longest of {len(bars_of_dim)}"
            if len(bars_of_dim) > MOST_BARS
            else f", {len(bars_of_dim):,} bars"
        )
        ax.annotate(
            f"H{dim}{more}", (0.985, at + len(order) / 2), xycoords=("axes fraction", "data"), ha="right",
            va="center", fontsize=7.5, color=_COLOURS[dim],
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
        )  # fmt: skip
        at += len(order) + 3
    ax.set_xlim(0, edge)
    ax.set_xlabel("distance")
    ax.set_yticks([])
    ax.grid(axis="y", visible=False)
