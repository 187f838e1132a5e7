"""What the gain of a bend is where there is none: series of known noise, simulated on the very steps at hand.

3,000 series without a bend: walks whose steps are an autoregression of order 1 (coefficient from 0 to .95,
more of them large), and walks with white noise on top (from a tenth of a step to ten steps), half of each
with noise that wanes or grows like a power of the step. A series is compared with the fifth whose estimated
persistence is nearest to its own, so that white noise is judged by noise like white and a smooth drift by
drifts as smooth. p is the share of those with as large a gain; beyond the largest 5% their exponential tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toposcope.analysis.phases.bends import design, scans
from toposcope.seeding import rng

FALSE_ALARMS = 0.05
SERIES = 3000
ALIKE = 5
"""One in so many of the simulated series are those a series is compared with."""
JUDGED = 400
MOST_PHI = 0.95
_TAIL = 0.05


@dataclass(frozen=True, slots=True)
class Reference:
    """Simulated gains in the order of their persistence: `gains` (series, 2), `persistence` (series,)."""

    persistence: np.ndarray
    gains: np.ndarray

    @staticmethod
    def of(scanned: np.ndarray) -> Reference:
        """Return the reference of simulated series, scanned by `bends.scans`."""
        order = np.argsort(scanned[:, 2], kind="stable")
        return Reference(scanned[order, 2], scanned[order, :2])

    def p_values(self, gain: float, pair_gain: float, persistence: float) -> tuple[float, float]:
        """Return how often a series without a bend, of like persistence, gains as much: one bend, and two.

        Each is doubled, for there are two.
        """
        middle = int(np.searchsorted(self.persistence, persistence))
        alike = len(self.gains) // ALIKE
        first = min(max(middle - alike // 2, 0), len(self.gains) - alike)
        like = self.gains[first : first + alike]
        one, two = (min(2.0 * _tail(like[:, m], g), 1.0) for m, g in enumerate((gain, pair_gain)))
        return one, two


def _tail(like: np.ndarray, gain: float) -> float:
    share = (1.0 + float(np.sum(like >= gain))) / (len(like) + 1.0)
    start = float(np.quantile(like, 1.0 - _TAIL))
    if gain <= start:
        return share
    return _TAIL * float(np.exp(-(gain - start) / np.mean(like[like > start] - start)))


def reference(steps: np.ndarray) -> Reference:
    """Return the reference of rising positive `steps` (cached)."""
    return _reference(tuple(float(step) for step in steps))


@lru_cache(maxsize=64)
def _reference(steps: tuple[float, ...]) -> Reference:
    grid = design(np.array(steps))
    return Reference.of(scans(grid, np.diff(plain_series(grid.steps, SERIES), axis=1)))


@lru_cache(maxsize=64)
def _false_alarms(steps: tuple[float, ...]) -> float:
    grid, known = design(np.array(steps)), _reference(steps)
    rates = []
    for series in curves(grid.steps, JUDGED).values():
        found = scans(grid, np.diff(series, axis=1))
        rates.append(np.mean([min(known.p_values(*row)) <= FALSE_ALARMS for row in found]))
    return float(max(rates))


def false_alarms(steps: np.ndarray) -> float:
    """Return the highest share of `curves` at these steps in which a bend is found (cached)."""
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
        "walk, steps AR(1) .8": np.cumsum(autoregressions(g, np.full(count, 0.8), shape[1]), axis=1),
        "walk of whole numbers": np.round(np.cumsum(0.7 * g.standard_normal(shape), axis=1)),
        "walk, t(3) steps": np.cumsum(g.standard_t(3, shape), axis=1),
    }


def plain_series(steps: np.ndarray, count: int) -> np.ndarray:
    """Return simulated noise without a bend, (count, len(steps)); see the module."""
    g = rng(name="bend reference", n=len(steps))
    n = len(steps)
    walk = np.cumsum(autoregressions(g, MOST_PHI * g.random(count) ** 0.3, n), axis=1)
    ratio = np.exp(g.uniform(np.log(0.1), np.log(10.0), count))[:, None]
    mixed = np.cumsum(g.standard_normal((count, n)), axis=1) + ratio * g.standard_normal((count, n))
    power = np.where(g.random(count) < 0.5, 0.0, g.uniform(-1.0, 0.5, count))
    series = np.where((g.random(count) < 0.6)[:, None], walk, mixed)
    size = np.exp(np.outer(power, np.log(steps) - np.log(steps).mean()))
    out = np.cumsum(np.diff(series, axis=1, prepend=0.0) * size, axis=1)
    return np.asarray(out)


def autoregressions(g: np.random.Generator, phi: np.ndarray, n: int) -> np.ndarray:
    """Return stationary series x_i = phi x_(i-1) + e_i, one for each `phi`, shape (len(phi), n)."""
    out = g.standard_normal((len(phi), n))
    out[:, 0] /= np.sqrt(1.0 - phi * phi)
    for i in range(1, n):
        out[:, i] += phi * out[:, i - 1]
    return out
