"""Nulls that repeat a shape, not a sinusoid: those that set the rule on shapes, and those that judge it.

Both members of a pair repeat the same shape with the same period; each has its own phase.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toposcope.statistics.trends import simulators as sim

Shape = Callable[[np.ndarray], np.ndarray]
_PATTERN = np.array([0.1, 0.9, -0.6, 0.3, -1.2, 0.5, 1.1, -0.8])


def repeated(period: float, shape: Shape, noise: float) -> sim.Simulator:
    """Return a simulator of `shape`, a function of the share of a period, under white noise of this size.

    >>> simulate = repeated(4.0, lambda part: part, 0.0)
    >>> simulate(np.random.default_rng(0), np.arange(9.0), 1)[:, 0].round(2).tolist()[:5]
    [0.64, 0.89, 0.14, 0.39, 0.64]
    """

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        place = np.arange(len(steps))[:, None] + g.uniform(0.0, period, draws)
        return shape(place % period / period) + noise * sim.white(g, steps, draws)

    return simulate


def _square(part: np.ndarray) -> np.ndarray:
    return (part < 0.5).astype(float)


def _pulse(part: np.ndarray) -> np.ndarray:
    return (part < 0.1).astype(float)


def _triangle(part: np.ndarray) -> np.ndarray:
    return np.abs(part - 0.5)


def _bump(part: np.ndarray) -> np.ndarray:
    return np.exp(-(((part - 0.5) / 0.12) ** 2))


def _identity(part: np.ndarray) -> np.ndarray:
    return part


REPEATING_SETTING: dict[str, sim.Simulator] = {
    "squares of 8": repeated(8.0, _square, 0.2),
    "pulses of 10": repeated(10.0, _pulse, 0.15),
    "triangles of 7": repeated(7.0, _triangle, 0.05),
    "saws of 6": repeated(6.0, _identity, 0.15),
    "saws of 12": repeated(12.0, _identity, 0.1),
    "bumps of 8": repeated(8.0, _bump, 0.15),
}
"""On these the rule was set (`coincidences.REPEATED`)."""


def _half_wave(part: np.ndarray) -> np.ndarray:
    return np.maximum(np.sin(2.0 * np.pi * part), 0.0)


def _wide_pulse(part: np.ndarray) -> np.ndarray:
    return (part < 0.25).astype(float)


def _lopsided(part: np.ndarray) -> np.ndarray:
    return np.minimum(part / 0.2, (1.0 - part) / 0.8)


def _decay(part: np.ndarray) -> np.ndarray:
    return np.exp(-3.0 * part)


def _pattern(part: np.ndarray) -> np.ndarray:
    return np.asarray(_PATTERN[(part * len(_PATTERN)).astype(int)])


def _short_duty(part: np.ndarray) -> np.ndarray:
    return (part < 0.3).astype(float)


def _rectified(part: np.ndarray) -> np.ndarray:
    return np.abs(np.sin(np.pi * part))


def _steep(part: np.ndarray) -> np.ndarray:
    return np.minimum(part / 0.7, (1.0 - part) / 0.3)


def _twice(part: np.ndarray) -> np.ndarray:
    return (part < 0.06).astype(float) - 0.6 * (np.abs(part - 0.4) < 0.03)


REPEATING_JUDGES: dict[str, sim.Simulator] = {
    "half waves of 7": repeated(7.0, _half_wave, 0.2),
    "pulses of 13, a quarter wide": repeated(13.0, _wide_pulse, 0.2),
    "lopsided tents of 10": repeated(10.0, _lopsided, 0.15),
    "decays of 9": repeated(9.0, _decay, 0.15),
    "saws of seven and a half": repeated(7.5, _identity, 0.15),
    "a pattern of eight checkpoints": repeated(8.0, _pattern, 0.4),
}
"""Written down before the rule; one before it, on overtones below 40 checkpoints, had been tried on them."""
REPEATING_BLIND: dict[str, sim.Simulator] = {
    "triangles of nine and a half": repeated(9.5, _triangle, 0.05),
    "pulse trains of 11": repeated(11.0, _pulse, 0.15),
    "rectified sines of 14": repeated(14.0, _rectified, 0.15),
    "lopsided saws of 8.3": repeated(8.3, _steep, 0.15),
    "squares of 10, 30% high": repeated(10.0, _short_duty, 0.2),
    "two pulses in 17": repeated(17.0, _twice, 0.15),
    "power laws and saws of 12 + 3% noise": sim.plus(
        (1.0, sim.curve(sim.power_law, 0.03)), (0.15, repeated(12.0, _identity, 0.0))
    ),
    "walks and squares of 16": sim.plus((0.1, sim.walk), (1.0, repeated(16.0, _short_duty, 0.1))),
}
"""Written down after the rule, before it was run on any of them."""
