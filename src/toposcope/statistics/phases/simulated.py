"""Series without a change, simulated at given steps, to make the references and to test them."""

from __future__ import annotations

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.phases.curves import MOST_PERIODS

MOST_PHI = 0.95
"""The largest persistence of simulated noise; the square root draws more near it than near 0."""
_MOST_ERROR = 20.0
"""The largest measurement error, in sizes of a change."""
_POWERS = (-1.2, 0.6)
"""Range of the powers of time with which the noise size falls or grows."""
_TAILS = 4.0
"""Degrees of freedom of the heavy-tailed noise: finite variance, infinite kurtosis."""
_NOISES = (0.003, 1.0)
"""Noise of gentle series, relative to the range of their trend."""
_KEEPS = (0.3, 0.95)
"""Weights of the previous row in the moving means of gentle series."""
_FEWEST_PERIODS = 0.25
"""The fewest periods of a gentle wave over the run."""


def curves(steps: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Return plain curves that are not in the reference, (count, len(steps)) each."""
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
    walks = (g.random(count) < 0.8)[:, None]
    measured = walks * np.cumsum(size * noise(), axis=1) + error * size * noise()
    return np.where((g.random(count) < 0.6)[:, None], drift, measured)


def unkind_series(steps: np.ndarray, count: int) -> np.ndarray:
    """Return simulated noise without a change, with difficult sizes or steps; see the module."""
    n = len(steps)
    g, shape, column_shape = rng(name="unkind reference", n=n), (count, n), (count, 1)
    at, t = np.linspace(0.0, 1.0, n), (steps - steps[0]) / np.diff(steps).min() + 1.0

    def normal() -> np.ndarray:
        return g.standard_normal(shape)

    early = at < g.uniform(0.1, 0.45, column_shape)
    sudden = normal() * np.where(early, np.exp(g.uniform(np.log(0.2), np.log(6.0), column_shape)), 1.0)
    slow = autoregressions(normal(), np.full(count, 0.9)) * np.sqrt(1.0 - 0.9**2)
    kinds = [
        np.where(g.random(column_shape) < 0.75, sudden.cumsum(axis=1), sudden),
        (np.exp(g.uniform(0.4, 1.0, column_shape) * slow) * normal()).cumsum(axis=1),
        g.gamma(np.broadcast_to(g.uniform(0.7, 2.0, column_shape), shape)).cumsum(axis=1),
        autoregressions(normal(), g.uniform(0.5, 0.85, count)).cumsum(axis=1)
        + g.uniform(1.0, 3.0, column_shape) * normal(),
        normal() * t ** -g.uniform(0.4, 1.1, column_shape),
        (normal() * t ** g.uniform(-1.1, 0.7, column_shape)).cumsum(axis=1),
    ]
    return np.choose(g.integers(0, len(kinds), column_shape), kinds)


def _sizes(g: np.random.Generator, steps: np.ndarray, count: int) -> np.ndarray:
    """Return noise sizes along training, (count, n): constant in a third, else a power, a wave, a step."""
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


def gentle_series(steps: np.ndarray, count: int) -> np.ndarray:
    """Return simulated gentle series without a change, (count, len(steps)); see `phases.reference`."""
    n = len(steps)
    g, shape, column_shape = rng(name="gentle reference", n=n), (count, n), (count, 1)
    at, t = np.linspace(0.0, 1.0, n), (steps - steps[0]) / np.diff(steps).min() + 1.0
    powers = t ** -g.uniform(0.1, 1.5, column_shape)
    powers = (powers - powers.min(axis=1, keepdims=True)) / np.ptp(powers, axis=1)[:, None]
    series = np.choose(
        g.integers(0, 3, column_shape), [np.zeros(shape), powers, np.broadcast_to(t / t[-1], shape)]
    )
    waves = g.integers(0, 4, column_shape)
    for i in range(3):
        angle = (
            2.0
            * np.pi
            * (g.uniform(_FEWEST_PERIODS, MOST_PERIODS, column_shape) * at + g.random(column_shape))
        )
        series = series + (i < waves) * g.uniform(0.1, 1.0, column_shape) * np.sin(angle)
    normal = g.standard_normal(shape)
    persisting = autoregressions(normal, g.uniform(0.3, 0.9, count))
    wandering = normal.cumsum(axis=1) / np.sqrt(n)
    sort = g.random(column_shape)
    noise = np.where(sort < 0.6, normal, np.where(sort < 0.8, persisting, wandering))
    series = series + np.exp(g.uniform(np.log(_NOISES[0]), np.log(_NOISES[1]), column_shape)) * noise
    keep = np.where(g.random(column_shape) < 0.3, g.uniform(*_KEEPS, column_shape), 0.0)
    for i in range(1, n):
        series[:, i] = keep[:, 0] * series[:, i - 1] + (1.0 - keep[:, 0]) * series[:, i]
    return series
