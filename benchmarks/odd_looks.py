"""How often a watch calls a healthy seed odd if it tests again and again while the runs train.

Run: python -m benchmarks.odd_looks [--draws N].

At each look a watch judges the runs by what is logged so far, and each judgement has the level 5%. The
groups are simulated: a loss that falls by a power of the step, offsets of the seeds, and noise of batches.
Printed is the share of groups in which any run is called odd: at the last look, at any of them, and at two
looks in a row. A planted run, whose loss is 4% higher over the second half of the steps, shows what is found.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.odd import odd_runs

STEPS = np.arange(10, 1010, 10)
OFFSET = 0.005
LOOKS = (1, 5, 20)

Walk = Callable[[np.random.Generator, int], np.ndarray]
HEALTHY: dict[str, Walk] = {
    "offsets that last": lambda g, runs: OFFSET * g.standard_normal((runs, 1)) * np.ones(len(STEPS)),
    "offsets that last, and noise": lambda g, runs: (
        OFFSET * g.standard_normal((runs, 1)) + OFFSET * g.standard_normal((runs, len(STEPS)))
    ),
    "offsets that drift": lambda g, runs: (
        OFFSET * np.cumsum(g.standard_normal((runs, len(STEPS))), axis=1) / np.sqrt(len(STEPS))
    ),
}


def looked(losses: np.ndarray, looks: int) -> list[set[int]]:
    """Return which runs are called odd at each of so many looks, spread evenly over the steps."""
    found = []
    for upto in np.linspace(0, len(STEPS), looks + 1).astype(int)[1:]:
        found.append({one.run for one in odd_runs({"loss": losses[:, :upto]}, STEPS[:upto])})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    print("healthy groups in which a run is called odd, %; error at most", round(50 / np.sqrt(draws), 1))
    print(f"{'':30} runs  looks: at the last, at any, twice in a row; planted run named at the last look")
    for name, made in HEALTHY.items():
        for runs in (5, 10):
            for looks in LOOKS:
                counts = np.zeros(4)
                for draw in range(draws):
                    g = rng(name="odd looks", case=name, runs=runs, draw=draw)
                    losses = (2.0 + 4.0 * STEPS**-0.4) * (1.0 + made(g, runs))
                    seen = looked(losses, looks)
                    twice = any(one & other for one, other in pairwise(seen))
                    losses[0, len(STEPS) // 2 :] *= 1.0 + 8 * OFFSET
                    planted = 0 in looked(losses, 1)[0]
                    counts += (bool(seen[-1]), any(seen), twice, planted)
                rates = " ".join(f"{100 * share:5.1f}" for share in counts / draws)
                print(f"{name:30} {runs:4} {looks:6}: {rates}", flush=True)


if __name__ == "__main__":
    main()
