"""How often the pairing test reports mere shared speed: python benchmarks/analysis_replicates.py.

Five seeds, 51 even checkpoints. Every seed runs through the same two power laws, its clock scaled by a
factor with a standard deviation of 10%, and has independent white noise. Feature and target share the speed
and nothing else.
"""

from __future__ import annotations

import argparse

import numpy as np

from toposcope.core.seeding import rng
from toposcope.study.trends.replicates import pooled_pairing_test

STEPS = np.arange(51) * 100.0
SEEDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    print(f"p <= .05, {draws} pairs: as they are, freed of the core trends")
    for noise in (0.03, 0.01):
        for shared in (0.0, 0.5):
            g = rng(name="speeds", step=round(1000 * noise), draw=round(100 * shared))
            found = np.zeros(2)
            for _ in range(draws):
                clock = (STEPS[:, None] / 100.0 + 1.0) * np.exp(0.1 * g.standard_normal(SEEDS))
                own = g.standard_normal((len(STEPS), SEEDS))
                x = clock ** -g.uniform(0.2, 1.0) + noise * own
                other = shared * own + np.sqrt(1.0 - shared**2) * g.standard_normal(own.shape)
                y = clock ** -g.uniform(0.2, 1.0) + noise * other
                for i, steps in enumerate((None, [STEPS])):
                    found[i] += pooled_pairing_test([(x, y)], steps)[1] <= 0.05
            print(
                f"noise {noise:.0%}, r of the noise {shared}: {found[0] / draws:6.1%} {found[1] / draws:6.1%}"
            )


if __name__ == "__main__":
    main()
