"""How often `toposcope check` is right: python -m benchmarks.check_rates DATA.

DATA holds seed_runs/ and curves/. Finished real runs, each read at 20, 35, 50, 75 and 100% of its steps; the
horizon is its last step, and nothing else is known. Printed is how many are "all right", "look" and "stop".
Then the first half of each run with a planted fault. No constant of the judgement was set on them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import toposcope as ts
from benchmarks.watch_curves import tables
from toposcope.rules.judgement import LEVELS
from toposcope.runs import Check

READ = (0.2, 0.35, 0.5, 0.75, 1.0)


def _times(log: pd.DataFrame, rows: slice, factor: float | np.ndarray) -> pd.DataFrame:
    made = log.reset_index(drop=True)
    made.loc[made.index[rows], "loss"] *= factor
    return made


def _one(log: pd.DataFrame) -> slice:
    at = 6 * len(log) // 10
    return slice(at, at + 1)


def _tenth(log: pd.DataFrame) -> int:
    return max(3, len(log) // 10)


FAULTS: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "one loss at 60% is three times as high": lambda log: _times(log, _one(log), 3.0),
    "one loss at 60% is NaN": lambda log: _times(log, _one(log), np.nan),
    "the last loss is three times as high": lambda log: _times(log, slice(-1, None), 3.0),
    "the last tenth is 20% higher": lambda log: _times(log, slice(-_tenth(log), None), 1.2),
    "the last tenth is twice as high": lambda log: _times(log, slice(-_tenth(log), None), 2.0),
    "climbs to twice over the last tenth": lambda log: _times(
        log, slice(-_tenth(log), None), np.geomspace(1, 2, _tenth(log))
    ),
    "the last three losses are NaN": lambda log: _times(log, slice(-3, None), np.nan),
}


def share(found: int, of: int) -> str:
    """Return a share with its 95% interval by Wilson."""
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found} of {of} [{low:.1%}, {high:.1%}]"


def told(what: str, checks: list[Check]) -> None:
    """Print how many of some checks have each level, what they say of it, and what was noticed."""
    levels = Counter(one.level for one in checks)
    grounds = Counter(ground.kind for one in checks for ground in one.runs[0].judgement.grounds)
    noticed = sum(bool(one.runs[0].judgement.noticed) for one in checks)
    print(f"{what}: {'; '.join(f'{level} {share(levels[level], len(checks))}' for level in LEVELS)}")
    print(f"  grounds: {dict(grounds)}; something was noticed in {noticed}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    runs = [log[["step", "loss"]].dropna() for _, log in tables(parser.parse_args().data)]
    for part in READ:
        seen = [(log[log["step"] <= part * log["step"].max()], int(log["step"].max())) for log in runs]
        told(f"read at {part:.0%}", [ts.check(log, horizon=last) for log, last in seen])
    halves = [(log[log["step"] <= 0.5 * log["step"].max()], int(log["step"].max())) for log in runs]
    for name, planted in FAULTS.items():
        told(name, [ts.check(planted(log), horizon=last) for log, last in halves])


if __name__ == "__main__":
    main()
