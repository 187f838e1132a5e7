"""The persistence diagrams of sampled surfaces over training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toposcope.core.drawing.style import NULL, house, new_figure, say_empty
from toposcope.core.types import Diagram
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures.shown_surfaces import ShownSurfaces, has_surfaces, shown_surfaces


def draw(panels: Sequence[tuple[str, Sequence[Diagram]]]) -> Figure:
    """Draw the sublevel diagrams of surfaces, dots for H0 and triangles for H1, over one pair of axes."""
    columns = max(1, min(3, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    with house():
        figure, axes = new_figure(2.2 * rows + 0.4, rows=rows, columns=columns, sharex=True, sharey=True)
        for ax in axes.ravel()[len(panels) :]:
            ax.set_axis_off()
        if not panels:
            say_empty(axes[0, 0], "no surface was sampled")
            return figure
        births = np.concatenate([d.birth for _, diagrams in panels for d in diagrams])
        deaths = np.concatenate([d.death[np.isfinite(d.death)] for _, diagrams in panels for d in diagrams])
        ends = np.array([min(births), max(np.concatenate([births, deaths]))])
        top = ends[1] + 0.08 * max(float(np.ptp(ends)), 1e-6)
        present = {diagram.dim for _, diagrams in panels for diagram in diagrams if len(diagram.birth)}
        for ax, (title, diagrams) in zip(axes.ravel(), panels, strict=False):
            ax.plot(ends, ends, color=NULL, linewidth=0.7)
            for diagram, marker in zip(diagrams, ("o", "^", "s"), strict=False):
                death = np.where(np.isfinite(diagram.death), diagram.death, top)
                label = f"H{diagram.dim}" if diagram.dim in present else None
                ax.plot(diagram.birth, death, marker, markersize=4, label=label)
            ax.set_title(title, fontsize=8.0)
        axes[0, 0].legend(fontsize=7)
        for ax in axes.ravel()[max(0, len(panels) - columns) : len(panels)]:  # the lowest of each column
            ax.set_xlabel("birth")
            ax.xaxis.set_major_locator(MaxNLocator(3))  # three panels a row: more numbers touch
            ax.xaxis.set_tick_params(labelbottom=True)
        for row in axes:
            row[0].set_ylabel("death (never: top)")
    return figure


def _drawn(study: Study) -> Figure:
    return draw([(title, topology.homology) for title, topology in shown_surfaces(study).titled])


_HIGHER = {
    1: "; on a line there is no H1",
    2: " and H1 (rings around maxima)",
    3: ", H1 (loops) and H2 (shells around maxima)",
}
"""The higher homology in the figure, by the number of directions."""


def _title(shown: ShownSurfaces) -> str:
    """Return how many minima there are besides each surface's lowest, and how persistent the deepest is."""
    components = [diagram for _, topology in shown for diagram in topology.homology if diagram.dim == 0]
    lasts = np.concatenate([diagram.death - diagram.birth for diagram in components] or [np.empty(0)])
    lasts = lasts[np.isfinite(lasts) & (lasts > 0)]
    surfaces = f"the {len(shown):,} surfaces" if len(shown) > 1 else "the surface"
    if not len(lasts):
        return f"No second minimum on {surfaces}"
    minima = f"{len(lasts):,} minim{'um' if len(lasts) == 1 else 'a'} beside the lowest on {surfaces}"
    return f"{minima}; the deepest lasts {lasts.max():.2g} nats per token"


def _caption(study: Study) -> Caption:
    shown = shown_surfaces(study)
    higher = "; this graph has no H1" if shown.graph == "knn" else _HIGHER.get(shown.directions, "")
    return Caption(
        _title(shown),
        f"Sublevel persistence diagrams: H0 (minima and the saddles that join them){higher}. "
        f"{shown.graph_in_words}",
        "How long each of them lasts, in nats per token.",
        "That a point near the diagonal is real. It may be noise of the sequences. The table counts the "
        "branches that are confirmed.",
        "Death against birth of every class, in a panel for each of several checkpoints.",
    )


ON_PAGE = OnPage("surface_diagrams", needs=has_surfaces, draw=_drawn, caption=_caption, folded=True)
