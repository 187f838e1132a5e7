"""Set the hand-written training kernels beside autograd in the pool's own setting.

    python -m benchmarks.training_kernels [--steps 5] [--rounds 3] [--out FILE]

Two worker processes of one thread each, as `toposcope train --jobs 2` runs them; in each the same
engine takes the same steps of the five models of recipe `seed004` by turns with either compute. Processor
time, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

COMPUTES = ("autograd", "fused")


def seconds(model: str, steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of a step of one model: a number for each round and compute."""
    import numpy as np
    import torch

    from toposcope.recipes import load_training_recipe
    from toposcope.training.engine import Engine
    from toposcope.training.shapes import GPTShape, first_values

    torch.set_num_threads(1)
    engines = {}
    for compute in COMPUTES:
        recipe = load_training_recipe("seed004", {"models": model, "compute": compute})
        shape = GPTShape.in_recipe(recipe.models[0], recipe)
        engines[compute] = Engine(shape, recipe, first_values(shape, seed=1, std=0.02), device="cpu")
    size = (recipe.batch_size, recipe.context + 1)
    tokens = np.random.default_rng(0).integers(0, shape.vocabulary, size)
    losses = {name: engine.gradients(tokens) for name, engine in engines.items()}  # compiles and loads
    if abs(losses["fused"] - losses["autograd"]) > 1e-4:
        raise SystemExit(f"{model}: losses {losses} differ; the comparison would be of two models")
    found: dict[str, list[float]] = {compute: [] for compute in COMPUTES}
    for _ in range(rounds):
        for compute, engine in engines.items():
            began = time.process_time()
            for _ in range(steps):
                engine.gradients(tokens)
                engine.update(1e-4, grad_norm=engine.norms()[0])
            found[compute].append((time.process_time() - began) / steps)
    return found


def main() -> None:
    from toposcope.recipes import load_training_recipe

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    options = parser.parse_args()
    models = [shape.name for shape in load_training_recipe("seed004").models]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        made = [pool.submit(seconds, name, options.steps, options.rounds) for name in models]
        found = dict(zip(models, (job.result() for job in made), strict=True))
    total = dict.fromkeys(COMPUTES, 0.0)
    for name, times in found.items():
        middle = {compute: statistics.median(times[compute]) for compute in COMPUTES}
        total = {compute: total[compute] + middle[compute] for compute in COMPUTES}
        each = [a / b for a, b in zip(times["autograd"], times["fused"], strict=True)]
        print(
            f"{name}: autograd / fused {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f}), "
            f"fused {middle['fused'] * 1e3:.1f} ms a step"
        )
    print(f"a step of all: autograd / fused {total['autograd'] / total['fused']:.2f}")
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
