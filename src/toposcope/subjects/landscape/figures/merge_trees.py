"""A merge tree in two drawings: the tree itself, and its topological landscape profile."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from toposcope.core.drawing.style import INK, MUTED, NULL, house, new_figure, say_empty
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.profile import landscape_profile


def draw(
    tree: MergeTree, *, tested: tuple[MergeTree, np.ndarray] | None = None, unit: str = "nats per token"
) -> Figure:
    """Draw a tree's branches, the branches that were tested, and the tree's profile over one axis of loss.

    Parameters
    ----------
    tree
        The merge tree of all sequences; branches of persistence 0 are left out.
    tested
        The tree of half of the sequences, and which of its branches the other half confirms, (b,) bool: the
        others are grey. None leaves the panel out.
    """
    with house():
        figure, axes = new_figure(3.2, columns=2 if tested is None else 3, sharey=True)
        _tree(axes[0, 0], tree, np.ones(len(tree), bool))
        axes[0, 0].set_ylabel(f"loss ({unit})")
        axes[0, 0].set_title(f"all sequences: {_counted(tree)}", fontsize=8.5)
        if tested is not None:
            half, confirmed = tested
            ending = int((np.isfinite(half.persistence) & (half.persistence > 0)).sum())
            _tree(axes[0, 1], half, confirmed)
            what = f"{int(confirmed.sum())} of {ending} confirmed" if ending else _counted(half)
            axes[0, 1].set_title(f"half of them: {what}", fontsize=8.5)
        draw_profile(axes[0, -1], tree)
        axes[0, -1].set_title("profile of all", fontsize=8.5)
    return figure


def _counted(tree: MergeTree) -> str:
    minima = int((tree.persistence > 0).sum())
    return f"{minima} minim{'um' if minima == 1 else 'a'}"


def draw_profiles(trees: Sequence[tuple[str, MergeTree]], *, unit: str = "nats per token") -> Figure:
    """Draw one profile a panel, over a common axis of loss: a surface over training as small multiples."""
    columns = max(1, min(6, len(trees)))
    rows = max(1, -(-len(trees) // columns))
    with house():
        figure, axes = new_figure(2.1 * rows + 0.4, rows=rows, columns=columns, sharey=True)
        for ax in axes.ravel()[len(trees) :]:
            ax.set_axis_off()
        if not trees:
            say_empty(axes[0, 0], "no surface was sampled")
        for ax, (title, tree) in zip(axes.ravel(), trees, strict=False):
            draw_profile(ax, tree)
            ax.set_xlabel("places")
            ax.set_title(title, fontsize=8.0)
        for row in axes:
            row[0].set_ylabel(f"loss ({unit})")
    return figure


def draw_profile(ax: Axes, tree: MergeTree) -> None:
    """Draw the outlines of a profile, coloured by the mean loss of what lies on each."""
    outlines = landscape_profile(tree)
    colours = mpl.colormaps["viridis"]
    scale = Normalize(float(np.nanmin(tree.values)), float(np.nanmax(tree.values)))
    for outline in outlines:
        ax.fill(outline.x, outline.y, color=colours(scale(outline.mean)), linewidth=0)
        ax.plot(outline.x, outline.y, color=INK, linewidth=0.4)
    ax.set_xlabel("places of the surface")
    ax.grid(visible=False, axis="x")


def _tree(ax: Axes, tree: MergeTree, clear: np.ndarray) -> None:
    """Draw each branch as a vertical line at its leaf's place and a horizontal one to where it ends."""
    column = _columns(tree)
    top = float(np.nanmax(tree.values))
    for branch in np.flatnonzero(tree.persistence > 0):
        x, low = column[branch], tree.values[tree.minimum[branch]]
        ends = tree.saddle[branch] >= 0
        high = tree.values[tree.saddle[branch]] if ends else top
        colour = INK if clear[branch] or not ends else NULL
        ax.plot([x, x], [low, high], color=colour, linewidth=1.2)
        ax.plot(x, low, "o", color=colour, markersize=3.5)
        if ends:
            ax.plot([x, column[tree.parent[branch]]], [high, high], color=MUTED, linewidth=0.7)
    ax.set_xticks([])
    ax.set_xlabel("branches, by depth")


def _columns(tree: MergeTree) -> np.ndarray:
    """Return a column for every branch: each beside the branch it ends in, deeper ones first."""
    children: dict[int, list[int]] = {}
    for branch in np.argsort(-np.where(np.isinf(tree.persistence), np.inf, tree.persistence), kind="stable"):
        children.setdefault(int(tree.parent[branch]), []).append(int(branch))
    column, stack, at = np.zeros(len(tree)), children.get(-1, [])[::-1], 0
    while stack:
        branch = stack.pop()
        column[branch] = at
        at += 1
        stack.extend(children.get(branch, [])[::-1])
    return column
