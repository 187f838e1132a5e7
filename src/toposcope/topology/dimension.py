"""Dimension and size of a point cloud: PH dimension, TwoNN, maximum likelihood, magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load on first use: stats alone costs a quarter of a second

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.kernels.euclidean_tree import dense_tree
from toposcope.topology.clouds import distance_matrix
from toposcope.topology.units import binary_exponent, scaled
from toposcope.topology.validation import check_points


@dataclass(frozen=True, slots=True)
class DimensionEstimate:
    """A value with its band: from `n` points, with `merged` duplicates left out.

    The band is the spread of repeated estimates (see each estimator). It does not include bias, edge effects
    or shared points, so its coverage of the manifold's dimension is unknown
    (`benchmarks/dimension_coverage.py`).
    """

    value: float
    low: float
    high: float
    n: int
    merged: int = 0

    def __float__(self) -> float:
        """Return the value."""
        return self.value


def ph_dimension(
    X: np.ndarray,
    *,
    alpha: float = 1.0,
    sizes: Sequence[int] | None = None,
    draws: int = 10,
    name: str = "X",
) -> DimensionEstimate:
    r"""Return the persistent-homology dimension of a cloud, from the growth of its minimum spanning tree.

    With :math:`E_\alpha(n) = \sum_e |e|^\alpha` over the edges of the minimum spanning tree of n random
    points and m the least-squares slope of :math:`\ln E_\alpha` on :math:`\ln n`, the dimension is
    :math:`\alpha/(1-m)` (Birdal et al. 2021). One slope is fitted to each of `draws` sequences of
    subsamples; the value is :math:`\alpha/(1-\bar m)` and the interval is Student's on the mean slope.
    It covers only the subsampling: the draws share one cloud, so it is too narrow for the underlying law.
    A dimension has no unit.

    Parameters
    ----------
    X : array of shape (n, d)
        Points; duplicates are merged first.
    alpha : float
        Exponent of the edge lengths; it must be below the dimension.
    sizes : sequence of int, optional
        Subsample sizes; by default 8, evenly spaced in the logarithm from 200 to 1000, or from n/5 to n when
        the cloud has fewer than 1000 points.
    draws : int
        Sequences of subsamples, at least 10.
    name : str
        Names the cloud in errors, and the axis of the random draws.

    Raises
    ------
    InputError
        If the cloud has fewer than 10 distinct points, or `draws` is below 10.

    Examples
    --------
    >>> t = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    >>> estimate = ph_dimension(np.column_stack([np.cos(t), np.sin(t)]))
    >>> bool(0.8 < estimate.value < 1.2)
    True
    """
    if draws < 10:
        raise InputError(f"draws is {draws}; an interval needs at least 10 draws")
    if not alpha > 0:
        raise InputError(f"alpha is {alpha}; it must be positive")
    points, merged = distinct(check_points(X, name=name))
    n = len(points)
    if n < 10:
        raise InputError(f"{name} has {n} distinct points; the PH dimension needs at least 10")
    steps = _checked_sizes(sizes, n)
    distances = distance_matrix(points)
    distances = scaled(distances, -binary_exponent(distances))  # the unit does not matter to the slope
    slopes = np.empty(draws)
    for draw in range(draws):
        energy = np.empty(len(steps))
        for i, size in enumerate(steps):
            chosen = rng(name="ph_dimension", cloud=name, size=int(size), draw=draw).choice(
                n, size, replace=False
            )
            energy[i] = _tree_energy(distances[np.ix_(chosen, chosen)], alpha)
        slopes[draw] = np.polyfit(np.log(steps), np.log(energy), 1)[0]
    half = scipy.stats.t.ppf(0.975, draws - 1) * slopes.std(ddof=1) / np.sqrt(draws)
    low, value, high = (
        _dimension(alpha, m) for m in (slopes.mean() - half, slopes.mean(), slopes.mean() + half)
    )
    return DimensionEstimate(value, low, high, n, merged)


def twonn(X: np.ndarray, *, discard: float = 0.1, name: str = "X") -> DimensionEstimate:
    r"""Return the TwoNN dimension (Facco et al. 2017) by maximum likelihood on the uncensored ratios.

    The ratios :math:`\mu_i = r_{i,2}/r_{i,1}` of the second to the first neighbour distance follow a Pareto
    law of exponent d. The largest share `discard` counts as censored, because curvature and edges affect it
    most; with k ratios kept of n, :math:`d = k / (\sum_{i\le k} \ln\mu_{(i)} + (n-k) \ln\mu_{(k)})`. The
    interval is the chi-squared interval of that model, which treats the points as independent. A dimension
    has no unit.

    Raises InputError with fewer than 3 distinct points, or `discard` outside [0, 1).

    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> bool(1.8 < twonn(X).value < 2.2)
    True
    """
    if not 0 <= discard < 1:
        raise InputError(f"discard is {discard}; use a share in [0, 1)")
    points, merged = distinct(check_points(X, name=name))
    n = len(points)
    if n < 3:
        raise InputError(f"{name} has {n} distinct points; TwoNN needs at least 3")
    nearest = _neighbours(points, 2)
    logs = np.sort(np.log(nearest[:, 1] / nearest[:, 0]))
    used = max(1, round(n * (1.0 - discard)))
    exposure = float(logs[:used].sum() + (n - used) * logs[used - 1])
    if exposure == 0:
        return DimensionEstimate(float("nan"), float("nan"), float("nan"), n, merged)
    low, high = scipy.stats.chi2.ppf([0.025, 0.975], 2 * used) / (2 * exposure)
    return DimensionEstimate(used / exposure, float(low), float(high), n, merged)


def mle_dimension(X: np.ndarray, *, k: int = 20, name: str = "X") -> DimensionEstimate:
    r"""Return the dimension of Levina and Bickel (2004), averaged over points as in MacKay and Ghahramani.

    Each point gives :math:`m_i = \frac{1}{k-1}\sum_{j<k} \ln(r_{i,k}/r_{i,j})`; the value is
    :math:`1/\bar m`, the interval the normal one of :math:`\bar m` with the points taken as independent. A
    dimension has no unit.

    Raises InputError with k < 3, or without k + 1 distinct points.

    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> bool(1.8 < mle_dimension(X).value < 2.2)
    True
    """
    if k < 3:
        raise InputError(f"k is {k}; the estimator needs at least 3 neighbours")
    points, merged = distinct(check_points(X, name=name))
    n = len(points)
    if n < k + 1:
        raise InputError(f"{name} has {n} distinct points; k = {k} neighbours need at least {k + 1}")
    nearest = _neighbours(points, k)
    inverse = np.log(nearest[:, -1:] / nearest[:, :-1]).mean(axis=1)
    centre, half = inverse.mean(), 1.96 * inverse.std(ddof=1) / np.sqrt(n)
    if centre == 0:
        return DimensionEstimate(float("nan"), float("nan"), float("nan"), n, merged)
    high = float(1.0 / (centre - half)) if centre > half else float("inf")
    return DimensionEstimate(float(1.0 / centre), float(1.0 / (centre + half)), high, n, merged)


def magnitude(X: np.ndarray, t: float = 1.0, *, name: str = "X") -> DimensionEstimate:
    r"""Return the magnitude of a cloud at scale t: the sum of the entries of :math:`(e^{-t D})^{-1}`.

    D holds the Euclidean distances of the distinct points; duplicates are merged first and counted in
    `merged`. The unit is points, and that of t one over a distance (Leinster 2013). It is exact, so the
    interval has no width. It goes from 1 (t = 0) to the number of points.

    Raises InputError if t is not positive, or so small that the matrix is numerically singular.

    >>> bool(np.isclose(magnitude(np.array([[0.0], [1.0]])).value, 2 / (1 + np.exp(-1.0))))
    True
    """
    if not (t > 0 and np.isfinite(t)):
        raise InputError(f"t is {t}; the scale must be positive and finite")
    points, merged = distinct(check_points(X, name=name))
    similarity = np.exp(-t * distance_matrix(points))
    try:
        half = scipy.linalg.solve_triangular(np.linalg.cholesky(similarity), np.ones(len(points)), lower=True)
    except np.linalg.LinAlgError:
        raise InputError(f"t is {t}: exp(-t D) of {name} is numerically singular; give a larger t") from None
    value = float(half @ half)
    return DimensionEstimate(value, value, value, len(points), merged)


def distinct(points: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the distinct points in float64, in order of first occurrence, and the number merged.

    >>> distinct(np.array([[1.0], [1.0], [0.0]]))
    (array([[1.],
           [0.]]), 1)
    """
    points = np.asarray(points, np.float64)
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)], len(points) - len(first)


def _tree_energy(distances: np.ndarray, alpha: float) -> float:
    return float((dense_tree(distances)[2] ** alpha).sum())


def _checked_sizes(sizes: Sequence[int] | None, n: int) -> np.ndarray:
    if sizes is None:
        top = min(n, 1000)
        return np.unique(np.geomspace(max(top // 5, 3), top, 8).astype(int))
    steps = np.unique(np.asarray(sizes, int))
    if len(steps) < 3 or steps[0] < 3 or steps[-1] > n:
        raise InputError(
            f"sizes is {list(sizes)}; give at least 3 different sizes from 3 to {n} (the distinct points)"
        )
    return steps


def _dimension(alpha: float, slope: float) -> float:
    return float(alpha / (1.0 - slope)) if slope < 1 else float("inf")


def _neighbours(points: np.ndarray, k: int) -> np.ndarray:
    """Distances (n, k) to the k nearest other points, ascending."""
    distances = distance_matrix(points)
    np.fill_diagonal(distances, np.inf)
    return np.sort(np.partition(distances, k - 1, axis=1)[:, :k], axis=1)
