"""How far one rounding grows: one seed again and again, its first weights changed by 1e-7, and other seeds.

    python -m benchmarks.same_seed [--steps 3000] [--batch 8] [--model tiny-3k] [--jobs 1] [--out FILE]
    python -m benchmarks.same_seed --corpus WIKITEXT --batch 64 --steps 5000 --until 400

Trains a model of the recipe `seed004` from the first weights of seed 42, ten times with normal noise of 1e-7
added to every weight, and twice unchanged; then from three other seeds. The text and its order are those of
the recipe's seed 42 in every run of that seed. Prints by step the largest and the median difference of the
training loss from the unchanged run, and the spread (sd and range) of the final held-out loss over the
changed runs beside that over the seeds. With `--until` each run stops early, under the schedule of `--steps`,
and no other seeds are trained.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

CHANGED, SIZE = 10, 1e-7
"""The runs whose first weights are changed, and by how much: about one unit in the last place of 1."""
SEEDS = (1, 2, 3)


def trained(
    corpus: str, model: str, steps: int, batch: int, until: int, seed: int, change: int
) -> tuple[list[float], float]:
    """Train one run on one thread; return its training losses and its final held-out loss.

    `change` numbers the noise that is added to the first weights; 0 adds none.
    """
    import torch

    from toposcope.recipes.training import load_training_recipe
    from toposcope.training.corpus import load_corpus
    from toposcope.training.engine import Engine
    from toposcope.training.schedule import learning_rate
    from toposcope.training.shapes import GPTShape, first_values
    from toposcope.training.tokens import fixed_batches, tokenize, training_batch

    torch.set_num_threads(1)
    changes = {"models": [model], "steps": steps, "batch_size": batch, "seeds": [seed]}
    recipe = load_training_recipe("seed004", {**changes, "checkpoint_every": steps})
    shape = GPTShape.in_recipe(recipe.models[0], recipe)
    first = first_values(shape, seed=seed, std=recipe.init_std)
    if change:
        noise = SIZE * np.random.default_rng(change).standard_normal(first.shape)
        first = (first + noise).astype(first.dtype)
    data = tokenize(load_corpus(corpus or recipe.corpus, heldout_fraction=recipe.heldout_fraction), recipe)
    engine = Engine(shape, recipe, first, device="cpu")
    losses = []
    for step in range(until):
        losses.append(engine.gradients(training_batch(data, recipe, step)))
        engine.update(learning_rate(recipe, step), grad_norm=engine.norms()[0])
    heldout = fixed_batches(data, recipe)
    return losses, math.fsum(engine.loss(tokens) for tokens in heldout) / len(heldout)


def growth(plain: list[float], changed: list[list[float]]) -> list[tuple[int, float, float]]:
    """Return step, median and largest difference of the training loss from the unchanged run."""
    apart = np.abs(np.array(changed) - np.array(plain))
    last = len(plain) - 1
    steps = sorted({min(int(step), last) for step in (0, *np.geomspace(1, last, 12).round())})
    near = [apart[:, max(step - 9, 0) : step + 1].mean(axis=1) for step in steps]
    return [(step, float(np.median(one)), float(one.max())) for step, one in zip(steps, near, strict=True)]


def spread(values: list[float]) -> str:
    """Return mean, standard deviation and range of final losses in words."""
    found = np.array(values)
    return f"{found.mean():.4f}, sd {found.std(ddof=1):.1e}, {found.min():.5f} to {found.max():.5f}"


def main() -> None:
    """Train, and print the growth of the difference and the two spreads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="tiny-3k")
    parser.add_argument("--corpus", default="")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--until", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a CSV file of all training losses")
    chosen = parser.parse_args()
    until = chosen.until or chosen.steps
    others = SEEDS if until == chosen.steps else ()
    runs = [(42, change) for change in (0, *range(CHANGED + 1))] + [(seed, 0) for seed in others]
    settings = (chosen.corpus, chosen.model, chosen.steps, chosen.batch, until)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        made: list[Any] = [pool.submit(trained, *settings, *one) for one in runs]
        results = [one.result() for one in made]
    (plain, end), (again, _), *rest = results
    changed, seeds = rest[:CHANGED], rest[CHANGED:]
    print("unchanged, trained twice:", "the same to the last bit" if plain == again else "not the same")
    print("step, median and largest difference of the training loss (mean of ten steps):")
    for step, median, largest in growth(plain, [losses for losses, _ in changed]):
        print(f"  {step:>6,} {median:.1e} {largest:.1e}")
    ends = [end, *(one for _, one in changed)]
    print(f"held-out loss at the end, the unchanged run and {CHANGED} changed ones:", spread(ends))
    if seeds:
        print(f"held-out loss at the end, {len(seeds) + 1} seeds:", spread([end, *(one for _, one in seeds)]))
    if chosen.out:
        table = np.array([plain, *(losses for losses, _ in changed)]).T
        np.savetxt(chosen.out, table, delimiter=",", fmt="%.9g")


if __name__ == "__main__":
    main()
