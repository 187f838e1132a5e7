"""Across training replicates: runs that differ in their seed alone are the independent observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import t as student

from toposcope.analysis.statistics import correlation, holm, ranks
from toposcope.analysis.table import SeriesTable
from toposcope.analysis.trends import DEFAULT_TARGETS, default_columns
from toposcope.seeding import rng

ALL_UP_TO = 7
PAIRINGS = 10_000
COLUMNS = (
    "family", "target", "column", "seeds", "checkpoints", "mean_rho", "low", "high", "own_minus_other",
    "pairing_p", "pairing_holm", "smallest_p", "status", "reason",
)  # fmt: skip


def replicate_groups(table: SeriesTable) -> dict[str, list[str]]:
    """Return the groups of at least two runs that share family, size, schedule and corpus."""
    runs = table.runs
    if runs.empty or "seed" not in runs:
        return {}
    have = runs[runs["run"].isin(table.run_names)]
    keys = [key for key in ("family", "parameters", "schedule", "corpus") if key in have]
    groups: dict[str, list[str]] = {}
    for key, part in have.groupby(keys, dropna=False, sort=False):
        if part["seed"].nunique() >= 2:
            label = " ".join(
                str(value) for value in (key if isinstance(key, tuple) else (key,)) if str(value)
            )
            groups[label] = list(part.drop_duplicates("seed")["run"])
    return groups


def pairing_test(features: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
    """Ask whether a run's feature knows *its* target; return own minus other, p, and the smallest p.

    `features`, `targets` (n, S). The mean correlation of each run's feature with its own target is
    compared with every way to pair features with targets of other runs. All replicates share the trend,
    so it cancels; under exchangeable replicates the test is exact. Two-sided. With S! pairings no p can
    be smaller than `smallest p`. Correlations are of ranks of the departures from the replicates' mean.
    """
    count = features.shape[1]
    x = ranks(features - features.mean(axis=1, keepdims=True))
    y = ranks(targets - targets.mean(axis=1, keepdims=True))
    table = np.stack([correlation(x, np.repeat(y[:, [j]], count, axis=1)) for j in range(count)], axis=1)
    rows = np.arange(count)
    if count <= ALL_UP_TO:
        pairings = np.array(list(itertools.permutations(range(count))))
        extra = 0
    else:
        pairings = rng(name="pairings", n=count).permuted(np.tile(rows, (PAIRINGS, 1)), axis=1)
        extra = 1
    totals = table[rows, pairings].mean(axis=1)
    own = table[rows, rows].mean()
    distance = np.abs(totals - table.mean())
    reached = np.count_nonzero(distance >= abs(own - table.mean()) - 1e-12)
    other = (table.sum() - np.trace(table)) / (count * (count - 1))
    return float(own - other), (reached + extra) / (len(pairings) + extra), 1.0 / len(pairings)


def seed_table(
    table: SeriesTable, *, targets: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Judge each feature across replicates; one row per family, target and feature, empty without any.

    `mean_rho` is the mean over seeds of the Spearman correlation over checkpoints, with Student's t interval
    across seeds: how reproducible the drift is. `own_minus_other` and `pairing_p` say whether a run's feature
    goes with its own target more than with another seed's (`pairing_test`).
    """
    targets = (
        [name for name in DEFAULT_TARGETS if name in table.targets] if targets is None else list(targets)
    )
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    for family, runs in replicate_groups(table).items():
        frames = [table.of_run(run).set_index("step") for run in runs]
        for target in targets:
            for column in columns:
                rows.append((family, target, column, len(runs), *_judge(frames, column, target)))
    out = pd.DataFrame(rows, columns=list(COLUMNS))
    for target in targets:
        mine = out["target"] == target
        out.loc[mine, "pairing_holm"] = holm(out.loc[mine, "pairing_p"].to_numpy(float))
    return out


def _judge(frames: list[pd.DataFrame], column: str, target: str) -> tuple[object, ...]:
    x = pd.concat([frame[column] for frame in frames], axis=1).to_numpy(float)
    joined = pd.concat([frame[target] for frame in frames], axis=1)
    y = joined.to_numpy(float)
    rows = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    x, y, n = x[rows], y[rows], int(rows.sum())
    if n < 4:
        return (n, *(np.nan,) * 7, "failed", f"{n} checkpoints in common: at least 4 are needed")
    rho = correlation(ranks(x), ranks(y))
    if not np.isfinite(rho).all():
        return (n, *(np.nan,) * 7, "degenerate", "constant in at least one seed")
    count = len(frames)
    half = float(student.ppf(0.975, count - 1) * rho.std(ddof=1) / math.sqrt(count))
    gain, p, smallest = pairing_test(x, y)
    reason = f"{count} seeds cannot reach p < .05" if smallest >= 0.05 else ""
    mean = float(rho.mean())
    return (n, mean, mean - half, mean + half, gain, p, np.nan, smallest, "ok", reason)
