"""The baselines of a matrix that is too large for full decompositions, each with its possible error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts load on first use

from toposcope.kernels.lanczos import RitzValues, block_lanczos
from toposcope.kernels.selection import COMFORTABLE_SINGLE
from toposcope.topology.baselines import RANKME_OFFSET, spectral_slope
from toposcope.topology.units import binary_exponent
from toposcope.topology.validation import check_matrix

EXACT_SIDE = 768
"""Matrices whose smaller side is at most this have full decompositions."""

EXACT_PAIRS = 4e11
"""Mean distances that take at most this many products of coordinates are over all pairs of rows."""

# Columns, rows and tiles read at a time: these three bound memory and change results only by rounding.
_BLOCK = 4096
_ROWS = 1024
_TILE = 128
# Vectors of a block and steps of block Lanczos: more cost more products and lower the stated error bound.
_WIDTH = 16
_STEPS = 16
# Random pairs of rows for a mean distance; its standard error, which is reported, falls with the square root.
_PAIRS = 8192
# If float32 may round a spectrum by more than this share, it is computed again in float64.
_WORST_ROUNDING = 2e-3
_SE = "standard error"
_BOUND = "block Lanczos, relative error below"
_FLOOR = 1e-4
"""The smallest stated error of an effective rank from float32; for an eigenvalue, a hundredth of it."""
# Tells the machine epsilon of float32 (1.2e-7) from that of float64 (2.2e-16).
_DOUBLE = 1e-10
_TO_COME = 3.0
"""The remaining error if errors fall as 1 / steps, in units of the change over the last quarter of steps."""


@dataclass(frozen=True, slots=True)
class Approximate:
    """A number with its relative error (0 if exact up to rounding), and how it was computed."""

    value: float
    error: float = 0.0
    how: str = ""

    @property
    def note(self) -> str:
        """Return how the number was computed and its possible error; empty for an exact one."""
        return f"{self.how} {100 * self.error:.1g}%" if self.how else ""


def is_large(shape: tuple[int, int]) -> bool:
    """Return whether a matrix of this shape is approximated.

    >>> is_large((4096, 768)), is_large((4096, 1024)), is_large((256000, 768))
    (False, True, True)
    """
    n, d = shape
    return min(shape) > EXACT_SIDE or (n > d and float(n) * n * d > EXACT_PAIRS)


def large_baselines(
    W: np.ndarray, *, rng: np.random.Generator, alpha_range: tuple[int, int] = (1, 50), name: str = "W"
) -> dict[str, Approximate]:
    r"""Return the numbers of `baselines` for a large matrix, at the cost of one product W W'.

    The Gram matrix G of the smaller side is computed in float32 blocks that are summed in float64.
    ``frobenius_norm`` and ``participation_ratio`` need only traces: :math:`\mathrm{tr}\,G`,
    :math:`\mathrm{tr}\,C` and :math:`\|C\|_F^2`, C the covariance of the rows. The others come from
    16 steps of block Lanczos with 16 random vectors on G and on C (see `toposcope.kernels.lanczos`):

    - ``spectral_norm``, ``top_eigenvalue``, ``stable_rank``: the largest Ritz value; its error is at most its
      residual;
    - ``rankme``, ``rankme_eigenvalues``: stochastic Lanczos quadrature. Converged Ritz values count once
      each; the others are weighted so that number, trace and squared norm are exact. The error combines the
      standard error over the random vectors, beyond these moments, and three times the change over the last
      quarter of the steps;
    - ``alpha_req``: the Ritz values replace the eigenvalues; the error is the change over the last quarter of
      the steps;
    - ``mean_pairwise_distance``: over all pairs, from G, if there are no more rows than columns; else over
      at least 8192 random pairs in which all rows are equally frequent, with their standard error.

    If rounding in float32 could change ``rankme`` by more than 0.2%, as in a matrix of low rank, G is
    computed again in float64.

    Parameters
    ----------
    W : array of shape (n_out, n_in)
        float16, bfloat16, float32 or float64.
    rng : numpy.random.Generator
        For the start vectors and the pairs.
    alpha_range : pair of int
        First and last index of the fit of ``alpha_req``.
    name : str
        Name of the matrix in errors.

    Raises
    ------
    InputError
        If W is not a finite, non-empty matrix.

    References
    ----------
    Ubaru, Chen and Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature", SIAM J. Matrix
    Anal. Appl. 38 (2017).

    Examples
    --------
    >>> W = np.random.default_rng(0).standard_normal((300, 200))
    >>> found = large_baselines(W, rng=np.random.default_rng(1))
    >>> round(float(found["frobenius_norm"].value / np.linalg.norm(W)), 6)
    1.0
    """
    W = check_matrix(W, name=name)
    exponent = binary_exponent(W, COMFORTABLE_SINGLE)
    scale = 2.0**exponent
    start = rng.standard_normal((min(W.shape), 2 * _WIDTH))
    gram, covariance = _gram_and_covariance(W, scale, np.float32)
    spectrum = _spectrum(gram, start[:, :_WIDTH], np.float32)
    if _rounding(spectrum, gram) > _WORST_ROUNDING:
        gram, covariance = _gram_and_covariance(W, scale, np.float64)
        spectrum = _spectrum(gram, start[:, :_WIDTH], np.float64)
        centred = _spectrum(covariance, start[:, _WIDTH:], np.float64)
    else:
        centred = _spectrum(covariance, start[:, _WIDTH:], np.float32)
    distance = (
        _all_pairs(gram, scale) if W.shape[0] <= W.shape[1] and W.shape[0] > 1 else _some_pairs(W, scale, rng)
    )
    return _of_gram(gram, spectrum, scale) | _of_covariance(covariance, centred, scale, alpha_range) | {
        "mean_pairwise_distance": distance
    }  # fmt: skip


def _of_gram(gram: np.ndarray, spectrum: RitzValues, scale: float) -> dict[str, Approximate]:
    total, top = float(np.trace(gram)), float(spectrum.values[0])
    if not top > 0:
        return {"frobenius_norm": Approximate(0.0), "spectral_norm": Approximate(0.0)} | {
            feature: Approximate(np.nan) for feature in ("stable_rank", "rankme")
        }
    bound = _bound(spectrum)
    return {
        "frobenius_norm": Approximate(scale * np.sqrt(total)),
        "spectral_norm": Approximate(scale * np.sqrt(top), bound / 2, _BOUND),
        "stable_rank": Approximate(total / top, bound, _BOUND),
        "rankme": _effective_rank(spectrum, True, RANKME_OFFSET),
    }


def _of_covariance(
    covariance: np.ndarray, spectrum: RitzValues, scale: float, alpha_range: tuple[int, int]
) -> dict[str, Approximate]:
    spread, top = float(np.trace(covariance)), float(spectrum.values[0])
    if not (spread > 0 and top > 0):
        features = ("participation_ratio", "rankme_eigenvalues", "alpha_req")
        return {feature: Approximate(np.nan) for feature in features} | {"top_eigenvalue": Approximate(0.0)}
    alpha = spectral_slope(np.maximum(spectrum.values, 0.0), *alpha_range)
    earlier = spectrum.earlier.values if spectrum.earlier is not None else spectrum.values
    changed = abs(1.0 - spectral_slope(np.maximum(earlier, 0.0), *alpha_range) / alpha) if alpha else np.nan
    return {
        "participation_ratio": Approximate(spread**2 / float(np.vdot(covariance, covariance))),
        "rankme_eigenvalues": _effective_rank(spectrum, False, 0.0),
        "alpha_req": Approximate(alpha, changed, "block Lanczos, its last steps changed"),
        "top_eigenvalue": Approximate(scale**2 * top, _bound(spectrum), _BOUND),
    }


def _bound(spectrum: RitzValues) -> float:
    """Return the relative error of the largest eigenvalue: its residual, but at least rounding."""
    return max(float(spectrum.residuals[0] / spectrum.values[0]), 10 * spectrum.eps)


def _effective_rank(spectrum: RitzValues, root: bool, offset: float) -> Approximate:
    """Return exp of the entropy of the eigenvalues or their square roots, and its relative error.

    The error has two parts: that of the random vectors, and what further steps would change.
    """
    entropy = _entropy(spectrum, root, offset)
    if not np.isfinite(entropy):
        return Approximate(np.nan)
    error = spectrum.standard_error(lambda part: _entropy(part, root, offset))
    if spectrum.earlier is not None:
        changed = np.expm1(_entropy(spectrum.earlier, root, offset) - entropy)
        error = float(np.hypot(error, _TO_COME * changed))
    error = max(error, _FLOOR if spectrum.eps > _DOUBLE else 0.0)
    return Approximate(float(np.exp(entropy)), error, f"stochastic Lanczos quadrature, {_SE}")


def _entropy(spectrum: RitzValues, root: bool, offset: float) -> float:
    """Return the entropy of the eigenvalues or their square roots; NaN without any."""
    nodes = np.maximum(spectrum.values, 0.0)
    values = np.sqrt(nodes) if root else nodes
    total = float(spectrum.weights @ values)
    if not total > 0:
        return float(np.nan)
    share = values / total + offset
    return -float(spectrum.weights @ (share * np.log(np.where(share > 0, share, 1.0))))


def _spectrum(symmetric: np.ndarray, start: np.ndarray, dtype: type) -> RitzValues:
    """Return the quadrature of a symmetric matrix, with the moments of the matrix."""
    ritz = block_lanczos(symmetric.astype(dtype), start.astype(dtype), _STEPS)
    return ritz.with_moments(float(np.trace(symmetric)), float(np.vdot(symmetric, symmetric)))


def _rounding(spectrum: RitzValues, gram: np.ndarray) -> float:
    """Return how much float32 may have added to the sum of the singular values, relative to the sum."""
    noise = 2.0 * float(np.finfo(np.float32).eps) * float(np.trace(gram)) / np.sqrt(len(gram))
    singular = np.sqrt(np.maximum(spectrum.values, 0.0))
    total = float(spectrum.weights @ singular)
    if not total > 0:
        return 0.0
    added = np.minimum(np.sqrt(noise), noise / (2.0 * np.maximum(singular, 1e-30)))
    return float(np.abs(spectrum.weights) @ added) / total


def _gram_and_covariance(W: np.ndarray, scale: float, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix of the smaller side of W / scale, and its covariance's on the same side."""
    n, d = W.shape
    side, length = min(n, d), max(n, d)
    gram, total = np.zeros((side, side), order="F"), np.zeros(side)
    product = np.zeros((side, side), dtype, order="F")
    syrk = scipy.linalg.blas.ssyrk if dtype is np.float32 else scipy.linalg.blas.dsyrk
    for start in range(0, length, _BLOCK):
        part = W[start : start + _BLOCK].T if n > d else W[:, start : start + _BLOCK]
        block: np.ndarray = part.astype(dtype, order="K")
        if scale != 1:
            block /= dtype(scale)
        columns = block if n > d else block.T  # in Fortran's order, as BLAS takes them without a copy
        gram += syrk(1.0, columns, c=product, trans=int(n <= d), overwrite_c=1)
        if n > d:
            total += block.sum(axis=1, dtype=np.float64)
    _mirror(gram)
    gram = gram.T  # the same numbers in C's order, as all that follows has them
    covariance = gram.copy()
    if n > d:
        _add_outer(covariance, -1.0 / n, total, total)
    else:
        rows, ones = gram.mean(axis=0), np.ones(n)
        rows -= rows.mean() / 2.0
        _add_outer(covariance, -1.0, rows, ones)
        _add_outer(covariance, -1.0, ones, rows)
    covariance /= max(n - 1, 1)
    return gram, covariance


def _add_outer(symmetric: np.ndarray, factor: float, x: np.ndarray, y: np.ndarray) -> None:
    """Add factor * y x' to a matrix in C order, in place."""
    scipy.linalg.blas.dger(factor, x, y, a=symmetric.T, overwrite_a=1)


def _mirror(upper: np.ndarray) -> None:
    """Copy the upper triangle of a matrix to the lower one, in blocks that fit the cache."""
    n = len(upper)
    for start in range(0, n, _TILE):
        here = slice(start, start + _TILE)
        corner = np.triu(upper[here, here])
        upper[here, here] = corner + np.triu(corner, 1).T
        for after in range(start + _TILE, n, _TILE):
            there = slice(after, after + _TILE)
            upper[there, here] = upper[here, there].T


def _all_pairs(gram: np.ndarray, scale: float) -> Approximate:
    """Mean distance over the pairs of rows, from their Gram matrix."""
    n, squares, total = len(gram), np.diagonal(gram), 0.0
    for start in range(0, n, _ROWS):
        part = slice(start, start + _ROWS)
        squared = squares[part, None] + squares - 2.0 * gram[part]
        np.maximum(squared, 0.0, out=squared)
        total += float(np.sqrt(squared, out=squared).sum())
    return Approximate(scale * total / (n * (n - 1)))


def _some_pairs(W: np.ndarray, scale: float, rng: np.random.Generator) -> Approximate:
    """Return the mean distance over random pairs of rows; every row is in equally many pairs."""
    n = len(W)
    if n < 2:
        return Approximate(np.nan)
    lengths: list[np.ndarray] = []
    while sum(map(len, lengths)) < _PAIRS:
        order = rng.permutation(n)
        first, second = order[0 : n - 1 : 2], order[1:n:2]
        for start in range(0, len(first), _ROWS):
            part = slice(start, start + _ROWS)
            step = W[first[part]].astype(np.float32) / np.float32(scale)
            step -= W[second[part]].astype(np.float32) / np.float32(scale)
            lengths.append(np.sqrt(np.einsum("ij,ij->i", step, step)))
    distances = np.concatenate(lengths).astype(np.float64)
    mean = float(distances.mean())
    error = float(distances.std() / np.sqrt(len(distances))) / mean if mean > 0 else 0.0
    return Approximate(scale * mean, error, f"{len(distances):,} random pairs of rows, {_SE}")
