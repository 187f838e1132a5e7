"""Deep graph persistence beside neural persistence of the same: python -m benchmarks.deep_persistence.

Processor time of one thread, the least of several calls, in CSV: without shuffles, and with the five that the
probe draws. Weights are Gaussian, float32, (n_out, n_in).
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable

import numba
import numpy as np

from toposcope.topology import batched_spanning_tree_weights, shuffled_neural_persistence
from toposcope.topology.graph_persistence import paths_and_shuffled

SIZES = ((8, 32, 8), (48, 192, 48), (128, 512, 128), (768, 64, 768), (768, 3072, 768), (1024, 4096, 1024))
"""Inputs, hidden units and outputs: MLPs, and value and output of a head."""
DRAWS, CALLS = 5, 5


def least(work: Callable[[], object]) -> float:
    """Return the least processor time of a call, in milliseconds."""
    work()
    times = []
    for _ in range(CALLS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def row(n_in: int, hidden: int, n_out: int) -> tuple[object, ...]:
    """Return the times of one pair of matrices."""
    g = np.random.default_rng(0)
    pair = [g.standard_normal(shape, np.float32) for shape in ((hidden, n_in), (n_out, hidden))]

    def generators() -> list[np.random.Generator]:
        return [np.random.default_rng(draw) for draw in range(DRAWS)]

    def neural() -> None:
        batched_spanning_tree_weights(pair)
        for W in pair:
            shuffled_neural_persistence(W, rng=generators())

    alone = least(lambda: batched_spanning_tree_weights(pair)), least(lambda: paths_and_shuffled(pair, []))
    drawn = least(neural), least(lambda: paths_and_shuffled(pair, generators()))
    cells = (*alone, alone[1] / alone[0], *drawn, drawn[1] / drawn[0])
    return f"{n_in} to {hidden} to {n_out}", *(f"{cell:.2f}" for cell in cells)


def main() -> None:
    """Print the table."""
    numba.set_num_threads(1)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("matrices", "neural persistence", "deep graph persistence", "ratio",
                  "neural persistence with 5 shuffles", "deep graph persistence with 5 shuffles",
                  "ratio with shuffles"))  # fmt: skip
    for sizes in SIZES:
        out.writerow(row(*sizes))


if __name__ == "__main__":
    main()
