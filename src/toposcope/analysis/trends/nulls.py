"""Pairs of series that have nothing to do with each other, and pairs with a planted relation.

Everything here is simulated on the data's own steps. A simulator returns an array (n, draws).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toposcope.seeding import rng

Simulator = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]
REQUIRED = (
    "random walks", "AR(1) 0.5", "AR(1) 0.9", "power laws + 30% noise", "power laws + 10% noise",
    "power laws + 3% noise", "power laws + 1% noise",
)  # fmt: skip
"""The nulls that the verdict must hold its level under: drift, persistence, shared trends."""


def _white(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    return g.standard_normal((len(steps), draws))


def _walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    return np.cumsum(_white(g, steps, draws), axis=0)


def _autoregression(phi: float) -> Simulator:
    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        x = _white(g, steps, draws)
        x[0] /= np.sqrt(1.0 - phi * phi)
        for i in range(1, len(steps)):
            x[i] += phi * x[i - 1]
        return x

    return simulate


def clock(steps: np.ndarray) -> np.ndarray:
    """Return t = (step - first) / smallest spacing + 1, which power laws are functions of."""
    return (steps - steps[0]) / np.diff(steps).min() + 1.0


def _power_laws(noise: float, kind: Simulator = _white) -> Simulator:
    """Return +-t^-b, b uniform in [0.1, 1.5], scaled to range 1, plus noise of that standard deviation."""

    def simulate(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
        trend = clock(steps)[:, None] ** -g.uniform(0.1, 1.5, draws)
        trend = (trend - trend.min(axis=0)) / np.ptp(trend, axis=0) * g.choice([-1.0, 1.0], draws)
        extra = kind(g, steps, draws)
        return trend + noise * extra / extra.std()

    return simulate


def _waning(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    return _white(g, steps, draws) * clock(steps)[:, None] ** -0.5


def _cosine(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    part = (steps - steps[0]) / (steps[-1] - steps[0])
    return np.cumsum(_white(g, steps, draws) * (0.5 + 0.5 * np.cos(np.pi * part) + 0.01)[:, None], axis=0)


def _walk_and_noise(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    return 0.3 * _walk(g, steps, draws) + _white(g, steps, draws)


def _drifting_walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    return np.cumsum(_white(g, steps, draws) + g.uniform(-1.0, 1.0, draws), axis=0)


def _heavy_walk(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    return np.cumsum(g.standard_t(3, (len(steps), draws)), axis=0)


NULLS: dict[str, Simulator] = {
    "random walks": _walk,
    "AR(1) 0.5": _autoregression(0.5),
    "AR(1) 0.9": _autoregression(0.9),
    "power laws + 30% noise": _power_laws(0.3),
    "power laws + 10% noise": _power_laws(0.1),
    "power laws + 3% noise": _power_laws(0.03),
    "power laws + 1% noise": _power_laws(0.01),
    "power laws + 0.1% noise": _power_laws(0.001),
    "power laws + 5% AR(1) 0.9": _power_laws(0.05, _autoregression(0.9)),
    "power laws + 5% random walk": _power_laws(0.05, _walk),
    "random walk + white noise": _walk_and_noise,
    "random walks with drift": _drifting_walk,
    "random walks, t(3) steps": _heavy_walk,
    "power laws + 10% noise, waning": _power_laws(0.1, _waning),
    "random walks, cosine steps": _cosine,
}
"""Name -> simulator of one series; both members of a pair come from the same one, independently."""


def null_pairs(name: str, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `draws` independent pairs (n, draws) of the named null.

    >>> x, y = null_pairs("random walks", np.arange(20.0), 5)
    >>> x.shape
    (20, 5)
    """
    g = rng(name="null", null=name, n=len(steps), draw=draws)
    return NULLS[name](g, steps, draws), NULLS[name](g, steps, draws)


def planted_pairs(
    correlation: float, steps: np.ndarray, draws: int, *, kind: str = "white", noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of power-law trends whose noise is correlated: the effect that a test should find.

    `kind` "white": independent between checkpoints; "walk": the increments of a random walk are.
    `noise` is its standard deviation beside trends of range 1.
    """
    g = rng(name="planted", kind=kind, n=len(steps), draw=draws, percent=round(100 * correlation))
    a, b = _white(g, steps, draws), _white(g, steps, draws)
    b = correlation * a + np.sqrt(1.0 - correlation**2) * b
    if kind == "walk":
        a, b = (z / z.std() for z in (np.cumsum(a, axis=0), np.cumsum(b, axis=0)))
    trend = _power_laws(0.0)
    return trend(g, steps, draws) + noise * a, trend(g, steps, draws) + noise * b
