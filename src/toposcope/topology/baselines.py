"""Norms and spectra of a weight matrix, which a topological feature must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts load on first use

from toposcope.kernels.selection import COMFORTABLE_SINGLE
from toposcope.topology.units import binary_exponent, scaled
from toposcope.topology.validation import check_matrix

# Rows or columns widened to float64 at a time: it bounds memory and changes the sums only by rounding.
_BLOCK_ROWS = 1024
RANKME_OFFSET = 1e-7
"""Added to each share of the spectrum, so that the entropy is finite at 0: the epsilon of RankMe (Garrido et
al. 2023)."""
_DEGREE = {"frobenius_norm": 1, "spectral_norm": 1, "top_eigenvalue": 2, "mean_pairwise_distance": 1}
"""The power of the entries' unit in each quantity; the other quantities have no unit."""
# If centring leaves less than this share of the squared norm, subtracting the mean has cancelled digits.
_CANCELLED = 1e-4


def baselines(W: np.ndarray, *, alpha_range: tuple[int, int] = (1, 50), name: str = "W") -> dict[str, float]:
    r"""Return the norm and spectral baselines of a matrix, whose rows are taken as points.

    With singular values :math:`\sigma_k` of W and eigenvalues :math:`\lambda_k` of the covariance of its
    rows (columns centred, divided by n_out - 1), both in descending order:

    - ``frobenius_norm``, ``spectral_norm`` :math:`\sigma_1`, ``stable_rank`` :math:`\sum\sigma^2/\sigma_1^2`;
    - ``rankme``: :math:`\exp(-\sum p_k \ln p_k)` with :math:`p_k = \sigma_k/\sum\sigma + 10^{-7}` (Garrido et
      al. 2023); ``rankme_eigenvalues``: the same with :math:`\lambda_k` instead of :math:`\sigma_k`, without
      the offset. The two are different quantities;
    - ``participation_ratio`` :math:`(\sum\lambda)^2/\sum\lambda^2`, ``top_eigenvalue`` :math:`\lambda_1`;
    - ``alpha_req``: minus the least-squares slope of :math:`\ln\lambda_k` on :math:`\ln k` over the indices
      `alpha_range`, 1-based and inclusive, cut to the eigenvalues that are numerically above zero;
    - ``mean_pairwise_distance``: mean Euclidean distance over the pairs of rows.

    The spectra come from the Gram matrix of the smaller side, accumulated in float64; singular values below
    about :math:`10^{-8}\sigma_1` are therefore noise. Norms and distances are in the unit of the entries,
    the top eigenvalue in its square; ranks and slopes have none.

    Parameters
    ----------
    W : array of shape (n_out, n_in)
        float16, bfloat16, float32 or float64.
    alpha_range : pair of int
        First and last index of the fit of ``alpha_req``.
    name : str
        Name of the matrix in errors.

    Returns
    -------
    dict of float
        NaN if a quantity is not defined (the spread of one row, the rank of a zero matrix) or is beyond the
        range of float64 (the top eigenvalue of weights of 1e200).

    Raises
    ------
    InputError
        If W is not a finite, non-empty matrix.

    Examples
    --------
    >>> values = baselines(np.eye(3))
    >>> round(values["frobenius_norm"] ** 2, 9), round(values["stable_rank"], 9), round(values["rankme"], 3)
    (3.0, 3.0, 3.0)
    """
    W = check_matrix(W, name=name)
    exponent = binary_exponent(W, COMFORTABLE_SINGLE)
    if exponent:
        in_units = baselines(scaled(W, -exponent), alpha_range=alpha_range, name=name)
        return {key: _in_units(value, exponent * _DEGREE.get(key, 0)) for key, value in in_units.items()}
    gram, covariance = _gram_and_covariance(W)
    squares = _spectrum(gram)
    eigenvalues = _spectrum(covariance) if W.shape[0] > 1 else np.zeros(0)
    total, top = float(squares.sum()), float(squares[0])
    singular = np.sqrt(squares)
    spread = float(eigenvalues.sum())
    return {
        "frobenius_norm": float(np.sqrt(total)),
        "spectral_norm": float(np.sqrt(top)),
        "stable_rank": total / top if top > 0 else np.nan,
        "participation_ratio": spread**2 / float((eigenvalues**2).sum()) if spread > 0 else np.nan,
        "rankme": effective_rank(singular, offset=RANKME_OFFSET),
        "rankme_eigenvalues": effective_rank(eigenvalues),
        "alpha_req": spectral_slope(eigenvalues, *alpha_range),
        "top_eigenvalue": float(eigenvalues[0]) if len(eigenvalues) else np.nan,
        "mean_pairwise_distance": _mean_pairwise_distance(W),
    }


def effective_rank(spectrum: np.ndarray, *, offset: float = 0.0) -> float:
    r"""Return :math:`\exp(-\sum p_k \ln p_k)`, :math:`p_k` the k-th value over the sum, plus `offset`.

    NaN if the values sum to 0.

    >>> round(effective_rank(np.array([1.0, 1.0, 0.0])), 9)
    2.0
    """
    total = float(np.sum(spectrum))
    if not total > 0:
        return float("nan")
    share = np.asarray(spectrum, np.float64) / total + offset
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def spectral_slope(eigenvalues: np.ndarray, first: int, last: int) -> float:
    r"""Return alpha of :math:`\lambda_k \propto k^{-\alpha}`, fitted over the indices first..last (1-based).

    NaN with fewer than three usable eigenvalues.

    >>> round(spectral_slope(np.arange(1.0, 40.0) ** -1.5, 1, 30), 9)
    1.5
    """
    usable = int((eigenvalues > 1e-14 * eigenvalues[0]).sum()) if len(eigenvalues) else 0
    index = np.arange(max(first, 1), min(last, usable) + 1)
    if len(index) < 3:
        return float("nan")
    x, y = np.log(index), np.log(eigenvalues[index - 1])
    x = x - x.mean()
    return float(-(x @ y) / (x @ x))


def _spectrum(symmetric: np.ndarray) -> np.ndarray:
    """Eigenvalues of a positive semidefinite matrix, descending, rounding below zero set to zero."""
    values = scipy.linalg.eigh(symmetric, eigvals_only=True, overwrite_a=True, check_finite=False)
    return np.maximum(values[::-1], 0.0)


def _gram_and_covariance(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix of the smaller side, and the covariance's (up to zeros) on the same side, in float64."""
    n, d = W.shape
    if n <= d:
        gram = np.zeros((n, n))
        for start in range(0, d, _BLOCK_ROWS):
            block = W[:, start : start + _BLOCK_ROWS].astype(np.float64)
            gram += block @ block.T
        rows = gram.mean(axis=0)
        covariance = gram - rows - rows[:, None] + rows.mean()
    else:
        gram = np.zeros((d, d))
        total = np.zeros(d)
        for start in range(0, n, _BLOCK_ROWS):
            block = W[start : start + _BLOCK_ROWS].astype(np.float64)
            gram += block.T @ block
            total += block.sum(axis=0)
        covariance = gram - np.outer(total, total / n)
    if np.trace(covariance) < _CANCELLED * np.trace(gram):
        covariance = _centred_gram(W)
    covariance /= max(n - 1, 1)
    return gram, covariance


def _centred_gram(W: np.ndarray) -> np.ndarray:
    """Gram matrix, on the smaller side, of the rows less their mean, which is subtracted before squaring."""
    n, d = W.shape
    mean = np.concatenate(
        [
            W[:, start : start + _BLOCK_ROWS].mean(axis=0, dtype=np.float64)
            for start in range(0, d, _BLOCK_ROWS)
        ]
    )
    out = np.zeros((min(n, d),) * 2)
    for start in range(0, max(n, d), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        block = W[:, part] - mean[part] if n <= d else (W[part] - mean).T
        block = np.ascontiguousarray(block, np.float64)
        out += block @ block.T
    return out


def _in_units(value: float, exponent: int) -> float:
    """Return value * 2^exponent; NaN if float64 cannot represent it."""
    out = float(scaled(np.array(value), exponent))
    return out if value == 0 or (np.isfinite(out) and abs(out) >= np.finfo(np.float64).tiny) else float("nan")


def _mean_pairwise_distance(W: np.ndarray) -> float:
    """Mean Euclidean distance over the pairs of rows, by blocks of the centred product."""
    n = len(W)
    if n < 2:
        return float("nan")
    points: Any = W.astype(np.float32 if W.dtype != np.float64 else np.float64)
    points -= points.mean(axis=0, dtype=np.float64).astype(points.dtype)
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    total = 0.0
    for start in range(0, n, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, n)
        product = points[start:stop] @ points[start:].T
        squared = squares[start:stop, None] + squares[start:] - 2.0 * product
        distance = np.sqrt(np.maximum(squared, 0.0))
        np.fill_diagonal(distance, 0.0)
        within = stop - start
        total += distance[:, within:].sum() + distance[:, :within].sum() / 2.0
    return float(total / (n * (n - 1) / 2))
