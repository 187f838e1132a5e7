"""Numbers of a sampled loss surface: summaries of its merge tree, and intervals for its branches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from toposcope.core.distributions import student_quantile
from toposcope.core.errors import InputError
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.validation import check_points

_TIE = 1e-9
"""Distances whose relative difference is below this count as equal."""


def surface_summaries(tree: MergeTree) -> dict[str, float]:
    """Return the scalar summaries of a merge tree; lengths are in the unit of the sampled values.

    ``minima`` counts the branches of positive persistence; ``saddles`` counts those of them that end, which
    on a connected domain is minima - 1 and adds no information. ``total_persistence``,
    ``average_persistence`` and ``max_persistence`` are over the branches that end (0 where there are none);
    ``depth_mean`` and ``depth_max`` are the heights of leaves, from a minimum to the first saddle above it;
    ``smad`` is their mean over leaves that have a saddle. ``largest_basin`` is the share of grid points in
    the widest basin, by steepest descent; ``range`` is the highest minus the lowest value and ``masked`` the
    share of grid points without a value.

    >>> from toposcope.topology.merge_tree import merge_tree
    >>> found = surface_summaries(merge_tree([3.0, 0.0, 2.0, 1.0, 4.0]))
    >>> found["minima"], found["saddles"], found["average_persistence"], found["smad"]
    (2.0, 1.0, 1.0, 1.5)
    """
    real = tree.lasting
    ending = real & (tree.saddle >= 0)
    bars = tree.persistence[ending]
    leaf = real & (tree.arc_end[: len(tree)] >= 0)
    basins = np.bincount(tree.basin[tree.basin >= 0], minlength=len(tree))
    return {
        "minima": float(real.sum()),
        "saddles": float(ending.sum()),
        "total_persistence": float(bars.sum()),
        "average_persistence": float(bars.mean()) if len(bars) else 0.0,
        "max_persistence": float(bars.max()) if len(bars) else 0.0,
        "depth_mean": float(tree.depth[real].mean()),
        "depth_max": float(tree.depth[real].max()),
        "smad": float(tree.depth[leaf].mean()) if leaf.any() else 0.0,
        "largest_basin": float(basins.max() / basins.sum()),
        "range": float(np.nanmax(tree.values) - np.nanmin(tree.values)),
        "masked": tree.masked / len(tree.values),
    }


@dataclass(frozen=True)
class BranchIntervals:
    """Persistence of the branches that end, with paired intervals over sequences.

    `branch` (k,) int64 are columns of the tree; `persistence`, `low` and `high` (k,) are mean differences
    loss(saddle) - loss(minimum) over sequences with Student's intervals at `level`.
    """

    branch: np.ndarray
    persistence: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float

    @property
    def clear(self) -> np.ndarray:
        """Which branches have an interval above 0, (k,) bool."""
        return self.low > 0


def branch_intervals(tree: MergeTree, losses: np.ndarray, *, level: float = 0.95) -> BranchIntervals:
    """Return the paired interval of loss(saddle) - loss(minimum) of every branch that ends.

    With differences :math:`d_s` over S sequences the interval is mean +- t sd / sqrt(S). The two points were
    chosen because they are high and low on a surface. If the same sequences made that surface, the interval
    is centred too high; to avoid this, give a tree from other sequences (see `confirmed_branches`).

    Parameters
    ----------
    tree : MergeTree
    losses : array, shape (places, S) or (r_1, ..., r_d, S)
        Loss of each sequence at each grid point of the tree.
    level : float
        Coverage of each single interval.

    Raises
    ------
    InputError
        If the grid points do not match, there are fewer than two sequences, or `level` is not a probability.
    """
    per_place = np.asarray(losses, np.float64).reshape(-1, np.shape(losses)[-1])
    if len(per_place) != len(tree.values):
        raise InputError(
            f"losses has {len(per_place):,} places, but the tree has "
            f"{len(tree.values):,}; give one row per place"
        )
    if per_place.shape[1] < 2:
        raise InputError("losses has one sequence; an interval needs at least two")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a probability such as 0.95")
    ending = np.flatnonzero((tree.saddle >= 0) & tree.lasting)
    rise = per_place[tree.saddle[ending]] - per_place[tree.minimum[ending]]
    mean, count = rise.mean(axis=1), rise.shape[1]
    half = student_quantile((1 + level) / 2, count - 1) * rise.std(axis=1, ddof=1) / np.sqrt(count)
    return BranchIntervals(ending, mean, mean - half, mean + half, level)


def mutual_neighbours(points: np.ndarray, k: int) -> np.ndarray:
    """Return the edges of the mutual k-nearest-neighbour graph of scattered samples, int64 (m, 2).

    i and j are joined if each is within the other's k-th smallest distance. Ties always count: on a lattice,
    every neighbour at the k-th distance is joined, and permuting the points changes nothing.

    Raises
    ------
    InputError
        Bad points, or k outside 1 to n - 1.

    References
    ----------
    Xie et al. and Geniesse et al. use k = 4 d; the graph may be disconnected, and its merge tree a forest.

    >>> mutual_neighbours([[0.0], [1.0], [3.0]], 1).tolist()
    [[0, 1]]
    """
    cloud = check_points(points).astype(np.float64)
    if not 1 <= k < len(cloud):
        raise InputError(f"k is {k}; {len(cloud):,} points have between 1 and {len(cloud) - 1} neighbours")
    tree = cKDTree(cloud)
    reach = tree.query(cloud, k=k + 1)[0][:, -1] * (1 + _TIE)
    near = tree.query_ball_point(cloud, reach)
    rows = np.repeat(np.arange(len(cloud)), [len(neighbours) for neighbours in near])
    columns = np.concatenate([np.asarray(neighbours, np.int64) for neighbours in near])
    gap = np.linalg.norm(cloud[rows] - cloud[columns], axis=1)
    mutual = (rows < columns) & (gap <= np.minimum(reach[rows], reach[columns]))
    return np.stack([rows[mutual], columns[mutual]], axis=1)
