"""The topological landscape profiles of a surface over training."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from toposcope.core.drawing.style import GRADED, INK, house, new_figure, say_empty
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.shapes import shape_of
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures.shown_surfaces import ShownSurfaces, has_surfaces, shown_surfaces
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.profile import landscape_profile


def draw(trees: Sequence[tuple[str, MergeTree]], *, unit: str = "nats per token") -> Figure:
    """Draw one profile per panel, over a common axis of loss: a surface over training as small multiples."""
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
    """Draw the outlines of a profile, coloured by the mean loss of the grid points on each."""
    outlines = landscape_profile(tree)
    colours = mpl.colormaps[GRADED]
    scale = Normalize(float(np.nanmin(tree.values)), float(np.nanmax(tree.values)))
    for outline in outlines:
        ax.fill(outline.x, outline.y, color=colours(scale(outline.mean)), linewidth=0)
        ax.plot(outline.x, outline.y, color=INK, linewidth=0.4)
    ax.set_xlabel("places of the surface")
    ax.grid(visible=False, axis="x")


def _drawn(study: Study) -> Figure:
    return draw([(title, topology.tree) for title, topology in shown_surfaces(study).titled])


def _title(shown: ShownSurfaces) -> str:
    """Return a title with the shape of the lowest sampled loss over the checkpoints."""
    lowest = [(surface.step, float(np.nanmin(topology.tree.values))) for surface, topology in shown]
    shape = shape_of(*zip(*lowest, strict=True))
    return f"The lowest sampled loss {shape.words('{:.3g}')}"


def _caption(study: Study) -> Caption:
    shown = shown_surfaces(study)
    return Caption(
        _title(shown),
        "Each merge tree drawn as basins. The width at a loss is the number of places (points of the sampled "
        f"grid) that have this loss or less. {shown.graph_in_words}",
        "How much of the sampled surface has a low loss, and which basins are wide.",
        shown.beyond_them,
        "One profile for each checkpoint over a common axis of loss.",
    )


ON_PAGE = OnPage(
    "landscape_profiles", questions={"surfaces": 2}, needs=has_surfaces, draw=_drawn, caption=_caption
)
