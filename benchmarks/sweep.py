"""What the sweep itself costs: units per second with one and two processes, and the time if all is done.

Synthetic runs of small safetensors checkpoints, the cheap probes. Run with
`python benchmarks/sweep.py [--checkpoints 100] [--jobs 2] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep

SHAPES = {
    f"layers.{layer}.{name}": shape
    for layer in range(3)
    for name, shape in {
        "attn.qkv.weight": (144, 48),
        "attn.proj.weight": (48, 48),
        "mlp.fc1.weight": (192, 48),
        "mlp.fc2.weight": (48, 192),
    }.items()
}


def write_runs(folder: Path, checkpoints: int) -> None:
    generator = np.random.default_rng(0)
    for run in ("one", "two"):
        (folder / run).mkdir(parents=True)
        for step in range(checkpoints // 2):
            weights = {name: generator.standard_normal(shape, np.float32) for name, shape in SHAPES.items()}
            save_file(weights, folder / run / f"step_{100 * step:06d}.safetensors")


def timed(runs: Path, out: Path, jobs: int) -> dict[str, float]:
    options = WeightOptions()
    store = Store.create(out, recipe=options.recipe())
    start = time.perf_counter()
    execution = Execution(jobs=jobs, quiet=True, audit=False)
    report = sweep(open_series(runs), weight_probes(["cheap"], options), store, execution=execution)
    seconds = time.perf_counter() - start
    measured = store.features().drop_duplicates(["run", "step", "probe"]).seconds.sum()
    units = report.done + report.skipped
    return {
        "units": units,
        "seconds": seconds,
        "units_per_second": units / seconds,
        "measuring": float(measured),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_runs(folder / "runs", args.checkpoints)
        timed(folder / "runs", folder / "warm-up", 1)
        result = {
            "one process": timed(folder / "runs", folder / "one", 1),
            f"{args.jobs} processes": timed(folder / "runs", folder / "many", args.jobs),
            "all present": timed(folder / "runs", folder / "one", 1),
        }
    for name, line in result.items():
        rate = f"{line['units_per_second']:8.1f} per second"
        print(f"{name:14} {line['units']:5.0f} units {line['seconds']:7.2f} s {rate}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
