"""How long the weight-space paper's features take: toposcope against the plain route, as whole processes.

Both read every checkpoint of the runs and compute neural persistence per matrix and the Vietoris-Rips H0
and H1 totals of the same pooled clouds (200 rows, threshold 2). The plain route is `torch.load`, argsort
and union-find in Python, and ripser.py. Run with

    python benchmarks/weights.py [RUNS] [--repeats 3] [--jobs N] [--json FILE]

RUNS is ../shared/data/seed_runs by default, or the folder that TOPOSCOPE_SEED_RUNS names.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, THRESH = 200, 2.0
HERE = Path(__file__).resolve()


def plain_neural_persistence(W: np.ndarray) -> float:
    """Return neural persistence by the textbook: all edges sorted, union-find over rows and columns."""
    weights = np.abs(W.astype(np.float64)).ravel()
    order = np.argsort(-weights)
    rows, columns = (places.tolist() for places in np.divmod(order, W.shape[1]))
    parent = list(range(sum(W.shape)))

    def find(vertex: int) -> int:
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex

    largest, total, missing = float(weights.max()), 0.0, len(parent) - 1
    for weight, row, column in zip(weights[order].tolist(), rows, columns, strict=True):
        a, b = find(row), find(W.shape[0] + column)
        if a != b:
            parent[a] = b
            total += largest - weight
            missing -= 1
            if missing == 0:
                break
    return total / (largest * (len(parent) - 1))


def plain_cloud(matrices: dict[str, np.ndarray], run: str, step: int) -> np.ndarray:
    """Return the pooled cloud with the rows that toposcope draws: the 200 with the smallest priorities."""
    from toposcope.core.seeding import rng

    width = max(W.shape[1] for W in matrices.values())
    rows = np.vstack([np.pad(W, ((0, 0), (0, width - W.shape[1]))) for W in matrices.values()])
    priority = np.concatenate(
        [
            rng(run=run, step=step, name=f"pooled/{name}", draw=0).random(len(W))
            for name, W in matrices.items()
        ]
    )
    return rows[np.sort(np.argsort(priority)[:ROWS])] if len(rows) > ROWS else rows


def plain(folder: Path, out: Path) -> None:
    """Do the whole job the plain way, and write the values and the seconds spent measuring."""
    import torch
    from ripser import ripser

    values, measuring = {}, 0.0
    for path in sorted(folder.glob("*/step_*.pt")):
        state = torch.load(path, map_location="cpu", weights_only=True)["model_state_dict"]
        matrices = {
            name: tensor.numpy()
            for name, tensor in state.items()
            if tensor.ndim == 2 and "ln" not in name and "emb" not in name
        }
        start = time.perf_counter()
        persistence = [plain_neural_persistence(W) for W in matrices.values()]
        cloud = plain_cloud(matrices, path.parent.name, int(path.stem.split("_")[1]))
        totals = []
        for bars in ripser(cloud, maxdim=1, thresh=THRESH)["dgms"]:
            finite = bars[np.isfinite(bars[:, 1])]
            totals.append(float((finite[:, 1] - finite[:, 0]).sum()))
        measuring += time.perf_counter() - start
        values[f"{path.parent.name}/{int(path.stem[5:])}"] = [float(np.mean(persistence)), *totals]
    out.write_text(json.dumps({"values": values, "measuring": measuring}))


def run_plain(folder: Path, scratch: Path) -> dict[str, object]:
    out = scratch / "plain.json"
    start = time.perf_counter()
    subprocess.run([sys.executable, str(HERE), str(folder), "--plain", str(out)], check=True)
    return {"process": time.perf_counter() - start, **json.loads(out.read_text())}


def run_toposcope(folder: Path, scratch: Path, jobs: int) -> dict[str, object]:
    store = scratch / f"store-{time.monotonic_ns()}"
    options = ["--preset", "seed004", "--draws", "1", "--features", "neural_persistence,rips", "--no-audit"]
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "from toposcope.cli.main import main; main()", "weights", str(folder),
         "--out", str(store), "--jobs", str(jobs), *options],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    from toposcope.store import Store

    table = Store.open(store).features()
    units = table.drop_duplicates(["run", "step", "probe"])
    wanted = table[
        (table.role == "model") & table.feature.isin(["neural_persistence", "h0_total", "h1_total"])
    ]
    wide = wanted.pivot_table(index=["run", "step"], columns="feature", values="value")
    values = {
        f"{run}/{step}": [row.neural_persistence, row.h0_total, row.h1_total]
        for (run, step), row in wide.iterrows()
    }
    return {"process": seconds, "measuring": float(units.seconds.sum()), "values": values}


def compare(folder: Path, repeats: int, jobs: int) -> dict[str, object]:
    """Alternate the two routes, and check that they agree before saying who was faster."""
    with tempfile.TemporaryDirectory() as scratch:
        run_toposcope(folder, Path(scratch), jobs)  # fills numba's cache, as any earlier use would have
        pairs = [
            (run_plain(folder, Path(scratch)), run_toposcope(folder, Path(scratch), jobs))
            for _ in range(repeats)
        ]
    theirs, ours = (
        np.array([pairs[0][k]["values"][key] for key in sorted(pairs[0][0]["values"])]) for k in (0, 1)
    )
    difference = np.abs(theirs - ours).max(axis=0)
    if difference[0] > 1e-8 or difference[1:].max() > 1e-3:
        raise SystemExit(f"the two routes disagree: largest differences {difference}")
    result: dict[str, object] = {
        "checkpoints": len(theirs),
        "jobs": jobs,
        "cores": os.cpu_count(),
        "largest_difference": dict(
            zip(("neural_persistence", "h0_total", "h1_total"), difference, strict=True)
        ),
    }
    for what in ("process", "measuring"):
        plain_seconds, our_seconds = ([float(pair[k][what]) for pair in pairs] for k in (0, 1))
        ratios = [a / b for a, b in zip(plain_seconds, our_seconds, strict=True)]
        result[what] = {
            "plain_seconds": plain_seconds,
            "toposcope_seconds": our_seconds,
            "times_faster": statistics.median(ratios),
            "range": [min(ratios), max(ratios)],
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("TOPOSCOPE_SEED_RUNS", HERE.parents[2] / "shared" / "data" / "seed_runs")
    parser.add_argument("runs", nargs="?", type=Path, default=Path(default))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.runs.is_dir():
        raise SystemExit(f"{args.runs} is not there: name the folder of the runs")
    if args.plain:
        plain(args.runs, args.plain)
        return
    result = compare(args.runs, args.repeats, args.jobs)
    print(f"{result['checkpoints']} checkpoints, largest differences {result['largest_difference']}")
    print(f"{'':12}{'plain':>10}{'toposcope':>12}{'faster':>9}  (range)")
    for what in ("process", "measuring"):
        line = result[what]
        seconds = [statistics.median(line[key]) for key in ("plain_seconds", "toposcope_seconds")]
        low, high = line["range"]
        times = f"{line['times_faster']:8.1f}x  ({low:.1f} to {high:.1f})"
        print(f"{what:12}{seconds[0]:9.2f}s{seconds[1]:11.2f}s{times}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=2, default=float) + "\n")


if __name__ == "__main__":
    main()
