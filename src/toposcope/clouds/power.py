"""How often the ring test would find a circle in a cloud of a given size: simulated, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposcope.clouds.nulls import NULLS, null_draws
from toposcope.clouds.ring import BLOCK, allowed_by, null_statistics, statistics_of
from toposcope.core.distributions import binomial_interval
from toposcope.core.progress import Progress
from toposcope.core.seeding import rng
from toposcope.topology.rips import rips_batch

NULLED = 11
"""The number of circles for which nulls are drawn."""
RESAMPLED = 200
"""The number of resamples of the null clouds."""


@dataclass(frozen=True, slots=True)
class RingPower:
    """The share of planted circles that were found, with its 95% interval.

    `noise` is the root mean squared distance of the points from the circle, in radii; `points` and
    `dimensions` are those of the cloud, `circles` how many were planted.
    """

    share: float
    low: float
    high: float
    noise: float
    points: int
    dimensions: int
    circles: int


def planted_circle(n: int, d: int, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Return n points (n, d) at uniform angles on a circle of radius 1, with normal noise in every dimension.

    `noise` is the root mean squared length of a point's noise, all d dimensions together.

    >>> cloud = planted_circle(500, 3, 0.0, np.random.default_rng(0))
    >>> np.allclose(np.linalg.norm(cloud, axis=1), 1.0)
    True
    """
    angles = generator.uniform(0.0, 2.0 * np.pi, n)
    points = noise / np.sqrt(d) * generator.standard_normal((n, d))
    points[:, 0] += np.cos(angles)
    points[:, 1] += np.sin(angles)
    return points


def ring_power(
    n: int,
    d: int,
    noise: float,
    *,
    draws: int = 99,
    circles: int = 99,
    seed: int = 0,
    progress: Progress | None = None,
) -> RingPower:
    """Return how often the ring test finds a circle with this noise among n points in d >= 2 dimensions.

    Clouds of the same size, dimension and noise have nearly the same nulls. So the `draws` clouds of every
    null are divided among the first `NULLED` circles, and resampled for all circles.

    >>> ring_power(60, 2, 0.05, draws=39, circles=10).share > 0.8
    True
    """
    clouds = [planted_circle(n, d, noise, rng(purpose="circle", seed=seed, draw=k)) for k in range(circles)]
    statistics = []
    for start in range(0, circles, BLOCK):
        some = clouds[start : start + BLOCK]
        statistics += [statistics_of(h1) for _, h1 in rips_batch(some)]
        if progress is not None:
            progress.advance(len(some))
    pools = []
    for null in NULLS:
        values = []
        for at, cloud in enumerate(clouds[:NULLED]):
            numbers = range(at, draws, min(NULLED, circles))
            values += null_statistics(null_draws(cloud, null, seed), numbers)
            if progress is not None:
                progress.advance(len(numbers))
        pools.append(np.array(values))
    share, low, high = _share(np.array(statistics), pools, rng(purpose="power", seed=seed))
    return RingPower(share, low, high, noise, n, d, circles)


def _share(
    statistics: np.ndarray, pools: list[np.ndarray], chance: np.random.Generator
) -> tuple[float, float, float]:
    """Return the share of circles that pass all nulls, and an interval.

    In a real test every circle has clouds of its own, so the thresholds of the nulls are recomputed in
    `RESAMPLED` resamples of the clouds. On either side, the interval is the wider of two: the exact binomial
    interval, and the percentiles over resamples of circles and clouds.
    """
    shares, spread = [], []
    for _ in range(RESAMPLED):
        passes = np.ones(len(statistics), bool)
        for pool in pools:
            drawn = pool[chance.integers(0, len(pool), len(pool))]
            passes &= (statistics > [allowed_by(column) for column in drawn.T]).all(axis=1)
        shares.append(passes.mean())
        spread.append(chance.binomial(len(statistics), shares[-1]) / len(statistics))
    share = float(np.mean(shares))
    exact = binomial_interval(round(share * len(statistics)), len(statistics))
    low, high = np.quantile(spread, [0.025, 0.975])
    return share, min(exact[0], float(low)), max(exact[1], float(high))
