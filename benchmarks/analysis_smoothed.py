"""Unrelated power laws, smoothed row by row and logged at uneven steps: how often a relation is found.

    python -m benchmarks.analysis_smoothed [--draws 300] [--grid missing]

Each cell has the percent of independent pairs that "add", which should be at most 7.5, and in brackets the
percent without a verdict. The last column is the power for r = .5 between the noises of plain power laws.
"""

from __future__ import annotations

import argparse

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends.innovations import innovation_test
from toposcope.statistics.trends.row_means import RowMean
from toposcope.statistics.trends.whitening import whiten

ROWS = 60
MEANS = {
    "plain": RowMean(), "EMA .8": RowMean(keep=0.8), "EMA .87": RowMean(keep=0.87),
    "EMA .9": RowMean(keep=0.9), "EMA .95": RowMean(keep=0.95), "EMA .98": RowMean(keep=0.98),
    "mean 3": RowMean(width=3), "mean 5": RowMean(width=5), "mean 9": RowMean(width=9),
}  # fmt: skip
NOISES = (0.0, 0.001, 0.01, 0.1)


def grids() -> dict[str, np.ndarray]:
    """Return the steps: random gaps, jitter around an even grid, missing rows, a growing gap."""
    g = np.random.default_rng(40)
    jittered = {
        f"jitter of {100 * part:.0f}%": 100.0
        * (np.arange(1, ROWS + 1) + g.uniform(-part, part, ROWS)).round(2)
        for part in (0.1, 0.2, 0.3)
    }
    return {
        "gaps of 70 to 130": np.cumsum(g.integers(70, 131, ROWS)).astype(float),
        **jittered,
        "12 of 62 missing": 100.0 * np.sort(g.choice(62, 50, replace=False)),
        "gaps that grow fourfold": np.cumsum(np.geomspace(50, 200, ROWS).round()),
        "48 log": np.unique(np.r_[0, np.geomspace(1, 143_000, 50).round()]),
    }


def rate(steps: np.ndarray, mean: RowMean, noise: float, draws: int, name: str) -> str:
    """Return the percent of unrelated pairs that add, in brackets that have no verdict."""
    g = rng(name="smoothed", case=name, n=len(steps), noise=noise)
    make = sim.curve(sim.power_law, noise)
    x, y = (whiten(mean.of(make(g, steps, draws).T).T, steps) for _ in range(2))
    test = innovation_test(x, y, intervals=False)
    return f"{100 * test.found.mean():.1f} ({100 * test.silent.mean():.0f})"


def power(steps: np.ndarray, draws: int) -> str:
    """Return the percent of power laws found whose noises are related by r = .5."""
    g = rng(name="smoothed", case="power", n=len(steps))
    first, other = g.standard_normal((2, len(steps), draws))
    noises = (first, 0.5 * first + np.sqrt(0.75) * other)
    curve = sim.curve(sim.power_law, 0.0)
    x, y = (whiten(curve(g, steps, draws) + 0.1 * part, steps) for part in noises)
    test = innovation_test(x, y, intervals=False)
    return f"{100 * test.found.mean():.1f} ({100 * test.silent.mean():.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--grid", default="")
    options = parser.parse_args()
    print("| steps | noise |", " | ".join(MEANS), "| power |")
    for grid, steps in grids().items():
        if options.grid not in grid:
            continue
        found = power(steps, options.draws)
        for noise in NOISES:
            cells = (rate(steps, mean, noise, options.draws, name) for name, mean in MEANS.items())
            print(f"| {grid} | {noise:.1%} |", " | ".join(cells), f"| {found} |", flush=True)


if __name__ == "__main__":
    main()
