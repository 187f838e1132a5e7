"""Across training replicates: runs that differ in their seed alone are the independent observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile
from toposcope.core.seeding import rng
from toposcope.statistics.correlations import correlation, holm, ranks
from toposcope.statistics.trends.basis import core_trends
from toposcope.statistics.trends.innovations import LEAST_LENGTH
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

ALL_UP_TO = 5040
"""Up to this many pairings, all are used: 7!, or the product over families; of more, `PAIRINGS` are drawn."""
PAIRINGS = 10_000
POOLED = "all sizes"
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
    have = have if "family" in have else have.assign(family="")  # a group needs at least one key
    keys = [key for key in ("family", "parameters", "schedule", "corpus") if key in have]
    groups: dict[str, list[str]] = {}
    for key, part in have.groupby(keys, dropna=False, sort=False):
        if part["seed"].nunique() >= 2:
            label = " ".join(
                str(value) for value in (key if isinstance(key, tuple) else (key,)) if str(value)
            )
            groups[label] = list(part.drop_duplicates("seed")["run"])
    return groups


def pooled_pairing_test(
    families: Sequence[tuple[np.ndarray, np.ndarray]], steps: Sequence[np.ndarray] | None = None
) -> tuple[float, float, float]:
    """Test whether a run's feature follows *its own* target; return own minus other, p, and the smallest p.

    A family is (features, targets), each (n, S) with a column per run. The mean correlation of each run's
    feature with its own target is compared with every way to pair features with targets of other runs of the
    family, and the means of several families are averaged. The trend that all replicates share cancels; one
    that differs between them, because some learn faster, does not, and shows in feature and target alike.
    Given `steps` of each family (n,), each series is therefore freed of the core trends (`whitening`). Under
    exchangeable replicates the test is exact for what is left. Two-sided. With S! pairings no p can be
    smaller than `smallest p`: three families of three seeds have 6^3 pairings, so that together they can
    reach p = 1/216 where each alone stops at 1/6. Correlations are of ranks of the departures from the
    replicates' mean.
    """
    if steps is not None:
        families = [
            (_detrended(x, at), _detrended(y, at)) for (x, y), at in zip(families, steps, strict=True)
        ]
    tables = [_crossed(x, y) for x, y in families]
    own_gaps = [np.trace(table) / len(table) - table.mean() for table in tables]
    distances, exact = _joint_distances(tables)
    extra = 0 if exact else 1
    reached = np.count_nonzero(distances >= abs(np.mean(own_gaps)) - 1e-12)
    gaps = [gap * len(table) / (len(table) - 1) for gap, table in zip(own_gaps, tables, strict=True)]
    return float(np.mean(gaps)), (reached + extra) / (len(distances) + extra), 1.0 / len(distances)


def _detrended(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the series freed of the core trends, where enough checkpoints are left for it."""
    trends = core_trends(steps) if len(steps) >= LEAST_LENGTH else np.ones((len(steps), 0))
    return values - trends @ (trends.T @ values)


def _crossed(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the correlation of every run's feature with every run's target (S, S), the shared part out."""
    x = ranks(features - features.mean(axis=1, keepdims=True))
    y = ranks(targets - targets.mean(axis=1, keepdims=True))
    count = x.shape[1]
    return np.stack([correlation(x, np.repeat(y[:, [j]], count, axis=1)) for j in range(count)], axis=1)


def _joint_distances(tables: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """Return how far each joint pairing is from the mean over all, and whether all pairings are there."""
    counts = [len(table) for table in tables]
    if math.prod(math.factorial(count) for count in counts) <= ALL_UP_TO:
        scores = np.zeros(1)
        for table in tables:
            pairings = np.array(list(itertools.permutations(range(len(table)))))
            mine = table[np.arange(len(table)), pairings].mean(axis=1) - table.mean()
            scores = np.add.outer(scores, mine).ravel()
        return np.abs(scores) / len(tables), True
    drawn = np.zeros(PAIRINGS)
    for i, table in enumerate(tables):
        rows = np.arange(len(table))
        generator = rng(name="pairings", n=len(table), family=i)
        pairings = generator.permuted(np.tile(rows, (PAIRINGS, 1)), axis=1)
        drawn += table[rows, pairings].mean(axis=1) - table.mean()
    return np.abs(drawn) / len(tables), False


def replicate_table(
    table: SeriesTable, *, targets: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Judge each feature across replicates; one row per family, target and feature, empty without any.

    `mean_rho` is the mean over seeds of the Spearman correlation over checkpoints, with Student's t interval
    across seeds: how reproducible the drift is. `own_minus_other` and `pairing_p` say whether a run's feature
    goes with its own target more than with another seed's (`pooled_pairing_test`). Where several families
    have replicates, rows of the family "all sizes" pool them. If the smallest p that Holm's method can leave
    a row exceeds 5% (with every p of its target at its smallest), the reason names it.
    """
    targets = table.default_targets if targets is None else list(targets)
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    groups = {
        family: [table.of_run(run).set_index("step") for run in runs]
        for family, runs in replicate_groups(table).items()
    }
    judged = {family: [frames] for family, frames in groups.items()}
    if len(groups) > 1:
        judged[POOLED] = list(groups.values())
    for family, members in judged.items():
        seeds = sum(len(frames) for frames in members)
        for target in targets:
            for column in columns:
                rows.append((family, target, column, seeds, *_judge(members, column, target)))
    out = pd.DataFrame(rows, columns=list(COLUMNS))
    for target in targets:
        mine = out["target"] == target
        out.loc[mine, "pairing_holm"] = holm(out.loc[mine, "pairing_p"].to_numpy(float))
        least = holm(out.loc[mine, "smallest_p"].to_numpy(float))
        reasons = zip(out.loc[mine, "reason"], least, strict=True)
        out.loc[mine, "reason"] = [_out_of_reach(reason, p) for reason, p in reasons]
    return out


def _out_of_reach(reason: str, least: float) -> str:
    """Add the smallest p that Holm's method can leave a row, where it exceeds 5%."""
    text = f"smallest reachable Holm p {least:.2g}" if least > 0.05 else ""
    return "; ".join(part for part in (reason, text) if part)


def _judge(families: list[list[pd.DataFrame]], column: str, target: str) -> tuple[object, ...]:
    families_at = [_common(frames, column, target) for frames in families]
    pairs = [(x, y) for x, y, _ in families_at]
    n = min(len(x) for x, _ in pairs)
    if n < 4:
        return (n, *(np.nan,) * 7, "failed", f"{n:,} checkpoints in common: at least 4 are needed")
    rho = [correlation(ranks(x), ranks(y)) for x, y in pairs]
    if not all(np.isfinite(values).all() for values in rho):
        return (n, *(np.nan,) * 7, "degenerate", "constant in at least one seed")
    mean = float(np.mean([values.mean() for values in rho]))
    half = _half_width(rho)
    gain, p, smallest = pooled_pairing_test(pairs, [at for *_, at in families_at])
    seeds = sum(len(values) for values in rho)
    reason = f"{seeds:,} seeds cannot reach p < .05" if smallest >= 0.05 else ""
    low, high = np.clip([mean - half, mean + half], -1.0, 1.0)
    return (n, mean, low, high, gain, p, np.nan, smallest, "ok", reason)


def _common(
    frames: list[pd.DataFrame], column: str, target: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return feature and target (n, S) at the steps where every replicate has both, and those steps."""
    joined = pd.concat([frame[column] for frame in frames], axis=1).sort_index()
    frames = [frame.reindex(joined.index) for frame in frames]
    x = joined.to_numpy(float)
    y = pd.concat([frame[target] for frame in frames], axis=1).to_numpy(float)
    rows = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    return x[rows], y[rows], joined.index.to_numpy(float)[rows]


def _half_width(rho: list[np.ndarray]) -> float:
    """Return half of Student's 95% interval of the mean over families, from the spread within them.

    NaN with two seeds in all: one degree of freedom says nothing about a correlation.
    """
    free = sum(len(values) - 1 for values in rho)
    if free < 2:
        return math.nan
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in rho) / free
    error = math.sqrt(within * sum(1.0 / len(values) for values in rho)) / len(rho)
    return float(student_quantile(0.975, free) * error)
