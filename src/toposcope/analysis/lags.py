"""Does a feature move before the loss? Innovations correlated at every lag, against the best of all lags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.analysis.innovations import LEAST_LENGTH, innovation_filter, innovation_test, innovations
from toposcope.analysis.statistics import holm
from toposcope.analysis.table import SeriesTable
from toposcope.analysis.trends import DEFAULT_TARGETS, default_columns

COLUMNS = (
    "run", "target", "column", "n", "lag", "lag_steps", "lag_r", "lag_p", "lag_holm", "lead_p",
    "status", "reason",
)  # fmt: skip


def most_lags(n: int) -> int:
    """Return how many checkpoints of lead or lag are tried: n // 8, at most 10.

    >>> most_lags(51)
    6
    """
    return max(1, min(10, n // 8))


def lag_statistics(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return, per pair of columns (n, pairs): best lag, its r, its p over all lags, and p of a lead.

    A positive lag means that the feature x moves that many checkpoints before y. Each lag is tested by
    `innovation_test`; the smallest p among K lags becomes 1 - (1 - p)^K, exact for independent lags. The
    last value does the same over the positive lags only.
    """
    filt = innovation_filter(steps)
    e, f = innovations(x, steps), innovations(y, steps)
    n, reach = len(steps), most_lags(len(steps))
    lags = np.arange(-reach, reach + 1)
    r, p = np.empty((len(lags), x.shape[1])), np.empty((len(lags), x.shape[1]))
    for i, lag in enumerate(lags):
        a, b = (slice(0, n - lag), slice(lag, n)) if lag >= 0 else (slice(-lag, n), slice(0, n + lag))
        left = np.sqrt(filt.left[a] * filt.left[b])
        test = innovation_test(e[a], f[b], left)
        r[i], p[i] = test.r, test.p
    safe = np.where(np.isfinite(p), p, 1.0)
    best = safe.argmin(axis=0)
    pick = np.arange(x.shape[1])
    smallest, lead = safe.min(axis=0), safe[lags > 0].min(axis=0)
    known = np.isfinite(p).any(axis=0)
    corrected = np.where(known, 1.0 - (1.0 - smallest) ** len(lags), np.nan)
    return lags[best], r[best, pick], corrected, np.where(known, 1.0 - (1.0 - lead) ** reach, np.nan)


def lag_table(
    table: SeriesTable, *, targets: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Find the lag at which each feature's innovations agree best with each target's, in every run.

    `lag` and `lag_steps` (median spacing) are positive where the feature leads; `lag_p` is against the best
    of all lags tried, `lead_p` against the best of the leads alone, `lag_holm` adjusts `lag_p` over the rows
    of a target.
    """
    targets = (
        [name for name in DEFAULT_TARGETS if name in table.targets] if targets is None else list(targets)
    )
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    for target in targets:
        for run in table.run_names:
            frame = table.of_run(run)
            for column in columns:
                rows.append((run, target, column, *_of_pair(frame, column, target)))
    out = pd.DataFrame(rows, columns=list(COLUMNS))
    for target in targets:
        mine = out["target"] == target
        out.loc[mine, "lag_holm"] = holm(out.loc[mine, "lag_p"].to_numpy(float))
    return out


def _of_pair(frame: pd.DataFrame, column: str, target: str) -> tuple[object, ...]:
    known = frame[["step", column, target]].dropna()
    n = len(known)
    nothing = (np.nan,) * 6
    if n < LEAST_LENGTH:
        return (n, *nothing, "failed", f"{n} checkpoints: at least {LEAST_LENGTH} are needed")
    steps, x, y = (known[name].to_numpy(float) for name in ("step", column, target))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return (n, *nothing, "degenerate", "constant series")
    lag, r, p, lead = (value[0] for value in lag_statistics(x[:, None], y[:, None], steps))
    if not np.isfinite(p):
        return (n, *nothing, "degenerate", "a smooth trend explains a series completely")
    return (n, int(lag), float(lag * np.median(np.diff(steps))), r, p, np.nan, lead, "ok", "")
