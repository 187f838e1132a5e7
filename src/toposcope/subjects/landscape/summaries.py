"""The numbers of one sampled surface: merge and split tree, loops, and branches that noise cannot explain."""

from __future__ import annotations

import numpy as np

from toposcope.subjects.landscape.geometry.surface import Surface
from toposcope.subjects.landscape.reach import check_reach
from toposcope.topology.sampled_surface import SurfaceTopology, sampled_tree, surface_topology
from toposcope.topology.surfaces import surface_summaries

_OF_TREE = (
    "minima", "saddles", "total_persistence", "average_persistence", "max_persistence", "depth_mean",
    "depth_max", "smad", "largest_basin", "range", "masked",
)  # fmt: skip


def summarise(values: np.ndarray, graph: str) -> dict[str, float]:
    """Return the summaries of values on a lattice (r_1, ..., r_n); NaN masks a place.

    >>> found = summarise(np.array([3.0, 0.0, 2.0, 1.0, 4.0]), "lattice")
    >>> found["minima"], found["saddles"], found["trivial"], found["maxima"]
    (2.0, 1.0, 0.0, 3.0)
    """
    return summaries_of(surface_topology(values, graph=graph))


def topology_of(surface: Surface, graph: str, places: tuple[slice, ...] = (slice(None),)) -> SurfaceTopology:
    """Return the topology of a surface on some grid points; points without all sequences' losses are masked.

    Raises
    ------
    InputError
        If the surface has a loss only at its centre.
    """
    check_reach(surface.finite, float(surface.axes[0][-1]))
    losses = np.where(surface.finite[..., None], surface.losses, np.nan)
    return surface_topology(surface.mean[places], graph=graph, losses=losses[places])


def summaries_of(topology: SurfaceTopology) -> dict[str, float]:
    """Return the summaries of a surface whose topology is known.

    With tested branches, also how many branches half of the sequences show and the other half confirms.
    """
    tree, graph = topology.tree, topology.graph
    summaries = surface_summaries(tree)
    split = surface_summaries(sampled_tree(-tree.values.reshape(tree.shape), graph))
    by_name = {name: summaries[name] for name in _OF_TREE}
    by_name["trivial"] = float(topology.trivial)
    by_name["maxima"] = split["minima"]
    by_name["split_average_persistence"] = split["average_persistence"]
    for diagram in topology.homology[1:]:
        bars = diagram.death - diagram.birth
        ending = bars[np.isfinite(bars)]
        by_name[f"h{diagram.dim}_count"] = float(len(ending))
        by_name[f"h{diagram.dim}_total"] = float(ending.sum())
    tested = topology.branches
    if tested is not None:
        by_name["branches_found"] = float(tested.found)
        by_name["branches_confirmed"] = float(tested.confirmed.sum())
    return by_name
