"""How long a large store takes to open for one feature: 20 runs x 1,000 checkpoints x 100 layers.

Run with `python benchmarks/store.py [--runs 20] [--checkpoints 1000] [--layers 100] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from toposcope.core.types import Role, Row
from toposcope.store import Result, Store, Unit

FEATURES = ("neural_persistence", "neural_persistence_clipped", "weight_variance")


def fill(store: Store, runs: int, checkpoints: int, layers: int) -> None:
    """Write synthetic rows as a sweep does, one pack for every run."""
    generator = np.random.default_rng(0)
    for run in (f"run-{index}" for index in range(runs)):
        results = []
        for step in range(0, 100 * checkpoints, 100):
            values = generator.random((layers, len(FEATURES)))
            rows = tuple(
                Row(run, step, "neural_persistence", feature, values[layer, column], step * 8192,
                    f"layers.{layer}.mlp.fc1.weight", Role.MLP, layer, filtration="rieck")
                for layer in range(layers)
                for column, feature in enumerate(FEATURES)
            )  # fmt: skip
            results.append(Result(Unit(run, step, "neural_persistence", 1, f"{run}-{step}"), rows))
        store.write_results(results, keep_diagrams=False)
    store.compact()


def open_once(path: Path) -> tuple[float, int]:
    """Return the seconds that opening and reading one feature take, and the rows that come back."""
    start = time.perf_counter()
    rows = len(Store.open(path).features(feature="neural_persistence"))
    return time.perf_counter() - start, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--checkpoints", type=int, default=1000)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        start = time.perf_counter()
        fill(Store.create(path, recipe={}), args.runs, args.checkpoints, args.layers)
        written = time.perf_counter() - start
        opened = [open_once(path) for _ in range(args.repeats)]
        size = sum(file.stat().st_size for file in path.rglob("*.parquet"))
    result = {
        "rows": opened[0][1],
        "open_seconds": statistics.median(seconds for seconds, _ in opened),
        "open_seconds_all": [seconds for seconds, _ in opened],
        "write_seconds": written,
        "megabytes": size / 1e6,
    }
    print(f"{result['rows']:,} rows of one feature in {result['open_seconds']:.2f} s ({size / 1e6:.0f} MB)")
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
