"""The surfaces of a run as numbers for the turning view on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.probes.landscape.kept import KeptSurface
from toposcope.report.landscape.captions import view_caption
from toposcope.report.parts import Caption
from toposcope.topology.merge_tree import MergeTree, merge_tree


@dataclass(frozen=True, slots=True)
class SurfaceView:
    """What the script draws: a frame for each checkpoint, as plain lists.

    A frame has `step`, `values` (rows of losses; None where masked) and `branches`: the places of each
    minimum, then, where its branch ends, of the saddle and of the minimum that survives there.
    """

    caption: Caption
    frames: list[dict[str, object]]


def surface_view(shown: Sequence[KeptSurface]) -> SurfaceView | None:
    """Return the view of surfaces on two directions; None where there is none."""
    flat = [one for one in shown if one.surface.mean.ndim == 2]
    return SurfaceView(view_caption(flat[0].run), [_frame(one) for one in flat]) if flat else None


def _frame(one: KeptSurface) -> dict[str, object]:
    values = np.round(one.surface.mean, 5)
    tree = merge_tree(one.surface.mean)
    rows = [[float(v) if np.isfinite(v) else None for v in row] for row in values]
    return {"step": one.step, "values": rows, "branches": _branches(tree)}


def _branches(tree: MergeTree) -> list[list[list[int]]]:
    found = []
    for branch in np.flatnonzero(tree.persistence > 0):
        places = [int(tree.minimum[branch])]
        if tree.saddle[branch] >= 0:
            places += [int(tree.saddle[branch]), int(tree.minimum[tree.parent[branch]])]
        found.append([[int(part) for part in np.unravel_index(place, tree.shape)] for place in places])
    return found
