"""The topology of one sampled surface: its merge tree, its homology, and its confirmed branches."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology.merge_tree import (
    Graph,
    MergeTree,
    check_surface,
    merge_tree,
    merge_tree_of_graph,
)
from toposcope.topology.surface_homology import surface_homology
from toposcope.topology.surfaces import BranchIntervals, branch_intervals, mutual_neighbours

_LEAST = 4
"""The fewest sequences for a test of branches: two for the tree, two for the interval."""


@dataclass(frozen=True)
class ConfirmedBranches:
    """The branches on every second sequence, each with its interval from the other sequences.

    `tree` comes from the mean of the sequences 0, 2, 4, ...; the sequences 1, 3, 5, ... were not used for it.
    """

    tree: MergeTree
    intervals: BranchIntervals

    @property
    def found(self) -> int:
        """The number of branches that end."""
        return len(self.intervals.branch)

    @property
    def confirmed(self) -> np.ndarray:
        """Which branches of the tree the other sequences confirm, (b,) bool: their interval lies above 0."""
        marked = np.zeros(len(self.tree), dtype=bool)
        marked[self.intervals.branch[self.intervals.clear]] = True
        return marked


@dataclass(frozen=True)
class SurfaceTopology:
    """The topology of a surface on one graph.

    `tree` is the merge tree of the mean over all sequences; its `shape` is that of the lattice. `homology`
    has the sublevel diagrams from H0 on; for "knn", which has no complex, only H0. `branches` are the tested
    branches; None with fewer than four sequences.
    """

    graph: str
    tree: MergeTree
    homology: tuple[Diagram, ...]
    branches: ConfirmedBranches | None = None

    @property
    def minima(self) -> int:
        """The number of minima."""
        return int(self.tree.lasting.sum())

    @property
    def trivial(self) -> bool:
        """Whether there is a single minimum: such a surface has no branch to compare."""
        return self.minima == 1


def surface_topology(
    values: np.ndarray, *, graph: str = "lattice", losses: np.ndarray | None = None, level: float = 0.95
) -> SurfaceTopology:
    """Return the topology of a function sampled on a lattice.

    Parameters
    ----------
    values : array, shape (r_1, ..., r_n), n = 1, 2 or 3
        NaN masks a place.
    graph : {"lattice", "kuhn", "knn"}
        Which grid points are neighbours.
    losses : array, shape (r_1, ..., r_n, sequences), optional
        The loss of each sequence, on which the branches are tested; the values are their mean.
    level : float
        Coverage of each branch's interval.

    Raises
    ------
    InputError
        As `merge_tree` and `branch_intervals`.

    Examples
    --------
    >>> found = surface_topology(np.array([3.0, 0.0, 2.0, 1.0, 4.0]))
    >>> found.tree.minimum.tolist(), len(found.homology)
    ([1, 3], 1)
    """
    field = check_surface(values)
    tree = sampled_tree(field, graph)
    homology = (tree.diagram,) if graph == "knn" else tuple(surface_homology(field, graph=cast(Graph, graph)))
    tested = None
    if losses is not None and np.shape(losses)[-1] >= _LEAST:
        tested = confirmed_branches(losses, graph=graph, level=level)
    return SurfaceTopology(graph, tree, homology, tested)


def sampled_tree(values: np.ndarray, graph: str) -> MergeTree:
    """Return the merge tree of values on a lattice, on any of the graphs."""
    if graph != "knn":
        return merge_tree(values, graph=cast(Graph, graph))
    return replace(merge_tree_of_graph(values.ravel(), _nearest(values.shape)), shape=values.shape)


@lru_cache(maxsize=8)
def _nearest(shape: tuple[int, ...]) -> np.ndarray:
    """Return the edges between the mutual 4 n nearest points of a lattice."""
    places = np.array(list(itertools.product(*map(range, shape))), dtype=np.float64)
    return mutual_neighbours(places, min(4 * len(shape), len(places) - 1))


def confirmed_branches(
    losses: np.ndarray, *, graph: str = "lattice", level: float = 0.95
) -> ConfirmedBranches:
    """Return the branches on every second sequence, with their intervals from the others.

    A branch whose interval lies above 0 is confirmed. Other sequences test it than those that found it, so
    noise passes with a probability of at most (1 - `level`) / 2.

    Parameters
    ----------
    losses : array, shape (r_1, ..., r_n, sequences)
        At least four sequences; NaN masks a place.

    Raises
    ------
    InputError
        When there are fewer than four sequences.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(15, 15, 64))
    >>> found = confirmed_branches(noise)
    >>> found.found > 20, int(found.confirmed.sum()) <= 0.1 * found.found
    (True, True)
    """
    array = np.asarray(losses, np.float64)
    if array.ndim < 2 or array.shape[-1] < _LEAST:
        raise InputError(f"losses has shape {array.shape}; the last axis needs at least four sequences")
    tree = sampled_tree(array[..., ::2].mean(axis=-1), graph)
    return ConfirmedBranches(tree, branch_intervals(tree, array[..., 1::2], level=level))
