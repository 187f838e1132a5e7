"""Simulators of one series at given steps, used for the nulls; each returns (n, draws)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toposcope.statistics.trends.row_means import RowMean

Simulator = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]
_WARM_UP = 100
"""The number of values drawn and dropped so that a series begins in its stationary state."""


def clock(steps: np.ndarray) -> np.ndarray:
    """Return t = (step - first) / smallest spacing + 1, the argument of power laws."""
    return (steps - steps[0]) / np.diff(steps).min() + 1.0


def _share(steps: np.ndarray) -> np.ndarray:
    return ((steps - steps[0]) / (steps[-1] - steps[0]))[:, None]


def _log_share(steps: np.ndarray) -> np.ndarray:
    logs = np.log(clock(steps))[:, None]
    return logs / logs[-1]


def _unit(trend: np.ndarray, g: np.random.Generator) -> np.ndarray:
    """Scale each column to the range 1, and give it a random sign."""
    return (trend - trend.min(axis=0)) / np.ptp(trend, axis=0) * g.choice([-1.0, 1.0], trend.shape[1])


def white(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return independent normal values."""
    return g.standard_normal((len(steps), draws))


def heavy(degrees: float) -> Simulator:
    """Return a simulator of independent Student t values."""
    return lambda g, steps, draws: g.standard_t(degrees, (len(steps), draws))


def walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return random walks, one step per checkpoint."""
    return np.cumsum(white(g, steps, draws), axis=0)


def time_walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return Brownian motion in the step: increments scale with the square root of the gap."""
    gaps = np.r_[1.0, np.diff(steps) / np.diff(steps).mean()]
    return np.cumsum(np.sqrt(gaps)[:, None] * white(g, steps, draws), axis=0)


def summed(kind: Simulator) -> Simulator:
    """Return a simulator of cumulative sums of another."""
    return lambda g, steps, draws: np.cumsum(kind(g, steps, draws), axis=0)


def autoregression(*phi: float) -> Simulator:
    """Return a simulator of x_t = phi_1 x_(t-1) + ... + noise, warmed up over 100 values."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        x = g.standard_normal((len(steps) + _WARM_UP, draws))
        for i in range(len(phi), len(x)):
            for k, value in enumerate(phi):
                x[i] += value * x[i - 1 - k]
        return x[_WARM_UP:]

    return simulate


def cycle(period: float, radius: float) -> Simulator:
    """Return a simulator of AR(2) noise that cycles with a period (in checkpoints) and a damping radius."""
    return autoregression(2.0 * radius * float(np.cos(2.0 * np.pi / period)), -(radius**2))


def averaged(width: int, kind: Simulator = white) -> Simulator:
    """Return a simulator smoothed over `width` checkpoints."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        longer = np.arange(len(steps) + width - 1, dtype=float)
        total = np.cumsum(np.vstack([np.zeros((1, draws)), kind(g, longer, draws)]), axis=0)
        return (total[width:] - total[:-width]) / width

    return simulate


def wave(period: float, noise: float) -> Simulator:
    """Return a simulator of a sinusoid of one period (in checkpoints) and random phase, plus noise."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        turn = 2.0 * np.pi * np.arange(len(steps))[:, None] / period
        return np.sin(turn + g.uniform(0, 2.0 * np.pi, draws)) + noise * white(g, steps, draws)

    return simulate


def edge(persistence: float) -> Simulator:
    """Return a simulator of noise at the edge of stability: alternating in sign, persistent in size."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        size = np.exp(0.5 * autoregression(persistence)(g, steps, draws))
        signs = (-1.0) ** np.arange(len(steps))[:, None] * g.choice([-1.0, 1.0], draws)
        return signs * size + 0.5 * white(g, steps, draws)

    return simulate


def scaled(kind: Simulator, power: float) -> Simulator:
    """Return a simulator whose size scales with t^power."""
    return lambda g, steps, draws: kind(g, steps, draws) * clock(steps)[:, None] ** power


def spikes(share: float) -> Simulator:
    """Return a simulator of white noise with spikes ten times as large at a share of random checkpoints."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        hit = g.random((len(steps), draws)) < share
        return white(g, steps, draws) * np.where(hit, 10.0, 1.0)

    return simulate


def plus(*parts: tuple[float, Simulator]) -> Simulator:
    """Return a simulator of a weighted sum of others."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        return np.sum([weight * kind(g, steps, draws) for weight, kind in parts], axis=0)

    return simulate


def curve(shape: Callable[[np.random.Generator, np.ndarray, int], np.ndarray], noise: float,
          kind: Simulator = white) -> Simulator:  # fmt: skip
    """Return a simulator of a smooth curve of range 1 and either sign, plus noise of this size."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        extra = kind(g, steps, draws)
        return _unit(shape(g, steps, draws), g) + noise * extra / extra.std()

    return simulate


def power_law(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return t^-b with b uniform in [0.1, 1.5]."""
    return clock(steps)[:, None] ** -g.uniform(0.1, 1.5, draws)


def shifted_power_law(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return (u + c)^-b in the share u of the run: power laws with a late start."""
    return (_share(steps) + np.exp(g.uniform(-5.0, 0.0, draws))) ** -g.uniform(0.2, 1.5, draws)


def exponential(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return exp(-u / tau), tau from a fiftieth of the run to all of it."""
    return np.exp(-_share(steps) / np.exp(g.uniform(np.log(0.02), 0.0, draws)))


def two_exponentials(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return the sum of a fast and a slow exponential."""
    u, mix = _share(steps), g.uniform(0.2, 0.8, draws)
    fast, slow = g.uniform(0.03, 0.1, draws), g.uniform(0.2, 1.0, draws)
    return mix * np.exp(-u / fast) + (1.0 - mix) * np.exp(-u / slow)


def sigmoid(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a sigmoid in the step at a random time, a fiftieth to a tenth of the run wide."""
    return 1.0 / (1.0 + np.exp(-(_share(steps) - g.uniform(0.1, 0.9, draws)) / g.uniform(0.02, 0.1, draws)))


def log_sigmoid(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a sigmoid in the log step at a random time."""
    u = _log_share(steps)
    return 1.0 / (1.0 + np.exp(-(u - g.uniform(0.2, 0.9, draws)) / g.uniform(0.03, 0.1, draws)))


def double_descent(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a power law with a bump on it: a fall, a rise, a fall."""
    u = _share(steps)
    bump = np.exp(-0.5 * ((u - g.uniform(0.2, 0.7, draws)) / g.uniform(0.05, 0.15, draws)) ** 2)
    return (u + 0.05) ** -g.uniform(0.3, 1.0, draws) / 5.0 + g.uniform(0.1, 0.5, draws) * bump


def log_bump(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a rise and a fall in the log step on top of a straight line in it."""
    u = _log_share(steps)
    bump = np.exp(-0.5 * ((u - g.uniform(0.2, 0.8, draws)) / g.uniform(0.08, 0.2, draws)) ** 2)
    return -u + g.uniform(0.2, 1.0, draws) * bump


def kink(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a line in the log step whose slope changes at a random position."""
    u = _log_share(steps)
    return -u + g.uniform(-1.0, 0.8, draws) * np.maximum(u - g.uniform(0.2, 0.8, draws), 0.0)


def jump(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a power law with a jump at a random checkpoint."""
    late = np.arange(len(steps))[:, None] >= g.integers(len(steps) // 5, len(steps) - 3, draws)
    fall = (clock(steps)[:, None]) ** -0.5
    return (fall - fall.min()) / np.ptp(fall) + g.uniform(0.1, 0.5, draws) * late


def cosine(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a half cosine over the run plus a power law, in random proportions."""
    wave_part = 0.5 * (1.0 + np.cos(np.pi * _share(steps)))
    return power_law(g, steps, draws) + g.uniform(0.0, 0.5, draws) * wave_part


def fading_walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return random walks whose steps shrink on a cosine."""
    size = 0.5 + 0.5 * np.cos(np.pi * _share(steps)) + 0.01
    return np.cumsum(white(g, steps, draws) * size, axis=0)


def drifting_walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return random walks with random drifts."""
    return np.cumsum(white(g, steps, draws) + g.uniform(-1.0, 1.0, draws), axis=0)


def counts(rate: float) -> Simulator:
    """Return a simulator of counts whose logarithm falls like a power law, about `rate` at the end."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        return g.poisson(rate * np.exp(2.0 * power_law(g, steps, draws))).astype(float)

    return simulate


def exponential_mean(keep: float, kind: Simulator = white) -> Simulator:
    """Return a simulator of series, white noise by default, under an exponential mean: a smoothed log."""
    mean = RowMean(keep=keep)
    return lambda g, steps, draws: mean.of(kind(g, steps, draws).T).T


def at_steps(kind: Simulator, g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a simulator's series at these steps; missing checkpoints are simulated and then removed.

    Steps that lie on an even grid with at most twice as many steps count as having missing checkpoints. So
    persistence from checkpoint to checkpoint extends across a gap, too.
    """
    steps = np.asarray(steps, float)
    place = (steps - steps[0]) / np.diff(steps).min()
    whole = np.rint(place).astype(int)
    if np.abs(place - whole).max() > 1e-9 or whole[-1] + 1 > 2 * len(steps):
        return kind(g, steps, draws)
    even = steps[0] + np.arange(whole[-1] + 1) * np.diff(steps).min()
    return kind(g, even, draws)[whole]
