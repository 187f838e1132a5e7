"""Persistent homology of a sampled surface on the same complex as its merge tree."""

from __future__ import annotations

import itertools

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.core.wording import option
from toposcope.topology.merge_tree import Graph, check_surface, neighbours

# The triangulation is built in memory: a larger one is refused, and the lattice graph needs none.
_MOST_SIMPLICES = 20_000_000


def surface_homology(values: np.ndarray, *, graph: Graph = "lattice") -> list[Diagram]:
    """Return the sublevel diagrams of a function sampled on a lattice, one per dimension below the lattice's.

    "lattice" uses the cubical complex whose vertices are the samples, "kuhn" the lower-star filtration of
    Kuhn's triangulation. These complexes have the graphs of `merge_tree`. A class that never dies, for
    example because its hole is masked, is essential (death at infinity). Bars of length 0 are left out. The
    unit is that of the values (Wagner, Chen and Vuçini 2012, for the cubical complex).

    Parameters
    ----------
    values : array_like, shape (r_1, ..., r_d), d = 1, 2 or 3
        NaN masks a place.
    graph : {"lattice", "kuhn"}

    Raises
    ------
    InputError
        As `merge_tree`; or a triangulation of more than 20 million simplices.

    Examples
    --------
    >>> ring = np.array([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]])
    >>> h0, h1 = surface_homology(ring)
    >>> h1.birth.tolist(), h1.death.tolist()
    ([1.0], [5.0])
    """
    field = check_surface(values)
    neighbours(field.ndim, graph)  # refuses an unknown graph
    intervals = _cubical(field) if graph == "lattice" else _kuhn(field)
    return [_diagram(bars, dim, field) for dim, bars in enumerate(intervals)]


def _cubical(field: np.ndarray) -> list[np.ndarray]:
    from gudhi import CubicalComplex

    filled = np.where(np.isnan(field), np.inf, field)
    cubical = CubicalComplex(vertices=filled)
    cubical.compute_persistence(min_persistence=0)
    return [cubical.persistence_intervals_in_dimension(dim) for dim in range(field.ndim)]


def _kuhn(field: np.ndarray) -> list[np.ndarray]:
    from gudhi import SimplexTree

    if field.size * (2 ** (field.ndim + 1)) > _MOST_SIMPLICES:
        raise InputError(
            f"values has {field.size:,} places, whose triangulation has more than {_MOST_SIMPLICES:,} "
            "simplices",
            remedy=f"use {option('graph', 'lattice')}",
        )
    tree, heights = SimplexTree(), field.ravel()
    for simplices in _simplices(field).values():  # faces first, or a coface would raise them
        if len(simplices):
            tops = heights[simplices].max(axis=1)
            tree.insert_batch(np.ascontiguousarray(simplices.T), tops)
    tree.compute_persistence(min_persistence=0, persistence_dim_max=False)
    return [tree.persistence_intervals_in_dimension(dim) for dim in range(field.ndim)]


def _simplices(field: np.ndarray) -> dict[int, np.ndarray]:
    """Return the simplices of Kuhn's triangulation without masked vertices, by number of vertices.

    They are the chains a < a + s_1 < a + s_1 + s_2 ... whose steps are 0 or 1 along every axis and disjoint.
    """
    places = np.arange(field.size, dtype=np.int32).reshape(field.shape)
    corners_by_size: dict[int, list[np.ndarray]] = {}
    for chain in _chains(field.ndim):
        reach = chain[-1]
        if any(n <= r for n, r in zip(field.shape, reach, strict=True)):
            continue
        extent = [n - r for n, r in zip(field.shape, reach, strict=True)]
        corners = [
            places[tuple(slice(o, o + n) for o, n in zip(offset, extent, strict=True))].ravel()
            for offset in chain
        ]
        corners_by_size.setdefault(len(chain), []).append(np.stack(corners, axis=1))
    good = ~np.isnan(field.ravel())
    whole = {size: np.concatenate(parts) for size, parts in sorted(corners_by_size.items())}
    return {size: rows[good[rows].all(axis=1)] for size, rows in whole.items()}


def _chains(dimensions: int) -> list[tuple[tuple[int, ...], ...]]:
    """Return every ascending chain of corners of the unit cube that starts at the origin."""
    corners = list(itertools.product((0, 1), repeat=dimensions))
    chains: list[tuple[tuple[int, ...], ...]] = [((0,) * dimensions,)]
    for chain in chains:  # grows while it is read: every chain is extended by all corners above its last
        last = chain[-1]
        chains.extend(
            (*chain, corner)
            for corner in corners
            if corner != last and all(a <= b for a, b in zip(last, corner, strict=True))
        )
    return chains


def _diagram(bars: np.ndarray, dim: int, field: np.ndarray) -> Diagram:
    bars = np.asarray(bars, np.float64).reshape(-1, 2)
    bars = bars[np.isfinite(bars[:, 0]) & (bars[:, 1] > bars[:, 0])]
    bars = bars[np.lexsort((bars[:, 1], bars[:, 0]))]
    return Diagram(dim, bars[:, 0].copy(), bars[:, 1].copy(), "sublevel", int((~np.isnan(field)).sum()))
