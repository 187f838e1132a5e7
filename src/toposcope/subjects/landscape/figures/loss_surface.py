"""A sampled loss surface: filled contours with minima, saddles and the branches that join them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toposcope.core.drawing.style import GRADED, INK, OKABE_ITO, house, new_figure, say_empty
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures.shown_surfaces import shown_surfaces, tested
from toposcope.topology.merge_tree import MergeTree

MINIMUM_COLOUR, SADDLE_COLOUR = OKABE_ITO[1], OKABE_ITO[5]
_LEVELS = 24
"""Contours of a surface."""
_CONFIRMED = 2.4
"""Line widths in points: a confirmed branch is three times as thick as the others."""


@dataclass(frozen=True)
class SurfacePanel:
    """One surface: `axes` are the coordinates along both directions, `tree` its merge tree.

    `tested` is the tree of half of the sequences, and which of its branches (b,) the other half confirms.
    """

    title: str
    axes: tuple[np.ndarray, np.ndarray]
    tree: MergeTree
    tested: tuple[MergeTree, np.ndarray] | None = None


def draw(
    panels: Sequence[SurfacePanel], *, labels: tuple[str, str] = ("direction 1", "direction 2")
) -> Figure:
    """Draw surfaces side by side on one scale of colours; masked places stay white.

    Dots are minima, crosses saddles; a thin line joins a minimum to the saddle where its branch ends and on
    to the minimum that survives there. A branch that was confirmed is drawn thick, where half of the
    sequences show it.
    """
    columns = max(1, min(3, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    with house():
        figure, axes = new_figure(2.9 * rows, rows=rows, columns=columns)
        for ax in axes.ravel()[len(panels) :]:
            ax.set_axis_off()
        if not panels:
            say_empty(axes[0, 0], "no surface was sampled")
            return figure
        low = min(float(np.nanmin(panel.tree.values)) for panel in panels)
        high = max(float(np.nanmax(panel.tree.values)) for panel in panels)
        levels = np.linspace(low, high if high > low else low + 1e-12, _LEVELS)
        for ax, panel in zip(axes.ravel(), panels, strict=False):
            filled = _surface(ax, panel, levels)
            ax.set_xlabel(labels[0])
        axes[0, 0].set_ylabel(labels[1])
        figure.colorbar(filled, ax=axes.ravel().tolist(), label="loss (nats per token)", ticks=MaxNLocator(6))
    return figure


def _surface(ax: Axes, panel: SurfacePanel, levels: np.ndarray) -> ContourSet:
    x, y = panel.axes
    values = panel.tree.values.reshape(panel.tree.shape)
    filled = ax.contourf(x, y, values.T, levels=levels, cmap=GRADED)
    ax.contour(x, y, values.T, levels=levels[::3], colors="white", linewidths=0.35, alpha=0.7)
    ax.grid(visible=False)
    ax.set_title(panel.title, fontsize=8.5)
    _branches(ax, panel)
    return filled


def _branches(ax: Axes, panel: SurfacePanel) -> None:
    tree = panel.tree
    _lines(ax, panel, tree, np.flatnonzero(tree.lasting), width=0.8, size=4.5)
    if panel.tested is not None:
        half, confirmed = panel.tested
        _lines(ax, panel, half, np.flatnonzero(confirmed), width=_CONFIRMED, size=7.0)


def _lines(
    ax: Axes, panel: SurfacePanel, tree: MergeTree, branches: np.ndarray, *, width: float, size: float
) -> None:
    place = np.stack(np.unravel_index(np.arange(len(tree.values)), tree.shape), axis=1)
    at = np.stack([panel.axes[0][place[:, 0]], panel.axes[1][place[:, 1]]], axis=1)
    for branch in branches:
        start = at[tree.minimum[branch]]
        ax.plot(*start, "o", color=MINIMUM_COLOUR, markeredgecolor="white", markersize=size)
        if tree.saddle[branch] < 0:
            continue
        saddle, end = at[tree.saddle[branch]], at[tree.minimum[tree.parent[branch]]]
        line = np.stack([start, saddle, end])
        ax.plot(line[:, 0], line[:, 1], color=INK, linewidth=width, alpha=0.8)
        ax.plot(*saddle, "x", color=SADDLE_COLOUR, markersize=size, markeredgewidth=1.4)


def _drawn(study: Study) -> Figure:
    panels = [
        SurfacePanel(f"step {surface.step:,}", (axes[0], axes[1]), topology.tree, tested(topology))
        for surface, topology in shown_surfaces(study)
        for axes in [surface.surface.axes]
    ]
    return draw(panels)


def _caption(study: Study) -> Caption:
    shown = shown_surfaces(study)
    n = len(shown)
    return Caption(
        shown.single,
        f"The loss on the sampled plane around {n:,} checkpoint{'s' * (n != 1)} of one run, on one colour "
        "scale. Dots are minima and crosses are saddles. A thin line joins a minimum to the saddle where its "
        "basin merges into a deeper one. A thick line is a confirmed branch: one half of the sequences shows "
        "it, and the other half confirms it (95%). It is drawn where the first half has it. "
        f"{shown.graph_in_words}",
        "Where the sampled plane has more than one basin, and how far the plane reaches.",
        shown.beyond_them,
        "Contour panels of the loss around several checkpoints with minima and saddles.",
    )


ON_PAGE = OnPage(
    "loss_surfaces",
    questions={"surfaces": 1},
    needs=lambda study: shown_surfaces(study).flat,
    draw=_drawn,
    caption=_caption,
)
