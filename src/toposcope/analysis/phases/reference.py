"""What the gain of a change is where there is none: series of known noise, simulated at the steps at hand.

3,000 series without a change: walks whose steps are an autoregression of order 1 (coefficient from 0 to .95,
more of them large), and walks measured with error (from a tenth of a step to twenty steps, or nothing but
error). In two thirds the noise wanes or grows like a power of the step, with a wave on it, and in half of
these by a step of its own; a third has the tails of Student's t with 4 degrees of freedom. A series is
compared with the fifth nearest to it in persistence and in how uneven its sizes are (by ranks), so that white
noise is judged by noise like white and a smooth drift by drifts as smooth. p is the share of those with as
large a gain; beyond the largest 5% their exponential tail.

The same against 2,000 series of unkind noise: sizes that jump after a stretch at the start, cluster, wane or
grow, steps of one sign, drifts measured with error. The p-value of a change is the larger of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np

from toposcope.analysis.phases.bends import Scan, design, scans
from toposcope.seeding import rng

FALSE_ALARMS = 0.05
UNEVEN_LEVEL = 0.02
"""At uneven steps p is too small by a factor of two or more for some noises: p above this is no bend."""
PACKAGED = "reference.npz"
"""Made by `python benchmarks/analysis_segments.py --package`."""
SERIES, UNKIND = 3000, 2000
ALIKE = 5
"""One in so many of the simulated series are those a series is compared with."""
JUDGED = 200
MOST_PHI = 0.95
_TAIL = 0.05
_MOST_ERROR = 20.0
_POWERS = (-1.2, 0.6)
_TAILS = 4.0


@dataclass(frozen=True, slots=True)
class Reference:
    """What simulated series without a change gain, `scanned` by `bends.scans` (series, 3)."""

    scanned: np.ndarray
    known: np.ndarray
    """Persistence and unevenness, each in its order: (2, series)."""
    ranks: np.ndarray
    """Of every series in these: (2, series)."""
    unkind: Reference | None = None
    """That of unkind noise."""

    @staticmethod
    def of(scanned: np.ndarray, unkind: np.ndarray | None = None) -> Reference:
        """Return the reference of simulated series, scanned by `bends.scans`, and of unkind ones."""
        known = np.sort(scanned[:, 1:].T, axis=1)
        ranks = np.stack([_rank(known[i], scanned[:, 1 + i]) for i in range(2)])
        return Reference(scanned, known, ranks, None if unkind is None else Reference.of(unkind))

    def p_value(self, gain: float, persistence: float, unevenness: float) -> float:
        """Return how often a series without a change gains as much: the larger p of both references."""
        own = self.kindly(gain, persistence, unevenness)
        return own if self.unkind is None else max(own, self.unkind.kindly(gain, persistence, unevenness))

    def kindly(self, gain: float, persistence: float, unevenness: float) -> float:
        """Return the share of the series alike in persistence and unevenness that gain as much."""
        apart = np.zeros(len(self.scanned))
        for ranks, known, value in zip(self.ranks, self.known, (persistence, unevenness), strict=True):
            apart += (ranks - np.clip(_rank(known, value), ranks.min(), ranks.max())) ** 2
        like = self.scanned[np.argpartition(apart, len(apart) // ALIKE)[: len(apart) // ALIKE], 0]
        share = (1.0 + float(np.sum(like >= gain))) / (len(like) + 1.0)
        start = float(np.quantile(like, 1.0 - _TAIL))
        if gain <= start:
            return share
        return _TAIL * float(np.exp(-(gain - start) / np.mean(like[like > start] - start)))

    def of_scan(self, found: Scan) -> float:
        """Return the p-value of a series."""
        return self.p_value(found.gain, found.persistence, found.unevenness)

    def p_values(self, scanned: np.ndarray) -> np.ndarray:
        """Return the p-values of many series, scanned by `bends.scans`."""
        return np.array([self.p_value(*row) for row in scanned])


def level_of(steps: np.ndarray) -> float:
    """Return the p up to which a series bends: 5% at even steps, `UNEVEN_LEVEL` at others.

    >>> level_of(np.arange(100.0, 2000.0, 100.0)), level_of(2.0 ** np.arange(20))
    (0.05, 0.02)
    """
    gaps = np.diff(steps)
    return FALSE_ALARMS if np.allclose(gaps, gaps[0], rtol=1e-6) else UNEVEN_LEVEL


def steps_even(steps: Sequence[float]) -> int:
    """Return n where the steps are the first n multiples of one number, else 0: only their ratios matter."""
    n = len(steps)
    return n if n and np.allclose(np.array(steps) / steps[0], np.arange(1, n + 1), rtol=1e-9) else 0


@lru_cache(maxsize=1)
def packaged() -> dict[int, tuple[Reference, float]]:
    """Return references and false-alarm rates that are at hand, by the number of even steps."""
    with (files(__package__) / PACKAGED).open("rb") as file, np.load(file) as held:
        return {
            int(name): (
                Reference.of(held[name][:SERIES].astype(float), held[name][SERIES:-1].astype(float)),
                float(held[name][-1, 0]),
            )
            for name in held.files
        }


def _rank(known: np.ndarray, values: np.ndarray | float) -> np.ndarray:
    """Return the middle rank of values among `known` ones in their order."""
    return (np.searchsorted(known, values, "left") + np.searchsorted(known, values, "right")) / 2.0


def reference(steps: np.ndarray) -> Reference:
    """Return the reference of rising positive `steps` (cached)."""
    return _reference(tuple(float(step) for step in steps))


@lru_cache(maxsize=64)
def _reference(steps: tuple[float, ...]) -> Reference:
    known = packaged().get(steps_even(steps))
    return simulated(np.array(steps)) if known is None else known[0]


def simulated(steps: np.ndarray) -> Reference:
    """Return the reference of `steps`, simulated anew."""
    grid = design(steps)
    series = plain_series(grid.steps, SERIES), unkind_series(grid.steps, UNKIND)
    return Reference.of(*(scans(grid, np.diff(values, axis=1)) for values in series))


@lru_cache(maxsize=64)
def _false_alarms(steps: tuple[float, ...]) -> float:
    ready = packaged().get(steps_even(steps))
    if ready is not None:
        return ready[1]
    grid, known = design(np.array(steps)), _reference(steps)
    return max(
        float(np.mean(known.p_values(scans(grid, np.diff(series, axis=1))) <= level_of(grid.steps)))
        for series in curves(grid.steps, JUDGED).values()
    )


def false_alarms(steps: np.ndarray) -> float:
    """Return the highest share of `curves` at these steps in which a change is found (cached)."""
    return _false_alarms(tuple(float(step) for step in steps))


def curves(steps: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Return plain curves that the reference was not made of, (count, len(steps)) each."""
    g = rng(name="plain curves", n=len(steps))
    shape, t = (count, len(steps)), (steps - steps[0]) / np.diff(steps).min() + 1.0
    powers = t ** -g.uniform(0.1, 1.5, (count, 1))
    powers = (powers - powers.min(axis=1, keepdims=True)) / np.ptp(powers, axis=1)[:, None]
    return {
        "power law + 1% noise": powers + 0.01 * g.standard_normal(shape),
        "straight line + 1% noise": t / t[-1] + 0.01 * g.standard_normal(shape),
        "walk, steps AR(1) .8": autoregressions(g.standard_normal(shape), np.full(count, 0.8)).cumsum(axis=1),
        "walk of whole numbers": np.round(np.cumsum(0.7 * g.standard_normal(shape), axis=1)),
        "walk, t(3) steps": np.cumsum(g.standard_t(3, shape), axis=1),
    }


def plain_series(steps: np.ndarray, count: int) -> np.ndarray:
    """Return simulated noise without a change, (count, len(steps)); see the module."""
    n = len(steps)
    g = rng(name="bend reference", n=n)
    size, heavy = _sizes(g, steps, count), (g.random(count) < 1.0 / 3.0)[:, None]

    def noise() -> np.ndarray:
        normal = g.standard_normal((count, n))
        return np.where(heavy, normal / np.sqrt(g.chisquare(_TAILS, (count, n)) / _TAILS), normal)

    drift = np.cumsum(size * autoregressions(noise(), MOST_PHI * g.random(count) ** 0.5), axis=1)
    error = np.exp(g.uniform(np.log(0.1), np.log(_MOST_ERROR), count))[:, None]
    own = (g.random(count) < 0.8)[:, None]
    measured = own * np.cumsum(size * noise(), axis=1) + error * size * noise()
    return np.where((g.random(count) < 0.6)[:, None], drift, measured)


def unkind_series(steps: np.ndarray, count: int) -> np.ndarray:
    """Return simulated noise without a change whose sizes or steps are unkind; see the module."""
    n = len(steps)
    g, shape, one = rng(name="unkind reference", n=n), (count, n), (count, 1)
    at, t = np.linspace(0.0, 1.0, n), (steps - steps[0]) / np.diff(steps).min() + 1.0

    def normal() -> np.ndarray:
        return g.standard_normal(shape)

    early = at < g.uniform(0.1, 0.45, one)
    sudden = normal() * np.where(early, np.exp(g.uniform(np.log(0.2), np.log(6.0), one)), 1.0)
    slow = autoregressions(normal(), np.full(count, 0.9)) * np.sqrt(1.0 - 0.9**2)
    kinds = [
        np.where(g.random(one) < 0.75, sudden.cumsum(axis=1), sudden),
        (np.exp(g.uniform(0.4, 1.0, one) * slow) * normal()).cumsum(axis=1),
        g.gamma(np.broadcast_to(g.uniform(0.7, 2.0, one), shape)).cumsum(axis=1),
        autoregressions(normal(), g.uniform(0.5, 0.85, count)).cumsum(axis=1)
        + g.uniform(1.0, 3.0, one) * normal(),
        normal() * t ** -g.uniform(0.4, 1.1, one),
        (normal() * t ** g.uniform(-1.1, 0.7, one)).cumsum(axis=1),
    ]
    return np.choose(g.integers(0, len(kinds), one), kinds)


def _sizes(g: np.random.Generator, steps: np.ndarray, count: int) -> np.ndarray:
    """Return sizes of noise along training, (count, n): constant in a third, else a power, a wave, a step."""
    at = (np.log(steps) - np.log(steps).mean(), np.linspace(0.0, 1.0, len(steps)))
    some = g.random(count) < 2.0 / 3.0
    power, height = some * g.uniform(*_POWERS, count), some * g.uniform(0.0, 1.0, count)
    phase = g.uniform(0.0, 2.0 * np.pi, (count, 1))
    wave = np.cos(np.pi * np.outer(g.uniform(0.5, 2.0, count), at[1]) + phase)
    sudden = (some & (g.random(count) < 0.5)) * g.uniform(-1.6, 1.6, count)
    early = at[1] < g.uniform(0.1, 0.9, (count, 1))
    return np.exp(np.outer(power, at[0]) + height[:, None] * wave + sudden[:, None] * early)


def autoregressions(noise: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Return stationary series x_i = phi x_(i-1) + e_i of the `noise` e (series, n), one for each `phi`."""
    out = noise.copy()
    out[:, 0] /= np.sqrt(1.0 - phi * phi)
    for i in range(1, out.shape[1]):
        out[:, i] += phi * out[:, i - 1]
    return out
