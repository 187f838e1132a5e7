"""A third set of nulls, written down before testing any; it led to one rule (overtones, `repeating`)."""

from __future__ import annotations

import numpy as np

from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends.held_out_nulls import multiplied


def _share(steps: np.ndarray) -> np.ndarray:
    return np.asarray(((steps - steps[0]) / (steps[-1] - steps[0]))[:, None])


def stretched(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return stretched exponentials exp(-(u / tau)^b)."""
    return np.exp(-((_share(steps) / g.uniform(0.02, 0.5, draws)) ** g.uniform(0.3, 1.0, draws)))


def decayed(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a power law that turns, in the last tenth to third of the run, into a steeper straight fall."""
    u, start = _share(steps), 1.0 - g.uniform(0.1, 0.33, draws)
    fall = (u + 0.02) ** -g.uniform(0.2, 1.0, draws)
    fall = (fall - fall[-1]) / (fall[0] - fall[-1])
    return fall - g.uniform(0.1, 0.5, draws) * np.maximum(u - start, 0.0) / (1.0 - start)


def hill(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return Hill curves u^a / (c^a + u^a)."""
    a = g.uniform(0.5, 4.0, draws)
    u = _share(steps) ** a
    return u / (g.uniform(0.05, 0.8, draws) ** a + u)


def filtered_heavy(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return an autoregression of .7 whose innovations are Student's t with four degrees of freedom."""
    x = g.standard_t(4.0, (len(steps) + 100, draws))
    for i in range(1, len(x)):
        x[i] += 0.7 * x[i - 1]
    return x[100:]


def moving(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a moving average: noise minus .9 of the previous noise."""
    x = g.standard_normal((len(steps) + 1, draws))
    return x[1:] - 0.9 * x[:-1]


def staircase(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a power law with three jumps at random checkpoints."""
    fall = sim.clock(steps)[:, None] ** -0.5
    out = (fall - fall.min()) / np.ptp(fall) * np.ones(draws)
    for _ in range(3):
        late = np.arange(len(steps))[:, None] >= g.integers(2, len(steps) - 2, draws)
        out += g.uniform(-0.3, 0.3, draws) * late
    return out


def broken(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return straight lines in the step whose slope changes at three random positions."""
    u, out = _share(steps), _share(steps) * g.uniform(-1.0, 1.0, draws)
    for _ in range(3):
        out = out + g.uniform(-2.0, 2.0, draws) * np.maximum(u - g.uniform(0.05, 0.95, draws), 0.0)
    return out


def contaminated(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return normal noise, a tenth of it five times as wide."""
    shape = (len(steps), draws)
    return g.standard_normal(shape) * np.where(g.random(shape) < 0.1, 5.0, 1.0)


def sudden(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a plateau, a steep sigmoid over a few hundredths of the run, a plateau."""
    width = g.uniform(0.005, 0.02, draws)
    place = (_share(steps) - g.uniform(0.1, 0.9, draws)) / width
    return 1.0 / (1.0 + np.exp(-np.clip(place, -50.0, 50.0)))


def saw(g: np.random.Generator, steps: np.ndarray, draws: int) -> np.ndarray:
    """Return a sawtooth of nine checkpoints with a random phase and half as much noise."""
    place = np.arange(len(steps))[:, None] + g.uniform(0.0, 9.0, draws)
    return place % 9.0 / 9.0 + 0.15 * g.standard_normal((len(steps), draws))


PREREGISTERED_NULLS: dict[str, sim.Simulator] = {
    "stretched exponentials + 0.5% noise": sim.curve(stretched, 0.005),
    "power laws with a steep end + 1% noise": sim.curve(decayed, 0.01),
    "Hill curves + 0.3% noise": sim.curve(hill, 0.003),
    "AR(1) 0.7 of t(4) noise": filtered_heavy,
    "moving average, -0.9": moving,
    "walks of walks + white noise": sim.plus((0.05, sim.summed(sim.walk)), (1.0, sim.white)),
    "staircases + 2% noise": sim.curve(staircase, 0.02),
    "broken lines + 1% noise": sim.curve(broken, 0.01),
    "power laws + 3% noise, a tenth wild": sim.curve(sim.power_law, 0.03, contaminated),
    "sudden rises + 1% noise": sim.curve(sudden, 0.01),
    "saws of nine checkpoints": saw,
    "power laws times 1% log-normal noise": multiplied(0.01),
}
"""Name -> simulator of one series, as `nulls.NULLS`."""
