"""Weighted graphs in the place of points: missing edges, sparse matrices, and two common mistakes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.topology.validation import check_distance_matrix

_FEW, _WIDE = 4, 10
"""A cloud of so few rows, and so many times as many columns, is taken to be transposed."""


def edge_lengths(D: Any, *, name: str = "D") -> np.ndarray | None:
    """Return the lengths of a graph's edges, infinity where there is none; None for a plain distance matrix.

    A scipy sparse matrix has an edge for each stored entry, and each may be stored once or twice.

    Raises
    ------
    InputError
        If the finite entries are not lengths: not square, not symmetric, negative or NaN.

    >>> edge_lengths(np.array([[0.0, np.inf], [np.inf, 0.0]])).tolist()
    [[0.0, inf], [inf, 0.0]]
    """
    if hasattr(D, "tocoo"):
        return _of_sparse(D, name)
    array = np.asarray(D)
    if array.ndim != 2 or array.dtype.kind != "f" or not np.isposinf(array).any():
        return None
    missing = np.isposinf(array)
    if not (missing == missing.T).all():
        i, j = np.argwhere(missing != missing.T)[0]
        raise InputError(
            f"{name}[{i}, {j}] and {name}[{j}, {i}] differ: an edge is there in both or in neither"
        )
    checked = check_distance_matrix(np.where(missing, 0.0, array), name=name)
    return np.where(missing, np.inf, checked)


def _of_sparse(D: Any, name: str) -> np.ndarray:
    entries = D.tocoo()
    n = entries.shape[0]
    if entries.shape != (n, n):
        raise InputError(f"{name} has shape {entries.shape}; a distance matrix is square")
    lengths = np.full((n, n), np.inf)
    np.minimum.at(lengths, (entries.row, entries.col), np.asarray(entries.data, np.float64))
    np.fill_diagonal(lengths, np.where(np.isfinite(np.diagonal(lengths)), np.diagonal(lengths), 0.0))
    both = np.isfinite(lengths) & np.isfinite(lengths.T)
    lowest = np.minimum(lengths, lengths.T)  # an entry that is stored once stands for both
    lengths = np.where(both, lengths, lowest)
    finite = np.where(np.isposinf(lengths), 0.0, lengths)
    return np.where(np.isposinf(lengths), np.inf, check_distance_matrix(finite, name=name))


def warn_of_mistakes(X: Any, metric: str, *, name: str = "X") -> None:
    """Warn of points that look transposed, and of distances that are given as points.

    >>> warn_of_mistakes(np.zeros((3, 2)), "euclidean")
    """
    shape = np.shape(X)
    if metric == "precomputed" or len(shape) != 2:
        return
    rows, columns = shape
    if rows <= _FEW and columns >= _WIDE * rows:
        warnings.warn(
            f"{name} has {rows} points in {columns:,} dimensions: a row is a point; give {name}.T if the "
            "columns are the points",
            stacklevel=3,
        )
    elif rows == columns and rows > 1 and _looks_like_distances(np.asarray(X)):
        warnings.warn(
            f"{name} is square and symmetric with a zero diagonal, as distances are, and was read as points; "
            "for distances give metric='precomputed'",
            stacklevel=3,
        )


def _looks_like_distances(array: np.ndarray) -> bool:
    if array.dtype.kind not in "fiu" or np.diagonal(array).any() or not array.any():
        return False
    return bool((array >= 0).all() and np.array_equal(array, array.T))
