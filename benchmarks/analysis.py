"""How long the trend analysis takes, beside a straightforward loop over scipy.

Run: python benchmarks/analysis.py [--draws N] [--json]. 60 features x 5 runs x 51 checkpoints, every
null with 10,000 draws. The loop would take hours, so it is timed on one pair with fewer draws and scaled up.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pandas as pd
from scipy import stats

from toposcope.statistics.trends.resampling import block_indices, block_length, iid_indices
from toposcope.study import from_frame, trend_table
from toposcope.study.trends.verdicts import Draws

FEATURES, RUNS, CHECKPOINTS = 60, 5, 51


def made_up_table() -> pd.DataFrame:
    g = np.random.default_rng(0)
    parts = []
    for run in range(RUNS):
        walks = np.cumsum(g.standard_normal((CHECKPOINTS, FEATURES + 1)), axis=0)
        part = pd.DataFrame(walks, columns=["loss", *(f"feature{i}" for i in range(FEATURES))])
        parts.append(part.assign(run=f"run{run}", step=np.arange(CHECKPOINTS) * 100))
    return pd.concat(parts, ignore_index=True)


def scipy_loop(frame: pd.DataFrame, draws: int) -> float:
    """Return the seconds of one pair's resamples and null draws by a plain loop, for `draws` of each."""
    mine = frame[frame["run"] == "run0"]
    x, y = mine["feature0"].to_numpy(), mine["loss"].to_numpy()
    g = np.random.default_rng(0)
    begin = time.perf_counter()
    for indices in (
        iid_indices(len(x), max(draws // 10, 1)),
        block_indices(len(x), draws, block_length(len(x))),
    ):
        for index in indices:
            stats.spearmanr(x[index], y[index])
    for phi in (1.0, 0.9):
        for _ in range(draws):
            pair = g.standard_normal((2, len(x)))
            for t in range(1, len(x)):
                pair[:, t] += phi * pair[:, t - 1]
            stats.spearmanr(*pair)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200, help="draws of the plain loop that is scaled up")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    frame = made_up_table()
    table = from_frame(frame)
    trend_table(table, draws=Draws(100, 100, 100))  # compile
    begin = time.perf_counter()
    rows = trend_table(table)
    ours = time.perf_counter() - begin
    loop = scipy_loop(frame, options.draws) / options.draws * 10_000 * FEATURES * RUNS
    result = {"rows": len(rows), "toposcope_seconds": ours, "scipy_loop_seconds": loop, "ratio": loop / ours}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{len(rows)} rows with all nulls: {ours:.1f} s")
        print(f"the scipy loop, scaled up: {loop:.0f} s, {loop / ours:.0f} times as long")


if __name__ == "__main__":
    main()
