"""How often a log is called ill that is not, and how often one that is: real curves, simulated ones, planted.

    python -m benchmarks.health_rates --data FOLDER

Every run is read at 20, 35, 50, 75 and 100% of its log, its plan of the learning rate given. Simulated
families whose loss only falls by their law are apart from those where it does rise. Planted: twice the loss
in the last 2%, over the last quarter at once and little by little, in the simulated runs that only fall, in
whole logs and in every 25th row of them (12 losses).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.forecast_families import simulated
from benchmarks.forecast_laws import KINDS
from benchmarks.watch_curves import tables
from toposcope.analysis.health import health

READ = (0.2, 0.35, 0.5, 0.75, 1.0)
DRAWS = range(700, 705)
RISES = ("bump", "unrelated")
"""Kinds of simulated families whose law itself rises."""


def readings(logs: Iterable[pd.DataFrame]) -> Iterator[list[str]]:
    """Yield what is found at every reading of every log."""
    for log in logs:
        last = float(log["step"].max())
        rate = log["learning_rate"].to_numpy(float) if "learning_rate" in log else np.empty(0)
        falls = len(rate) > 0 and rate[-1] < 0.9 * rate.max()
        for share in READ:
            seen = log[log["step"] <= share * last]
            found = health(seen, horizon=last, anneals=falls and share < 1)
            yield [symptom.kind for symptom in found]


def families(kinds: Iterable[str]) -> Iterator[pd.DataFrame]:
    """Yield the logs of simulated families."""
    for kind in kinds:
        for draw in DRAWS:
            for curve in simulated(kind, draw):
                yield pd.DataFrame({"step": curve.step, "loss": curve.loss, "learning_rate": curve.rate})


def planted(log: pd.DataFrame, share: float, *, sudden: bool) -> pd.DataFrame:
    """Return a log whose last `share` is at twice the loss, at once or little by little."""
    late = np.arange(len(log)) >= round((1 - share) * len(log))
    lift = np.ones(len(log))
    lift[late] = 2.0 if sudden else np.linspace(1.0, 2.0, int(late.sum()))
    return log.assign(loss=log["loss"] * lift)


def count(name: str, found: Iterable[list[str]]) -> None:
    """Print how many readings there were and what was found in them."""
    several = list(found)
    kinds = Counter(kind for one in several for kind in one)
    said = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()) or "nothing"
    print(f"{name}: {len(several)} readings: {said}", flush=True)


def main() -> None:
    """Count, and print a line for each kind of log."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of seed_runs and curves")
    given = parser.parse_args()
    count("real curves", readings(log for _, log in tables(given.data)))
    falling = [kind for kind in KINDS if kind not in RISES]
    count("simulated, only falling", readings(families(falling)))
    for kind in RISES:
        count(f"simulated, {kind}", readings(families([kind])))
    for label, every in (("whole", 1), ("every 25th row", 25)):
        for share, sudden in ((0.02, True), (0.25, True), (0.25, False))[every > 1 :]:
            what = f"planted in {label}: {'jump' if sudden else 'climb'} over the last {share:.0%}"
            logs = (planted(log.iloc[::every], share, sudden=sudden) for log in families(falling))
            found = ([s.kind for s in health(log)] for log in logs)
            several = list(found)
            hit = sum("diverging" in one for one in several)
            print(f"{what}: {hit} of {len(several)} called diverging", flush=True)


if __name__ == "__main__":
    main()
