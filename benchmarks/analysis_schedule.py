"""The verdict's rate when both series carry a cosine of their own: python benchmarks/analysis_schedule.py.

Pairs of independent power laws (range 1) plus a half cosine over the run, of an amplitude drawn for each
series up to the stated one, plus independent white noise; 51 even checkpoints. The cosine is what a
learning-rate schedule leaves in everything it touches, so a rejection is a shared cause, not a false alarm
of independence; the table says from what size on it is seen.
"""

from __future__ import annotations

import argparse

import numpy as np

from toposcope.analysis.trends.innovations import innovation_filter, innovation_test, innovations
from toposcope.seeding import rng

STEPS = np.arange(51) * 100.0


def series(generator: np.random.Generator, draws: int, amplitude: float, noise: float) -> np.ndarray:
    """Return the columns (51, draws) of one side of the pairs."""
    trend = (STEPS / 100.0 + 1.0)[:, None] ** -generator.uniform(0.1, 1.5, draws)
    trend = (trend - trend.min(axis=0)) / np.ptp(trend, axis=0) * generator.choice([-1.0, 1.0], draws)
    wave = 0.5 * (1.0 + np.cos(np.pi * STEPS / STEPS[-1]))[:, None] * generator.uniform(0, amplitude, draws)
    signed = wave * generator.choice([-1.0, 1.0], draws)
    return trend + signed + noise * generator.standard_normal((len(STEPS), draws))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000)
    draws = parser.parse_args().draws
    left = innovation_filter(STEPS).left
    print(
        f"rejections at a nominal 5%, {draws:,} pairs\n{'cosine up to':>14}{'noise 5%':>12}{'noise 1%':>12}"
    )
    for amplitude in (0.0, 0.15, 0.3, 0.6, 1.0):
        rates = []
        for noise in (0.05, 0.01):
            generator = rng(name="cosine pairs", step=round(amplitude * 100), draw=round(noise * 100))
            x, y = (innovations(series(generator, draws, amplitude, noise), STEPS) for _ in range(2))
            rates.append(float(np.mean(innovation_test(x, y, left).p < 0.05)))
        print(f"{amplitude:14.2f}{rates[0]:12.1%}{rates[1]:12.1%}")


if __name__ == "__main__":
    main()
