"""The topological landscape profile: a merge tree drawn as basins; their width is a number of grid points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposcope.topology.merge_tree import MergeTree


@dataclass(frozen=True)
class Basin:
    """One arc of the tree as a closed outline.

    `x` and `y` (m,) trace it: down the left flank and up the right one; x counts grid points, y is in the
    unit of the values. `mean` is the mean value of the points on the arc, `leaf` whether a minimum is at its
    foot.
    """

    x: np.ndarray
    y: np.ndarray
    mean: float
    leaf: bool


def landscape_profile(tree: MergeTree) -> list[Basin]:
    """Return the outlines of the profile, arcs from the roots downwards.

    The width of an arc at height v is the number of grid points at or below v in its subtree. The arc is
    symmetric about its centre and is closed at the value of the saddle where it ends (at its highest point if
    it never ends). The arcs that meet at its foot are placed from left to right, wider ones first, and are
    centred in it. Trees of a forest are side by side.

    References
    ----------
    Geniesse et al., *Visualizing loss functions as topological landscape profiles* (2024).

    Examples
    --------
    >>> from toposcope.topology.merge_tree import merge_tree
    >>> outlines = landscape_profile(merge_tree([3.0, 0.0, 2.0, 1.0, 4.0]))
    >>> [(float(np.ptp(o.x)), o.leaf) for o in outlines]
    [(5.0, False), (1.0, True), (1.0, True)]
    """
    own_values = _own_values(tree)
    children = {len(tree) + j: (int(row[3]), int(row[4])) for j, row in enumerate(tree.merges)}
    width = _widths(tree, [len(values) for values in own_values])
    roots = sorted(np.flatnonzero(tree.arc_end < 0).tolist(), key=lambda arc: (-width[arc], arc))
    outlines, left = [], 0.0
    stack: list[tuple[int, float]] = []
    for root in roots:
        stack.append((root, left + width[root] / 2))
        left += width[root]
    while stack:
        arc, centre = stack.pop(0)
        below = sorted(children.get(arc, ()), key=lambda child: (-width[child], child))
        outlines.append(
            _outline(tree, arc, own_values[arc], centre, foot=sum(width[child] for child in below))
        )
        edge = centre - sum(width[child] for child in below) / 2
        for child in below:
            stack.append((child, edge + width[child] / 2))
            edge += width[child]
    return outlines


def _own_values(tree: MergeTree) -> list[np.ndarray]:
    """Return the sorted values of the grid points on each arc."""
    arcs = len(tree) + len(tree.merges)
    inside = np.flatnonzero(tree.arc >= 0)
    order = inside[np.lexsort((tree.values[inside], tree.arc[inside]))]
    cuts = np.searchsorted(tree.arc[order], np.arange(1, arcs))
    return np.split(tree.values[order], cuts)


def _widths(tree: MergeTree, own_counts: list[int]) -> list[int]:
    width = list(own_counts)
    for j, row in enumerate(tree.merges):
        width[len(tree) + j] += width[row[3]] + width[row[4]]
    return width


def _outline(tree: MergeTree, arc: int, values: np.ndarray, centre: float, *, foot: int) -> Basin:
    end = int(tree.arc_end[arc])
    leaf = arc < len(tree)
    start = values[:1] if leaf else tree.values[tree.merges[arc - len(tree), 0]][None]
    top = tree.values[end] if end >= 0 else (values[-1] if len(values) else start[0])
    height = np.concatenate([start, values, [top]])
    half = np.concatenate([[foot], foot + np.arange(1, len(values) + 1), [foot + len(values)]]) / 2
    x = np.concatenate([centre - half[::-1], centre + half])
    y = np.concatenate([height[::-1], height])
    mean = float(values.mean()) if len(values) else float(start[0])
    return Basin(x, y, mean, leaf)
