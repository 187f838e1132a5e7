"""The surfaces of a run as numbers for the three-dimensional view on the page."""

from __future__ import annotations

import numpy as np

from toposcope.page.on_page import Caption
from toposcope.page.parts import SurfaceView
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures.shown_surfaces import ShownSurfaces, shown_surfaces
from toposcope.subjects.landscape.saved_surfaces import SavedSurface
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.sampled_surface import SurfaceTopology


def surface_view(study: Study) -> SurfaceView | None:
    """Return the view of the surfaces that the page shows; None if they do not have two directions."""
    shown = shown_surfaces(study)
    if not shown.flat:
        return None
    return SurfaceView(_caption(shown), [_frame(surface, topology) for surface, topology in shown])


def _caption(shown: ShownSurfaces) -> Caption:
    return Caption(
        "The surface in three dimensions",
        f"The loss of {shown.surfaces[0].run} on the sampled plane. Height and colour are the loss. Dots are "
        "minima, crosses are saddles, and lines join the basins that merge. A line is thick where one half "
        f"of the sequences confirms what the other half shows. {shown.graph_in_words} Drag the surface or "
        "use the arrow keys to turn it. The slider moves through the checkpoints.",
        "What shape the loss has on this plane: a bowl, a saddle, or more than one basin.",
        shown.beyond_them + " Heights of different checkpoints can be compared only on the common scale.",
        "The sampled loss as a surface in three dimensions, with a slider over checkpoints.",
    )


def _frame(sample: SavedSurface, topology: SurfaceTopology) -> dict[str, object]:
    values = np.round(sample.surface.mean, 5)
    rows = [[float(v) if np.isfinite(v) else None for v in row] for row in values]
    half = topology.branches
    confirmed = [] if half is None else _places(half.tree, np.flatnonzero(half.confirmed))
    real = np.flatnonzero(topology.tree.lasting)
    return {
        "step": sample.step, "values": rows, "branches": _places(topology.tree, real), "confirmed": confirmed,
    }  # fmt: skip


def _places(tree: MergeTree, branches: np.ndarray) -> list[list[list[int]]]:
    branch_places = []
    for branch in branches:
        places = [int(tree.minimum[branch])]
        if tree.saddle[branch] >= 0:
            places += [int(tree.saddle[branch]), int(tree.minimum[tree.parent[branch]])]
        branch_places.append(
            [[int(part) for part in np.unravel_index(place, tree.shape)] for place in places]
        )
    return branch_places
