"""The nulls by which every test is judged (pairs of unrelated series), and planted pairs.

Everything here is simulated at the steps of the data. The constants of the verdict's test were set on other
simulators (`benchmarks/setting_nulls.py`).
"""

from __future__ import annotations

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends.held_out_nulls import HELD_OUT_NULLS
from toposcope.statistics.trends.preregistered_nulls import PREREGISTERED_NULLS

NULLS: dict[str, sim.Simulator] = {
    "random walks": sim.walk,
    "AR(1) 0.5": sim.autoregression(0.5),
    "AR(1) 0.9": sim.autoregression(0.9),
    "AR(1) -0.8": sim.autoregression(-0.8),
    "AR(1) -0.3": sim.autoregression(-0.3),
    "AR(2) cycles of 5": sim.cycle(5.0, 0.9),
    "AR(2) cycles of 10": sim.cycle(10.0, 0.9),
    "AR(2) cycles of 20": sim.cycle(20.0, 0.97),
    "AR(3)": sim.autoregression(0.6, -0.5, 0.3),
    "equal periods of 7, own phases": sim.wave(7.0, 0.1),
    "equal periods of 15, own phases": sim.wave(15.0, 0.5),
    "edge of stability": sim.edge(0.9),
    "averaged over 2": sim.averaged(2),
    "averaged over 5": sim.averaged(5),
    "averaged over 5, of a walk": sim.averaged(5, sim.walk),
    "random walk + white noise": sim.plus((0.3, sim.walk), (1.0, sim.white)),
    "random walks with drift": sim.drifting_walk,
    "random walks, t(3) steps": sim.summed(sim.heavy(3.0)),
    "random walks, cosine steps": sim.fading_walk,
    "Brownian motion in the step": sim.time_walk,
    "walks of walks": sim.summed(sim.walk),
    "white, t(2.5)": sim.heavy(2.5),
    "spikes at 5% of checkpoints": sim.spikes(0.05),
    "power laws + 30% noise": sim.curve(sim.power_law, 0.3),
    "power laws + 10% noise": sim.curve(sim.power_law, 0.1),
    "power laws + 3% noise": sim.curve(sim.power_law, 0.03),
    "power laws + 1% noise": sim.curve(sim.power_law, 0.01),
    "power laws + 0.1% noise": sim.curve(sim.power_law, 0.001),
    "power laws + 5% AR(1) 0.9": sim.curve(sim.power_law, 0.05, sim.autoregression(0.9)),
    "power laws + 5% random walk": sim.curve(sim.power_law, 0.05, sim.walk),
    "power laws + 10% noise, waning": sim.curve(sim.power_law, 0.1, sim.scaled(sim.white, -0.5)),
    "late power laws + 0.2% noise": sim.curve(sim.shifted_power_law, 0.002),
    "exponentials + 1% noise": sim.curve(sim.exponential, 0.01),
    "exponentials + 0.1% noise": sim.curve(sim.exponential, 0.001),
    "two exponentials + 0.1% noise": sim.curve(sim.two_exponentials, 0.001),
    "sigmoids + 1% noise": sim.curve(sim.sigmoid, 0.01),
    "sigmoids + 0.1% noise": sim.curve(sim.sigmoid, 0.001),
    "sigmoids in log step + 1% noise": sim.curve(sim.log_sigmoid, 0.01),
    "double descent + 1% noise": sim.curve(sim.double_descent, 0.01),
    "double descent + 0.1% noise": sim.curve(sim.double_descent, 0.001),
    "bumps in log step + 0.2% noise": sim.curve(sim.log_bump, 0.002),
    "kinks + 1% noise": sim.curve(sim.kink, 0.01),
    "jumps + 1% noise": sim.curve(sim.jump, 0.01),
    "cosine and power laws + 1% noise": sim.curve(sim.cosine, 0.01),
    "counts": sim.counts(20.0),
    "smoothed losses": sim.curve(sim.power_law, 0.02, sim.exponential_mean(0.7)),
}
"""Name -> simulator of one series; both members of a pair come from the same one, independently."""


def null_pairs(name: str, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `draws` independent pairs (n, draws) of the named null, which may be a blind or fresh one.

    >>> x, y = null_pairs("random walks", np.arange(20.0), 5)
    >>> x.shape
    (20, 5)
    """
    g = rng(name="null", null=name, n=len(steps), draw=draws)
    simulate = {**NULLS, **HELD_OUT_NULLS, **PREREGISTERED_NULLS}[name]
    return sim.at_steps(simulate, g, steps, draws), sim.at_steps(simulate, g, steps, draws)


def planted_pairs(
    correlation: float, steps: np.ndarray, draws: int, *, kind: str = "white", noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of power-law trends whose noise is correlated: the effect that a test should find.

    With `kind` "white", the noise is independent between checkpoints; with "walk", the increments of a random
    walk are. `noise` is its standard deviation, for trends of range 1.
    """
    g = rng(name="planted", kind=kind, n=len(steps), draw=draws, percent=round(100 * correlation))
    a, b = sim.white(g, steps, draws), sim.white(g, steps, draws)
    b = correlation * a + np.sqrt(1.0 - correlation**2) * b
    if kind == "walk":
        a, b = (z / z.std() for z in (np.cumsum(a, axis=0), np.cumsum(b, axis=0)))
    trend = sim.curve(sim.power_law, 0.0)
    return trend(g, steps, draws) + noise * a, trend(g, steps, draws) + noise * b
