"""How often the bands of the dimension estimates contain the true dimension.

Run: python benchmarks/dimension_coverage.py [--draws N] [--points N].
"""

from __future__ import annotations

import argparse

import numpy as np

from toposcope.core.seeding import rng
from toposcope.topology import mle_dimension, ph_dimension, twonn

ESTIMATORS = {"TwoNN": twonn, "MLE": mle_dimension, "PH": ph_dimension}


def cloud(kind: str, n: int, g: np.random.Generator) -> np.ndarray:
    """Return n independent points of a manifold."""
    if kind == "circle":
        turn = g.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(turn), np.sin(turn)])
    if kind.startswith("sphere"):
        points = g.standard_normal((n, 6))
        return points / np.linalg.norm(points, axis=1, keepdims=True)
    if kind.startswith("cube"):
        return g.uniform(size=(n, int(kind.split()[1])))
    return g.standard_normal((n, 10))


MANIFOLDS = {"circle": 1, "cube 2": 2, "sphere 5": 5, "cube 5": 5, "normal 10": 10}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--points", type=int, default=300)
    options = parser.parse_args()
    print("manifold: share of intervals that hold the dimension, mean estimate")
    for kind, dim in MANIFOLDS.items():
        cells = []
        for name, estimator in ESTIMATORS.items():
            found = [
                estimator(cloud(kind, options.points, rng(name="dimension coverage", kind=kind, draw=draw)))
                for draw in range(options.draws)
            ]
            held = np.mean([one.low <= dim <= one.high for one in found])
            cells.append(f"{name} {100 * held:.0f}% ({np.mean([one.value for one in found]):.2f})")
        print(f"{kind:10}", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    main()
