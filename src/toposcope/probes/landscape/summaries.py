"""The numbers of one sampled surface: merge and split tree, loops, and what its noise leaves of it."""

from __future__ import annotations

import itertools

import numpy as np

from toposcope.topology.merge_tree import Graph, MergeTree, merge_tree, merge_tree_of_graph
from toposcope.topology.surface_homology import surface_homology
from toposcope.topology.surfaces import confirmed_branches, mutual_neighbours, surface_summaries

_KEPT = (
    "minima", "saddles", "total_persistence", "average_persistence", "max_persistence", "depth_mean",
    "depth_max", "smad", "largest_basin", "range", "masked",
)  # fmt: skip


def tree_of(values: np.ndarray, graph: str) -> MergeTree:
    """Return the merge tree of values on a lattice; "knn" joins mutual 4 n nearest neighbours instead."""
    if graph != "knn":
        return merge_tree(values, graph=_graph(graph))
    places = np.array(list(itertools.product(*map(range, values.shape))), dtype=np.float64)
    return merge_tree_of_graph(
        values.ravel(), mutual_neighbours(places, min(4 * values.ndim, len(places) - 1))
    )


def summarise(values: np.ndarray, graph: str) -> dict[str, float]:
    """Return the summaries of values on a lattice (r_1, ..., r_n); NaN masks a place.

    >>> found = summarise(np.array([3.0, 0.0, 2.0, 1.0, 4.0]), "lattice")
    >>> found["minima"], found["saddles"], found["trivial"], found["maxima"]
    (2.0, 1.0, 0.0, 3.0)
    """
    found = surface_summaries(tree_of(values, graph))
    split = surface_summaries(tree_of(-values, graph))
    made = {name: found[name] for name in _KEPT}
    made["trivial"] = float(found["minima"] == 1)
    made["maxima"] = split["minima"]
    made["split_average_persistence"] = split["average_persistence"]
    if graph != "knn":  # scattered samples have no complex of their own
        for diagram in surface_homology(values, graph=_graph(graph))[1:]:
            bars = diagram.death - diagram.birth
            ending = bars[np.isfinite(bars)]
            made[f"h{diagram.dim}_count"] = float(len(ending))
            made[f"h{diagram.dim}_total"] = float(ending.sum())
    return made


def confirmed(losses: np.ndarray, graph: str) -> dict[str, float]:
    """Return how many branches half of the sequences show, and how many of them the other half confirms."""
    if graph == "knn":
        return {}
    found, clear = confirmed_branches(losses, graph=_graph(graph))
    return {"branches_found": float(found), "branches_confirmed": float(clear)}


def _graph(graph: str) -> Graph:
    return "kuhn" if graph == "kuhn" else "lattice"
