"""Vietoris-Rips H0 of a point cloud: the merging of its components, from the minimum spanning tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.kernels.euclidean_tree import tree_lengths
from toposcope.topology.validation import check_points, check_tensor, on_device

Metric = Literal["euclidean", "cosine"]


def components(X: Any, *, metric: Metric = "euclidean", name: str = "X") -> Diagram:
    """Return the H0 diagram of all rows of `X`, exact: n - 1 merges and one essential class.

    Every point is born at 0; the finite deaths are the lengths of the minimum spanning tree's edges,
    ascending, and the last class never dies. Duplicate points merge at 0 and stay in the diagram, so
    n points always give n bars; one point gives the essential bar alone. The tree is Prim's (1957).

    Parameters
    ----------
    X : array_like or torch.Tensor, shape (n, d)
        float16, bfloat16, float32, float64 or integers. A tensor on a GPU is measured there.
    metric : {"euclidean", "cosine"}
        Unit of the deaths: the Euclidean distance, or 1 - cos of the angle.
    name : str
        Name of the cloud in errors.

    Returns
    -------
    Diagram
        dim 0, filtration = `metric`, `n_vertices` = n.

    Raises
    ------
    InputError
        No points, NaN or infinity, an unknown metric, a zero row under cosine.

    Examples
    --------
    >>> components([[0.0], [1.0], [5.0]]).death
    array([ 1.,  4., inf])
    """
    if metric not in ("euclidean", "cosine"):
        raise InputError(f"metric = {metric!r} is unknown; use euclidean or cosine")
    tree: Callable[..., np.ndarray]
    if on_device(X):
        from toposcope.kernels import torch_euclidean

        check_tensor(X, name=name, rank="a point cloud")
        points, tree = X, torch_euclidean.tree_lengths
    else:
        points, tree = check_points(X, name=name), tree_lengths
    if metric == "cosine":
        _require_nonzero_rows(points, name)
    lengths = tree(points, unit=metric == "cosine")
    if metric == "cosine":
        lengths = lengths**2 / 2  # |x - y|^2 = 2 - 2 cos for unit vectors
    return Diagram(
        dim=0,
        birth=np.zeros(len(points)),
        death=np.append(lengths, np.inf),
        filtration=metric,
        n_vertices=len(points),
    )


def _require_nonzero_rows(points: Any, name: str) -> None:
    zero = ~(points != 0).any(axis=1)
    if zero.any():
        row = int(zero.nonzero()[0][0])
        raise InputError(f"{name}[{row}] is a zero row, which has no direction for cosine: drop it")
