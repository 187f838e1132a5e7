"""The nulls on which the constants of the verdict's test were set; none of them is in `nulls.NULLS`."""

from __future__ import annotations

import numpy as np

from toposcope.statistics.trends import simulators as sim


def season(period: float, height: float, noise: float) -> sim.Simulator:
    """Return a simulator of a noisy power law plus a wave with a phase of its own."""
    trend = sim.curve(sim.power_law, noise)
    return sim.plus((1.0, trend), (height, sim.wave(period, 0.0)))


def turned(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a rise like a root to a sharp peak in the first fifth of the run, and an exponential fall."""
    u = ((steps - steps[0]) / (steps[-1] - steps[0]))[:, None]
    peak, fall = g.uniform(0.01, 0.2, draws), g.uniform(0.1, 0.6, draws)
    return np.minimum(u / peak, 1.0) ** 0.5 * np.exp(-np.maximum(u - peak, 0.0) / fall)


def tent(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a rise and a fall on straight lines in the log step."""
    u = np.log(sim.clock(steps))[:, None]
    u, peak = u / u[-1], g.uniform(0.3, 0.85, draws)
    return np.minimum(u / peak, (1.0 - u) / (1.0 - peak))


def ramp(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return straight lines in the step that turn sharply in the first eighth of the run."""
    u = ((steps - steps[0]) / (steps[-1] - steps[0]))[:, None]
    return np.minimum(u / g.uniform(0.03, 0.12, draws), 1.0) - g.uniform(0.2, 0.8, draws) * u


SETTING_NULLS: dict[str, sim.Simulator] = {
    "white": sim.white,
    "AR(1) 0.3": sim.autoregression(0.3),
    "AR(1) 0.7": sim.autoregression(0.7),
    "AR(1) 0.95": sim.autoregression(0.95),
    "AR(1) -0.5": sim.autoregression(-0.5),
    "AR(1) -0.9": sim.autoregression(-0.9),
    "cycle 6, .8": sim.cycle(6.0, 0.8),
    "cycle 12, .95": sim.cycle(12.0, 0.95),
    "wave 8 + 30%": sim.wave(8.0, 0.3),
    "wave 6 + 10%": sim.wave(6.0, 0.1),
    "wave 9 + 5%": sim.wave(9.0, 0.05),
    "edge .8": sim.edge(0.8),
    "averaged over 3": sim.averaged(3),
    "averaged over 7": sim.averaged(7),
    "walk + 2 white": sim.plus((1.0, sim.walk), (2.0, sim.white)),
    "walk of AR(1) .5": sim.summed(sim.autoregression(0.5)),
    "power laws + 5%": sim.curve(sim.power_law, 0.05),
    "power laws + 0.3%": sim.curve(sim.power_law, 0.003),
    "power laws + 2% AR .7": sim.curve(sim.power_law, 0.02, sim.autoregression(0.7)),
    "power laws + 3%, waning": sim.curve(sim.power_law, 0.03, sim.scaled(sim.white, -0.4)),
    "exponentials + 0.3%": sim.curve(sim.exponential, 0.003),
    "exponentials + 3%": sim.curve(sim.exponential, 0.03),
    "sigmoids + 0.5%": sim.curve(sim.sigmoid, 0.005),
    "sigmoids + 5%": sim.curve(sim.sigmoid, 0.05),
    "log sigmoids + 0.3%": sim.curve(sim.log_sigmoid, 0.003),
    "double descent + 0.3%": sim.curve(sim.double_descent, 0.003),
    "kinks + 0.5%": sim.curve(sim.kink, 0.005),
    "jumps + 2%": sim.curve(sim.jump, 0.02),
    "spikes 10%": sim.spikes(0.1),
    "wave 11 + 40%": sim.wave(11.0, 0.4),
    "power laws, season 6 + 2%": season(6.0, 0.03, 0.02),
    "power laws, season 9 + 3%": season(9.0, 0.1, 0.03),
    "power laws, season 16 + 2%": season(16.0, 0.06, 0.02),
    "turned + 2%": sim.curve(turned, 0.02),
    "turned + 0.5%": sim.curve(turned, 0.005),
    "tents + 1%": sim.curve(tent, 0.01),
    "ramps + 1%": sim.curve(ramp, 0.01),
}
"""Name -> simulator. They differ from the judging nulls in their parameters or in their form."""
