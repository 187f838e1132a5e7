"""Merge trees of sampled functions: minima, the saddles that join them, branches and basins."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.kernels import merge_tree as kernel

Graph = Literal["lattice", "kuhn"]
"""Neighbours on a lattice: the 2 d along the axes, or the 2 (2^d - 1) in Kuhn's triangulation."""

_MOST = 2**31 - 2
"""The kernel numbers grid points with 32 bits."""


@dataclass(frozen=True)
class MergeTree:
    """The merge tree of the sublevel sets of a function on n vertices, b of them minima.

    Branches are sorted by the value of their minimum. Of two components that meet, the branch of the higher
    minimum ends at the saddle (the elder rule). A connected domain therefore has b - 1 saddles, counted with
    multiplicity, and the number of saddles adds nothing to the number of minima. Ties are broken by the
    vertex's index, which can only add branches of persistence 0.

    `values` (n,) float64, NaN where a vertex is masked; `minimum`, `saddle`, `parent`, `size` (b,) int64: the
    vertex of the minimum, the vertex where the branch ends, the branch that survives there (both -1 for a
    branch that never ends) and the number of vertices that it has then. `merges` (b - components, 5) has the
    columns saddle, surviving and ending branch, and the two arcs that end there. `arc` (n,) is the arc of the
    tree on which each vertex lies: below b the leaf of a branch, b + j the arc above merge j. `basin` (n,) is
    the branch to which steepest descent leads. Both are -1 where masked. `shape` is that of the lattice, ()
    for a graph.
    """

    values: np.ndarray
    minimum: np.ndarray
    saddle: np.ndarray
    parent: np.ndarray
    size: np.ndarray
    merges: np.ndarray
    arc: np.ndarray
    basin: np.ndarray
    shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        """Return the number of branches, including those of persistence 0."""
        return len(self.minimum)

    @property
    def masked(self) -> int:
        """The number of vertices without a value."""
        return int(np.isnan(self.values).sum())

    @cached_property
    def persistence(self) -> np.ndarray:
        """Value of the saddle minus that of the minimum, (b,) float64; infinite if a branch never ends."""
        return self._death - self.values[self.minimum]

    @cached_property
    def lasting(self) -> np.ndarray:
        """Which branches have a minimum of their own, (b,) bool: those of persistence above 0, not ties."""
        return self.persistence > 0

    @cached_property
    def depth(self) -> np.ndarray:
        """Height of each leaf, (b,): from the minimum to the first saddle above; without one, the range."""
        first = self.arc_end[: len(self)]
        top = np.where(first >= 0, self.values[first], np.nanmax(self.values))
        return top - self.values[self.minimum]

    @cached_property
    def arc_end(self) -> np.ndarray:
        """The vertex of the merge where each arc ends, (b + merges,) int64; -1 for arcs that never end."""
        ends = np.full(len(self) + len(self.merges), -1, np.int64)
        for column in (3, 4):
            ends[self.merges[:, column]] = self.merges[:, 0]
        return ends

    @property
    def diagram(self) -> Diagram:
        """The H0 diagram of the sublevel filtration; bars of length 0 are left out."""
        birth, death = self.values[self.minimum[self.lasting]], self._death[self.lasting]
        return Diagram(0, birth, death, "sublevel", len(self.values) - self.masked)

    @cached_property
    def _death(self) -> np.ndarray:
        return np.where(self.saddle >= 0, self.values[self.saddle], np.inf)


def merge_tree(values: np.ndarray, *, graph: Graph = "lattice") -> MergeTree:
    """Return the merge tree of a function sampled on a lattice of one to three dimensions.

    Sublevel sets are taken on the graph of neighbours in the lattice. `surface_homology` uses the complex
    with the same graph, so its H0 is that of this tree. For a split tree, pass the negated values. The cost
    is O(n log n) for sorting and almost O(n) after it.

    Parameters
    ----------
    values : array_like, shape (r_1, ..., r_d), d = 1, 2 or 3
        NaN masks a grid point: it belongs to no sublevel set and is not filled in.
    graph : {"lattice", "kuhn"}
        The 2 d neighbours along the axes, or those of Kuhn's triangulation (all steps of 0 or 1 along the
        axes, and their negatives).

    Returns
    -------
    MergeTree
        Heights in the unit of the values.

    Raises
    ------
    InputError
        Wrong rank, no values, infinite values, or only NaN.

    References
    ----------
    Carr, Snoeyink and Axen, *Computing contour trees in all dimensions* (2003).

    Examples
    --------
    >>> tree = merge_tree([3.0, 0.0, 2.0, 1.0, 4.0])
    >>> tree.minimum.tolist(), tree.saddle.tolist(), tree.persistence.tolist()
    ([1, 3], [-1, 2], [inf, 1.0])
    """
    field = check_surface(values)
    steps = neighbours(field.ndim, graph)
    padded = np.pad(field, 1, constant_values=np.nan)
    strides = np.array(padded.strides) // padded.itemsize
    sweep = kernel.merge_lattice(padded.ravel(), steps @ strides)
    corner = tuple(slice(1, -1) for _ in field.shape)
    arc, basin = (part.reshape(padded.shape)[corner].ravel() for part in sweep[2:])
    place = np.full(padded.size + 1, -1, np.int64)
    place[:-1].reshape(padded.shape)[corner] = np.arange(field.size).reshape(field.shape)
    return _tree(field.ravel(), sweep[0], sweep[1], arc, basin, place, field.shape)


def merge_tree_of_graph(values: np.ndarray, edges: np.ndarray) -> MergeTree:
    """Return the merge tree (a forest if the graph is not connected) of a function on a graph.

    Parameters
    ----------
    values : array_like, shape (n,)
        NaN masks a vertex.
    edges : array_like of int, shape (m, 2)
        Undirected edges, each given once or twice.

    Raises
    ------
    InputError
        Wrong ranks, infinite values, only NaN, or an edge to a vertex that does not exist.

    Examples
    --------
    >>> merge_tree_of_graph([0.0, 1.0, 0.5], [[0, 1], [1, 2]]).saddle.tolist()
    [-1, 1]
    """
    field = check_surface(values)
    if field.ndim != 1:
        raise InputError(f"values has shape {field.shape}; give one value per vertex of the graph")
    links = np.asarray(edges, np.int64).reshape(-1, 2)
    if links.size and not (links.min() >= 0 and links.max() < len(field)):
        raise InputError(f"edges name vertex {links.max()} of {len(field)}; give numbers from 0 to n - 1")
    both = np.concatenate([links, links[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    starts = np.searchsorted(both[:, 0], np.arange(len(field) + 1))
    branches, merges, arc, basin = kernel.merge_graph(field, starts, np.ascontiguousarray(both[:, 1]))
    return _tree(field, branches, merges, arc, basin, np.append(np.arange(len(field)), -1), ())


def neighbours(dimensions: int, graph: Graph) -> np.ndarray:
    """Return the steps to the neighbours of a place, int64 of shape (neighbours, dimensions).

    >>> len(neighbours(2, "lattice")), len(neighbours(2, "kuhn")), len(neighbours(3, "kuhn"))
    (4, 6, 14)
    """
    if graph not in ("lattice", "kuhn"):
        raise InputError(f"graph is {graph!r}; choose lattice or kuhn")
    forward = [step for step in itertools.product((0, 1), repeat=dimensions) if any(step)]
    if graph == "lattice":
        forward = [step for step in forward if sum(step) == 1]
    return np.array([*forward, *([-x for x in step] for step in forward)], np.int64)


def check_surface(values: np.ndarray) -> np.ndarray:
    """Return sampled values as a contiguous float64 array of one to three dimensions; NaN is allowed.

    Raises
    ------
    InputError
        Wrong rank, no values, infinite values, or nothing but NaN.
    """
    field = np.ascontiguousarray(values, np.float64)
    if field.ndim not in (1, 2, 3):
        raise InputError(f"values has shape {field.shape}; a sampled surface has one to three axes")
    if not 0 < field.size <= _MOST:
        raise InputError(f"values has {field.size} places; give between 1 and {_MOST}")
    if np.isinf(field).any():
        raise InputError(
            f"values has {int(np.isinf(field).sum())} infinite places; narrow the range or mask them with NaN"
        )
    if np.isnan(field).all():
        raise InputError("values is NaN everywhere; narrow the range until the loss is finite")
    return field


def _tree(
    values: np.ndarray,
    branches: np.ndarray,
    merges: np.ndarray,
    arc: np.ndarray,
    basin: np.ndarray,
    place: np.ndarray,
    shape: tuple[int, ...],
) -> MergeTree:
    """Assemble a tree: the kernel's numbers become vertices."""
    merges[:, 0] = place[merges[:, 0]]
    return MergeTree(
        values=values,
        minimum=place[branches[kernel.MINIMUM]],
        saddle=place[branches[kernel.SADDLE]],
        parent=branches[kernel.PARENT].copy(),
        size=branches[kernel.SIZE].copy(),
        merges=merges,
        arc=arc,
        basin=basin,
        shape=shape,
    )
