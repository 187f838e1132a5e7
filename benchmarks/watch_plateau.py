"""The notice of a plateau (Rieck's rule): how often it comes while neural persistence still rises.

    python -m benchmarks.watch_plateau [DATA]

The rule counts checkpoints without a new maximum. Whether that means a plateau depends on the rise from one
checkpoint to the next over the noise, which the rule does not estimate. So its rate is known only for a given
rise. The first table has the rate for straight lines with white noise around them (white), and for sums of
steps with this mean (walk): the share of series that are noticed within 50 and 200 checkpoints, with its
interval. DATA holds seed_runs/. For these the second table says where the rule fired, and whether a later
checkpoint exceeded all earlier ones.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from toposcope.core.distributions import binomial_interval
from toposcope.core.seeding import rng
from toposcope.core.types import Normalization, Scope
from toposcope.sources import open_series
from toposcope.statistics.stopping import stopping_index
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep
from toposcope.watch.alarms.persistence_plateau import PATIENCE

RISES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Mean rise from one checkpoint to the next, in standard deviations of the noise or of the steps."""

SERIES, LENGTHS = 1000, (50, 200)
"""Series of each kind, and the checkpoints by which they are judged."""

START = 100.0
"""Where series begin, far above the 0 that the rule compares with first."""


def noticed(kind: str, rise: float) -> list[int | None]:
    """Return where the rule fires in simulated series, None where it does not."""
    draw = rng(run="watch_plateau", what=f"{kind}/{rise}")
    noise = draw.standard_normal((SERIES, max(LENGTHS)))
    noise = np.cumsum(noise, axis=1) if kind == "walk" else noise
    values = START + rise * np.arange(max(LENGTHS)) + noise
    return [stopping_index(one.tolist(), patience=PATIENCE) for one in values]


def real(runs: Path) -> None:
    """Print where the rule fires in real runs, and whether neural persistence rose again after that."""
    options = WeightOptions(nulls=1, draws=1)
    with tempfile.TemporaryDirectory() as made:
        store = Store.create(Path(made) / "store", recipe=options.recipe())
        probes = weight_probes(["neural_persistence"], options)
        sweep(open_series(runs), probes, store, execution=Execution(quiet=True, audit=False))
        rows = store.features(feature="neural_persistence")
    rows = rows[(rows["scope"] == Scope.MODEL) & (rows["filtration"] == Normalization.NETWORK)]
    for run, part in rows.groupby("run", sort=True):
        part = part.sort_values("step")
        values, steps = part["value"].to_numpy(), part["step"].to_numpy()
        at = stopping_index(values.tolist(), patience=PATIENCE)
        if at is None:
            print(f"{run}: never noticed in {len(values)} checkpoints")
            continue
        again = values[at + 1 :].max(initial=-np.inf) > values[: at + 1].max()
        print(
            f"{run}: noticed at step {steps[at]} of {steps[-1]}; greatest so far at step "
            f"{steps[np.argmax(values[: at + 1])]}; {'rose' if again else 'did not rise'} above it later"
        )


def main() -> None:
    """Simulate, and look at the real runs where they are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    given = parser.parse_args()
    for kind in ("white", "walk"):
        for rise in RISES:
            found = noticed(kind, rise)
            cells = []
            for length in LENGTHS:
                count = sum(at is not None and at < length for at in found)
                low, high = binomial_interval(count, SERIES)
                cells.append(f"{count / SERIES:6.1%} [{low:.1%}, {high:.1%}] by {length}")
            print(f"{kind}, rise {rise:4.2f}: {'; '.join(cells)}")
    if given.data is not None:
        real(given.data / "seed_runs")


if __name__ == "__main__":
    main()
