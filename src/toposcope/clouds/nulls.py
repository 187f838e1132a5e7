"""Clouds without a ring that resemble a given cloud: they show what loops occur by chance.

There are four kinds, each made from the cloud itself. None of them has a ring by design. They share different
properties with the cloud, and a ring must stand out from all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toposcope.core.seeding import rng
from toposcope.topology.clouds import gaussian_twin, principal

Draw = Callable[[int], np.ndarray]

NULLS = {
    "gaussian": "Gaussian cloud of the same covariance",
    "shuffled": "every column shuffled",
    "mixture": "clusters at random places",
    "heavy": "heavy tails of the same scatter",
}
"""Each null and what it is."""
CLUSTERS = (3, 10)
"""The smallest and the largest number of clusters in a draw of the mixture."""
_MOST_DEGREES = 100.0
"""With more degrees of freedom, a Student cloud is drawn as a Gaussian one."""
_LLOYD, _REWEIGHTED = 25, 30
"""Rounds of Lloyd's means, and of the reweighted fit of the t law."""
_GAUSSIAN_SPREAD = np.pi**2 / 8.0
"""Variance of ln|z| of a standard normal z."""


def null_draws(points: np.ndarray, kind: str, seed: int) -> Draw:
    """Return a function that makes clouds (n, d) of one null; the same number gives the same cloud.

    Parameters
    ----------
    points : array of shape (n, d), float64
    kind : {"gaussian", "shuffled", "mixture", "heavy"}
        "gaussian": a Gaussian cloud with exactly the sample mean and covariance. "shuffled": every column
        shuffled independently, which keeps the marginals and removes their dependence. "mixture": 3 to 10
        clusters in each draw; the clusters that k-means finds keep their sizes and inner covariances, and
        their centres are drawn anew from the covariance of the centres. "heavy": a multivariate Student cloud
        whose degrees of freedom and scatter are estimated from the points. With more columns than points,
        "gaussian" and "mixture" are drawn in the coordinates of the principal axes, of which there are fewer;
        a rotation does not change distances.

    Examples
    --------
    >>> points = np.random.default_rng(0).standard_normal((30, 2))
    >>> draw = null_draws(points, "shuffled", seed=0)
    >>> np.array_equal(np.sort(draw(3), axis=0), np.sort(points, axis=0)), np.array_equal(draw(3), draw(3))
    (True, True)
    """
    if kind in _ROTATED and points.shape[1] > len(points):
        points = _coordinates(points)
    return _MADE_BY[kind](points, lambda number: rng(purpose="ring null", kind=kind, seed=seed, draw=number))


Generators = Callable[[int], np.random.Generator]


def _gaussian(points: np.ndarray, generator: Generators) -> Draw:
    mean, axes = principal(points)
    return lambda number: gaussian_twin(len(points), mean, axes, generator(number))


def _shuffled(points: np.ndarray, generator: Generators) -> Draw:
    return lambda number: generator(number).permuted(points, axis=0)


def _mixture(points: np.ndarray, generator: Generators) -> Draw:
    fitted: dict[int, np.ndarray] = {}

    def draw(number: int) -> np.ndarray:
        chance = generator(number)
        count = min(int(chance.integers(CLUSTERS[0], CLUSTERS[1] + 1)), len(points))
        if count not in fitted:
            fitted[count] = k_means(points, count, generator(-count))
        return _scattered(points, fitted[count], chance)

    return draw


def _scattered(points: np.ndarray, labels: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """Return a cloud with these clusters at new places; each is Gaussian with its own covariance."""
    clusters = np.unique(labels)
    centres = np.stack([points[labels == cluster].mean(axis=0) for cluster in clusters])
    offsets = centres - centres.mean(axis=0)
    mixing = chance.standard_normal((len(clusters), len(clusters))) / np.sqrt(max(len(clusters) - 1, 1))
    placed = centres.mean(axis=0) + mixing @ offsets
    out = np.empty_like(points)
    for cluster, old, new in zip(clusters, centres, placed, strict=True):
        inner = points[labels == cluster] - old
        mixing = chance.standard_normal((len(inner), len(inner))) / np.sqrt(max(len(inner) - 1, 1))
        out[labels == cluster] = new + mixing @ inner
    return out


def k_means(points: np.ndarray, count: int, chance: np.random.Generator) -> np.ndarray:
    """Return the cluster of every point (n,): Lloyd's steps from centres drawn far apart (k-means++).

    >>> points = np.repeat([[0.0], [9.0]], 3, axis=0)
    >>> labels = k_means(points, 2, np.random.default_rng(0))
    >>> len(set(labels[:3])), len(set(labels))
    (1, 2)
    """
    squares = (points**2).sum(axis=1)
    chosen = [int(chance.integers(len(points)))]
    far = _squared(points, squares, points[chosen])[:, 0]
    while len(chosen) < count and far.sum() > 0:
        chosen.append(int(chance.choice(len(points), p=far / far.sum())))
        far = np.minimum(far, _squared(points, squares, points[chosen[-1:]])[:, 0])
    centres = points[chosen]
    labels = np.full(len(points), -1)
    for _ in range(_LLOYD):
        before, labels = labels, _squared(points, squares, centres).argmin(axis=1)
        if np.array_equal(before, labels):
            break
        centres = np.stack([points[labels == label].mean(axis=0) for label in np.unique(labels)])
    return labels


def _squared(points: np.ndarray, squares: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.maximum(squares[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1), 0.0)


def _heavy(points: np.ndarray, generator: Generators) -> Draw:
    degrees = student_degrees(points)
    if degrees > _MOST_DEGREES:
        return _gaussian(points, generator)
    middle = np.median(points, axis=0)
    axes = _scatter(points - middle, degrees)

    def draw(number: int) -> np.ndarray:
        chance = generator(number)
        stretch = np.sqrt(degrees / chance.chisquare(degrees, len(points)))
        return middle + stretch[:, None] * (chance.standard_normal((len(points), len(axes))) @ axes)

    return draw


def student_degrees(points: np.ndarray) -> float:
    r"""Return the degrees of freedom of a multivariate Student cloud, from the spread of the logarithms.

    A coordinate is a normal times :math:`\sqrt{\nu / \chi^2_\nu}`, so that
    :math:`\mathrm{var} \ln|x| = \pi^2/8 + \psi_1(\nu/2)/4`; the mean over the columns is solved for
    :math:`\nu`, at least 1. Infinite if the columns have no heavier tails than normal ones.

    >>> generator = np.random.default_rng(0)
    >>> normal = generator.standard_normal((4000, 5))
    >>> student_degrees(normal) > 30
    True
    >>> bool(2 < student_degrees(normal / np.sqrt(generator.chisquare(3, 4000) / 3)[:, None]) < 4)
    True
    """
    from scipy.optimize import brentq
    from scipy.special import polygamma

    away = np.abs(points - np.median(points, axis=0))
    logs = np.log(np.where(away > 0, away, 1.0))
    there = away > 0
    columns = there.sum(axis=0) > 1
    if not columns.any():
        return float("inf")
    logs, there = logs[:, columns], there[:, columns]
    count = there.sum(axis=0)
    mean = (logs * there).sum(axis=0) / count
    excess = float(((((logs - mean) ** 2) * there).sum(axis=0) / count).mean() - _GAUSSIAN_SPREAD)

    def more(degrees: float) -> float:
        return float(polygamma(1, degrees / 2.0)) / 4.0 - excess

    if more(10 * _MOST_DEGREES) >= 0:
        return float("inf")
    return 1.0 if more(1.0) <= 0 else float(brentq(more, 1.0, 10 * _MOST_DEGREES))


def _scatter(away: np.ndarray, degrees: float) -> np.ndarray:
    """Return axes (rank, d) whose products are the Student scatter of points around their middle.

    The weights come from the leading n/4 principal components, because more cannot be estimated from n
    points.
    """
    left, scale, right = np.linalg.svd(away, full_matrices=False)
    rank = int((scale > max(away.shape) * np.finfo(np.float64).eps * scale[0]).sum())
    left, scale, right = left[:, :rank], scale[:rank], right[:rank]
    components = min(rank, max(len(away) // 4, 1))
    leading = left[:, :components]  # the scatter is equivariant, so unit lengths suffice
    weights = np.ones(len(away))
    for _ in range(_REWEIGHTED):
        inner = (leading * weights[:, None]).T @ leading / len(away)
        distance = np.einsum("ij,ji->i", leading, np.linalg.pinv(inner) @ leading.T)
        weights = (degrees + components) / (degrees + distance)
    whole = np.sqrt(weights / len(away))[:, None] * (left * scale)
    inner = whole.T @ whole
    values, vectors = np.linalg.eigh(inner)
    return (np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T) @ right


def _coordinates(points: np.ndarray) -> np.ndarray:
    """Return the coordinates (n, rank) of centred points along their principal axes."""
    mean, axes = principal(points)
    return (points - mean) @ (axes / np.linalg.norm(axes, axis=1, keepdims=True)).T


_ROTATED = ("gaussian", "mixture")
_MADE_BY = {"gaussian": _gaussian, "shuffled": _shuffled, "mixture": _mixture, "heavy": _heavy}
