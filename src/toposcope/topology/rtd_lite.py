"""RTD-Lite: how differently two clouds of the same items cluster, from three minimum spanning trees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.kernels.euclidean_tree import dense_tree
from toposcope.topology.clouds import distance_matrix

QUANTILE = 0.9
"""Each cloud's distances are divided by this quantile of them, as in the paper."""


def rtd_lite(X: Any, Y: Any, *, metric: str = "euclidean") -> float:
    r"""Return how differently two clouds of the same n items cluster; row i of both is one item.

    .. math:: \tfrac12 \left(|T(a)| + |T(b)|\right) - |T(\min(a, b))|

    a and b are the matrices of distances, each divided by the .9 quantile of its distances of two items.
    :math:`|T(w)|` is the total length of the minimum spanning tree of the complete graph with weights w. The
    value is at least 0, and 0 if a = b; rotating, moving or scaling one cloud does not change it.

    Parameters
    ----------
    X, Y : array of shape (n, d) and (n, e), or (n, n) when `metric` is "precomputed"
        At least two rows; d and e may differ.
    metric : {"euclidean", "cosine", "precomputed"}
        The distance of two items.

    Returns
    -------
    float
        Without unit, between 0 and n - 1 times the largest divided distance.

    Raises
    ------
    InputError
        Clouds with different numbers of rows, or nine in ten distances of one of them are 0.

    References
    ----------
    Tulchinskii et al., "RTD-Lite: scalable topological analysis for comparing weighted graphs in learning
    tasks", AISTATS (2025).

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [3.0]])
    >>> rtd_lite(line, 5 * line), round(rtd_lite(line, line[[0, 2, 1]]), 3)
    (0.0, 0.357)
    """
    return float(rtd_lite_matrix([X, Y], metric=metric)[0, 1])


def rtd_lite_matrix(clouds: Sequence[Any], *, metric: str = "euclidean") -> np.ndarray:
    """Return `rtd_lite` of all pairs of k clouds of the same n items, shape (k, k), zero on the diagonal.

    Unit, source (Tulchinskii et al. 2025) and errors are those of `rtd_lite`.

    >>> rtd_lite_matrix([np.eye(3), np.eye(3), np.diag([1.0, 2.0, 4.0])]).shape
    (3, 3)
    """
    weights = [
        _divided(distance_matrix(cloud, metric, name=f"cloud {at}"), at) for at, cloud in enumerate(clouds)
    ]
    sizes = sorted({len(matrix) for matrix in weights})
    if len(sizes) > 1:
        raise InputError(
            f"the clouds have {sizes[0]:,} to {sizes[-1]:,} rows; RTD-Lite compares clouds of the same "
            "items: give the same rows of each, in one order"
        )
    trees = [_tree(matrix) for matrix in weights]
    out = np.zeros((len(weights), len(weights)))
    for i, j in combinations(range(len(weights)), 2):
        beyond = (trees[i] + trees[j]) / 2.0 - _tree(np.minimum(weights[i], weights[j]))
        out[i, j] = out[j, i] = max(beyond, 0.0)  # below 0 by rounding alone
    return out


def swapped_rtd_lite(between: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return `rtd_lite` of two clouds for every way to swap their rows.

    `between` (2n, 2n) are the distances of all rows, those of the first cloud before the others; `kept`
    (k, n) says for each way which rows stay.
    """
    n = kept.shape[1]
    out = np.empty(len(kept))
    for at, stays in enumerate(kept):
        rows = np.arange(n) + n * ~stays
        others = np.arange(n) + n * stays
        pair = between[np.ix_(rows, rows)], between[np.ix_(others, others)]
        out[at] = rtd_lite_matrix(pair, metric="precomputed")[0, 1]
    return out


def _divided(distances: np.ndarray, at: int) -> np.ndarray:
    """Return the distances in units of their .9 quantile over the pairs of items."""
    if len(distances) < 2:
        raise InputError(f"cloud {at} has one row; RTD-Lite needs at least two")
    unit = float(np.quantile(distances[np.triu_indices(len(distances), 1)], QUANTILE))
    if unit == 0.0:
        raise InputError(f"cloud {at}: nine in ten distances are 0; drop the repeated rows")
    return distances / unit


def _tree(weights: np.ndarray) -> float:
    """Return the total length of the minimum spanning tree."""
    return float(dense_tree(weights)[2].sum())
