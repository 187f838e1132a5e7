"""Nulls written after the constants of the verdict's test; they led to two rules (seasons, peaks)."""

from __future__ import annotations

import numpy as np

from toposcope.statistics.trends import simulators as sim


def fractional(d: float) -> sim.Simulator:
    """Return a simulator of fractional noise, (1 - B)^-d of white noise, with power-law memory."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        longer = len(steps) + 200
        k = np.arange(1.0, longer)
        weights = np.r_[1.0, np.cumprod((k - 1.0 + d) / k)]
        noise = g.standard_normal((longer, draws))
        size = 2 * longer
        mixed = np.fft.irfft(
            np.fft.rfft(weights, size)[:, None] * np.fft.rfft(noise, size, axis=0), size, axis=0
        )
        return mixed[200:longer]

    return simulate


def garch(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return GARCH(1, 1) noise: bursts of about ten checkpoints."""
    noise = g.standard_normal((len(steps) + 100, draws))
    variance = np.ones(draws)
    for i in range(len(noise)):
        noise[i] *= np.sqrt(variance)
        variance = 0.05 + 0.2 * noise[i] ** 2 + 0.75 * variance
    return noise[100:]


def regimes(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return an autoregression whose coefficient switches between .9 and -.5 about every 20 checkpoints."""
    x = g.standard_normal((len(steps) + 100, draws))
    high = g.random(draws) < 0.5
    for i in range(1, len(x)):
        high = high ^ (g.random(draws) < 0.05)
        x[i] += np.where(high, 0.9, -0.5) * x[i - 1]
    return x[100:]


def multiplied(size: float) -> sim.Simulator:
    """Return a simulator of power laws times log-normal noise."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        return sim.power_law(g, steps, draws) * np.exp(size * sim.white(g, steps, draws))

    return simulate


def seasonal(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a power law plus a season of 12 checkpoints with a random phase, plus noise."""
    trend = sim.curve(sim.power_law, 0.02)(g, steps, draws)
    return trend + 0.05 * sim.wave(12.0, 0.0)(g, steps, draws)


def warmed_up(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a straight rise to a peak at 2% to 15% of the run, followed by a power-law fall."""
    u, peak = ((steps - steps[0]) / (steps[-1] - steps[0]))[:, None], g.uniform(0.02, 0.15, draws)
    return np.minimum(u / peak, (np.maximum(u, peak) / peak) ** -g.uniform(0.3, 1.0, draws))


def clipped(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return noisy power laws with a floor, a tenth to a half of their range above the lowest value."""
    x = sim.curve(sim.power_law, 0.03)(g, steps, draws)
    low = x.min(axis=0)
    return np.maximum(x, low + np.ptp(x, axis=0) * g.uniform(0.1, 0.5, draws))


def rounded(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return noisy power laws rounded to a fiftieth of their range."""
    return np.round(50.0 * sim.curve(sim.power_law, 0.02)(g, steps, draws))


def gompertz(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return Gompertz curves exp(-a exp(-b u)): an S that is steeper on the left."""
    u = ((steps - steps[0]) / (steps[-1] - steps[0]))[:, None]
    return np.exp(-np.exp(g.uniform(0.5, 2.0, draws) - u * g.uniform(4.0, 15.0, draws)))


def reflected(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return random walks between two reflecting walls."""
    return np.abs((sim.walk(g, steps, draws) + 3.0) % 12.0 - 6.0)


HELD_OUT_NULLS: dict[str, sim.Simulator] = {
    "fractional noise, d = 0.3": fractional(0.3),
    "fractional noise, d = 0.7": fractional(0.7),
    "power laws + 5% GARCH noise": sim.curve(sim.power_law, 0.05, garch),
    "random walks, GARCH steps": sim.summed(garch),
    "autoregression that switches": regimes,
    "power laws and seasons of 12 + 2% noise": seasonal,
    "power laws times 5% log-normal noise": multiplied(0.05),
    "warmup, then a power law + 1% noise": sim.curve(warmed_up, 0.01),
    "power laws + 3% noise, clipped": clipped,
    "power laws + 2% noise, rounded": rounded,
    "Gompertz curves + 0.5% noise": sim.curve(gompertz, 0.005),
    "reflected random walks": reflected,
}
"""Name -> simulator of one series, as `nulls.NULLS`."""
