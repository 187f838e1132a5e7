"""The page of many runs: 20 runs x 1,000 checkpoints x 100 layers from a synthetic store.

    python -m benchmarks.large_page [--runs 20] [--checkpoints 1000] [--layers 100] [--quick]

Prints seconds, peak memory and the size of the HTML. The store is written beforehand and not counted.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.subjects.catalogue import own_catalogue

STEP = 100


def long_rows(runs: int, checkpoints: int, layers: int) -> pd.DataFrame:
    """Return the features of made-up runs: values of the model, and neural persistence of every layer."""
    parts = []
    steps = np.arange(checkpoints) * STEP
    for i in range(runs):
        noise = rng(of="large page", run=i).standard_normal((layers + 6, checkpoints)).cumsum(axis=1)
        drift = np.log1p(steps / STEP)
        base = {"run": f"size{i % 5}-seed{i // 5}", "role": "model", "status": "ok", "note": ""}
        whole = (
            ("neural_persistence", "seed004", "model", "model", "neural_persistence"),
            ("rips", "euclidean", "pooled", "pooled", "h0_total"),
            ("rips", "euclidean", "pooled", "pooled", "h1_total"),
            ("rips", "euclidean", "pooled", "pooled", "h0_total_scaled"),
            ("baselines", "", "model", "model", "weight_norm"),
        )
        for k, (probe, filtration, name, scope, feature) in enumerate(whole):
            where = {
                "probe": probe,
                "filtration": filtration,
                "name": name,
                "scope": scope,
                "feature": feature,
            }
            parts.append(pd.DataFrame({**base, **where, "step": steps, "value": 5 + drift + 0.01 * noise[k]}))
        for layer in range(layers):
            where = {
                "probe": "neural_persistence", "filtration": "seed004", "name": f"layers.{layer}.mlp.weight",
                "scope": "matrix", "role": "mlp", "layer": layer, "feature": "neural_persistence",
            }  # fmt: skip
            value = 0.4 + 0.02 * drift + 0.001 * noise[5 + layer]
            parts.append(pd.DataFrame({**base, **where, "step": steps, "value": value}))
    out = pd.concat(parts, ignore_index=True)
    for name in ("layer", "draw", "head"):
        out[name] = out[name].astype(float) if name in out else np.nan
    return out


def metrics(runs: pd.DataFrame, checkpoints: int) -> pd.DataFrame:
    """Return a loss for every checkpoint."""
    steps = np.arange(checkpoints) * STEP
    frames = []
    for i, run in enumerate(runs["run"]):
        noise = rng(of="large page loss", run=i).standard_normal(checkpoints)
        loss = 5 * (steps + 200.0) ** -0.2 + 0.005 * noise
        frames.append(pd.DataFrame({"run": run, "step": steps, "tokens": 64 * steps, "loss": loss}))
    return pd.concat(frames, ignore_index=True).assign(heldout_loss=np.nan)


def main() -> None:
    """Time the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("runs", 20), ("checkpoints", 1000), ("layers", 100)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--quick", action="store_true", help="a tenth of the checkpoints")
    given = parser.parse_args()
    checkpoints = given.checkpoints // 10 if given.quick else given.checkpoints
    rows = long_rows(given.runs, checkpoints, given.layers)
    names = list(dict.fromkeys(rows["run"]))
    sizes = [10_000 * 4 ** int(name[4]) for name in names]
    runs = pd.DataFrame(
        {"run": names, "family": "gpt", "parameters": sizes, "seed": [int(n[-1]) for n in names], "uri": ""}
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start, worked = time.perf_counter(), time.process_time()
    from toposcope.page import write_studies
    from toposcope.published.rules import PUBLISHED
    from toposcope.study.analysis import study_of_rows
    from toposcope.subjects.weights.subject import SUBJECT as WEIGHTS

    study = study_of_rows(WEIGHTS, rows, metrics(runs, checkpoints), runs, catalogue=own_catalogue())
    study = replace(study, published=PUBLISHED)
    with tempfile.TemporaryDirectory() as folder:
        page = write_studies([study], Path(folder) / "report")
        seconds, size = time.perf_counter() - start, page.stat().st_size / 1e6
        worked = time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{len(rows):,} rows of {len(names)} runs, {checkpoints} checkpoints, {given.layers} layers")
    print(
        f"page: {seconds:.1f} s ({worked:.1f} s of processor time), peak {peak:.2f} GB "
        f"({before:.2f} GB for the rows alone), HTML {size:.2f} MB"
    )


if __name__ == "__main__":
    main()
