"""The band of a run's siblings: how often a healthy seed leaves it, and how soon one that went wrong does.

    python -m benchmarks.watch_siblings --runs FOLDER [--seeds 12]

Trains seeds of three recipes. The last four seeds of each are trained a second time with a learning rate of 0
from the middle on: runs that stand still. Every healthy seed is judged against subsets of the others, as
`toposcope watch` does at every checkpoint, with the test's share of the 5%. Subsets of seeds share runs, so
the interval is a bootstrap over the judged seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest.mock import patch

import numpy as np

from toposcope.core.seeding import rng
from toposcope.sources import open_series
from toposcope.statistics.alarms.siblings import above_band
from toposcope.statistics.alarms.spending import level
from toposcope.training import train
from toposcope.training.engine import Engine
from toposcope.watch.alarms.registry import family

RECIPES = {"tiny-3k": 3e-3, "small-7k": 1e-3, "med-21k": 3e-3}
"""Model -> learning rate."""

STEPS, EVERY, STILL, SUBSETS = 300, 10, 4, 20
SIBLINGS = (3, 5, 8, 11)
FIRST = 5001
_update = Engine.update


def losses(folder: Path) -> np.ndarray:
    """Return the held-out loss at every checkpoint of the one run in a folder."""
    (run,) = (one for one in folder.iterdir() if one.is_dir())
    return open_series(run).metrics(run.name)["heldout_loss"].dropna().to_numpy()


def trained(runs: Path, model: str, seed: int, *, still: bool = False) -> np.ndarray:
    """Train a seed where it is not trained yet; return its held-out losses."""
    place = runs / f"{model}{'-still' if still else ''}" / str(seed)
    steps = iter(range(STEPS + 1))

    def update(self: Engine, learning_rate: float, *, grad_norm: float) -> None:
        late = next(steps) >= STEPS // 2
        _update(self, 0.0 if late and still else learning_rate, grad_norm=grad_norm)

    overrides = {
        "models": [model], "seeds": [seed], "steps": STEPS, "checkpoint_every": EVERY, "context": 64,
        "batch_size": 16, "warmup_steps": 25, "learning_rate": RECIPES[model], "heldout_batches": 1,
    }  # fmt: skip
    if not (place / "finished").exists():
        with patch.object(Engine, "update", update):
            train("demo", place, overrides=overrides)
        (place / "finished").touch()
    return losses(place)


def first_alarm(run: np.ndarray, others: np.ndarray) -> int | None:
    """Return the checkpoint at which a run leaves the band of others (k, n), None where it stays."""
    rate = family().rate_of("sibling band")
    for look, (value, column) in enumerate(zip(run, others.T, strict=True), 1):
        if above_band(float(value), column.tolist()) <= level(rate, look):
            return look - 1
    return None


def main() -> None:
    """Train what is missing, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=12)
    given = parser.parse_args()
    seeds = range(FIRST, FIRST + given.seeds)
    healthy = {model: np.array([trained(given.runs, model, one) for one in seeds]) for model in RECIPES}
    gone = {
        model: {seed: trained(given.runs, model, seed, still=True) for seed in seeds[-STILL:]}
        for model in RECIPES
    }
    draw = rng(run="watch_siblings", what="subsets")
    for k in SIBLINGS:
        false, delays = [], []
        for model, all_losses in healthy.items():
            for index in range(len(seeds)):
                others = np.delete(np.arange(len(seeds)), index)
                sets = [draw.choice(others, k, replace=False) for _ in range(SUBSETS)]
                false.append(
                    np.mean([first_alarm(all_losses[index], all_losses[s]) is not None for s in sets])
                )
                run = gone[model].get(seeds[index])
                at = [] if run is None else [first_alarm(run, all_losses[s]) for s in sets]
                delays += [None if one is None else one * EVERY - STEPS // 2 for one in at]
        means = draw.choice(false, (4000, len(false))).mean(axis=1)
        found = [one for one in delays if one is not None and one > 0]
        low, high = np.quantile(means, (0.025, 0.975))
        later = np.median(found or [np.nan])
        print(
            f"{k} siblings: of {len(false)} seeds {np.mean(false):.2%} alarm [{low:.2%}, {high:.2%}]; "
            f"of {len(delays)} bands with a seed that stands still {len(found) / len(delays):.0%} alarm, "
            f"median {later:.0f} steps after it",
            flush=True,
        )


if __name__ == "__main__":
    main()
