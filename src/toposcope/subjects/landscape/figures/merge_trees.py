"""The merge tree of a surface, beside its topological landscape profile."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.style import INK, MUTED, NULL, house, new_figure
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures.profiles import draw_profile
from toposcope.subjects.landscape.figures.shown_surfaces import has_surfaces, shown_surfaces, tested
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.sampled_surface import SurfaceTopology


def draw(
    tree: MergeTree, *, tested: tuple[MergeTree, np.ndarray] | None = None, unit: str = "nats per token"
) -> Figure:
    """Draw a tree's branches, the tested branches, and the tree's profile, over a common axis of loss.

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
            ending = int((half.lasting & (half.saddle >= 0)).sum())
            _tree(axes[0, 1], half, confirmed)
            what = f"{int(confirmed.sum())} of {ending} confirmed" if ending else _counted(half)
            axes[0, 1].set_title(f"half of them: {what}", fontsize=8.5)
        draw_profile(axes[0, -1], tree)
        axes[0, -1].set_title("profile of all", fontsize=8.5)
    return figure


def _counted(tree: MergeTree) -> str:
    minima = int(tree.lasting.sum())
    return f"{minima} minim{'um' if minima == 1 else 'a'}"


def _tree(ax: Axes, tree: MergeTree, clear: np.ndarray) -> None:
    """Draw each branch as a vertical line at its leaf's place and a horizontal line to where it ends."""
    column = _columns(tree)
    top = float(np.nanmax(tree.values))
    for branch in np.flatnonzero(tree.lasting):
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
    """Return a column for every branch: each beside the branch in which it ends, deeper ones first."""
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


def _with_most(study: Study) -> SurfaceTopology:
    """Return the topology of the surface with the most branches; of several, the last."""
    return max(
        enumerate(topology for _, topology in shown_surfaces(study)),
        key=lambda entry: (entry[1].minima, entry[0]),
    )[1]


def _drawn(study: Study) -> Figure:
    most = _with_most(study)
    return draw(most.tree, tested=tested(most))


def _title(study: Study) -> str:
    """Return how many minima the drawn surface has, and how many branches the other half confirms."""
    most, n = _with_most(study), len(shown_surfaces(study))
    step = next(surface.step for surface, topology in shown_surfaces(study) if topology is most)
    half, confirmed = tested(most), ""
    if half is not None:
        count = int(half[1].sum())
        confirmed = f"; the other half confirms {count or 'no'} branch{'es' * (count > 1)}"
    among = f", the most of {n} surfaces" if n > 1 else ""
    return f"{_counted(most.tree)} at step {step:,}{among}{confirmed}"


def _caption(study: Study) -> Caption:
    halved = tested(_with_most(study)) is not None
    half = (
        " Middle: the tree of one half of the sequences. The other half confirms the dark branches: its 95% "
        "interval of loss(saddle) - loss(minimum) lies above 0. It does not confirm the grey ones."
    )
    return Caption(
        _title(study),
        "Left: the tree of all sequences. Every branch runs from its minimum to the saddle where it ends."
        + (half if halved else "")
        + f" Right: the profile of the left tree. {shown_surfaces(study).graph_in_words}",
        "How the minima of this surface are joined"
        + (", and which of them other sequences show as well." if halved else "."),
        "That other directions, batches or checkpoints have such a tree. This one was chosen because it has "
        "the most branches.",
        "A merge tree beside its landscape profile.",
    )


ON_PAGE = OnPage("merge_tree", needs=has_surfaces, draw=_drawn, caption=_caption, folded=True)
