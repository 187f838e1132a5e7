"""Does a feature move before the loss? Innovations correlated at every lag, against the best of all lags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.core.forms import too_few_checkpoints
from toposcope.statistics.correlations import holm
from toposcope.statistics.trends.innovations import LEAST_LENGTH
from toposcope.statistics.trends.lags import lag_statistics
from toposcope.statistics.trends.pooling import NOTHING_LEFT
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

COLUMNS = (
    "run", "target", "column", "n", "lag", "lag_steps", "lag_r", "lag_p", "lag_holm", "lead_p",
    "status", "reason",
)  # fmt: skip


def lag_table(
    table: SeriesTable, *, targets: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Find the lag at which each feature's innovations agree best with each target's, in every run.

    `lag` and `lag_steps` (median spacing) are positive where the feature leads; `lag_p` is against the best
    of all lags tried, `lead_p` against the best of the leads alone, `lag_holm` adjusts `lag_p` over the rows
    of a target.
    """
    targets = table.default_targets if targets is None else list(targets)
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
    complete = frame[["step", column, target]].dropna()
    n = len(complete)
    nothing = (np.nan,) * 6
    if n < LEAST_LENGTH:
        return (n, *nothing, "failed", too_few_checkpoints(n, LEAST_LENGTH))
    steps, x, y = (complete[name].to_numpy(float) for name in ("step", column, target))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return (n, *nothing, "degenerate", "constant series")
    rate = None
    if "learning_rate" in frame:
        rate = frame.set_index("step")["learning_rate"].reindex(steps).to_numpy(float)
    lag, r, p, lead = (value[0] for value in lag_statistics(x[:, None], y[:, None], steps, rate))
    if not np.isfinite(p):
        return (n, *nothing, "degenerate", f"too smooth to test: {NOTHING_LEFT}")
    return (n, int(lag), float(lag * np.median(np.diff(steps))), r, p, np.nan, lead, "ok", "")
