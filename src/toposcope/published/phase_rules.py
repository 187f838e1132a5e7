"""The weight-space paper's two phase rules, as in its code and as in its text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.core.forms import too_few_checkpoints
from toposcope.study.published import PHASES
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

RULES = ("coded", "written")
SMOOTHING = 5
SHARE = 0.1
IN_A_ROW = 3
"""The paper's: checkpoints of its moving average, the share of the largest change that counts as low, and how
many low changes in a row end the phase."""


def coded_rule(values: np.ndarray) -> tuple[int, int | None]:
    """Return the checkpoints of largest change and of diminishing returns, as in the paper's code.

    d are the absolute differences of a moving average over 5 checkpoints. The peak is the largest d, placed
    at the centre of the earlier of its two averages. Diminishing returns start at the first of 3 consecutive
    d below a tenth of the peak, searched from the start of training, so possibly before the peak.

    >>> coded_rule(np.concatenate([[0.0, 1, 3, 6, 8], np.full(10, 9.0)]))
    (2, 7)
    """
    smooth = np.convolve(values, np.ones(SMOOTHING) / SMOOTHING, mode="valid")
    change = np.abs(np.diff(smooth))
    low = change < SHARE * change.max()
    row = np.convolve(low, np.ones(IN_A_ROW, int), mode="valid") == IN_A_ROW
    shift = SMOOTHING // 2
    return int(change.argmax()) + shift, int(row.argmax()) + shift if row.any() else None


def written_rule(values: np.ndarray) -> tuple[int, int | None]:
    """Return the checkpoints of largest change and of diminishing returns, as in the paper's text.

    d_t = |v_t - v_(t-1)|. The peak is the t with the largest d_t. Diminishing returns start at the first t
    after it with d_t below a tenth of the peak (None: never).

    >>> written_rule(np.array([0.0, 1.0, 4.0, 5.0, 5.1, 5.2]))
    (2, 4)
    """
    change = np.abs(np.diff(values))
    peak = int(change.argmax())
    after = np.flatnonzero(change[peak + 1 :] < SHARE * change[peak])
    return peak + 1, peak + 2 + int(after[0]) if len(after) else None


def phase_table(table: SeriesTable, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Apply both rules to every feature of every run (by default those of the model and of each role).

    The fractions are of the run's last step. NaN, with the reason, if a rule never fires.
    """
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    for run in table.run_names:
        frame = table.of_run(run)
        for column in columns:
            finite = frame[["step", column]].dropna()
            steps, values = finite["step"].to_numpy(float), finite[column].to_numpy(float)
            for rule in RULES:
                rows.append((run, column, rule, *_apply(rule, steps, values)))
    return pd.DataFrame(rows, columns=list(PHASES))


def _apply(rule: str, steps: np.ndarray, values: np.ndarray) -> tuple[object, ...]:
    nothing = (np.nan,) * 4
    if len(values) < SMOOTHING + IN_A_ROW:
        return (*nothing, "failed", too_few_checkpoints(len(values), SMOOTHING + IN_A_ROW))
    if np.ptp(values) == 0:
        return (*nothing, "degenerate", "the feature is constant")
    peak, end = (coded_rule if rule == "coded" else written_rule)(values)
    last = steps[-1]
    stop = steps[end] if end is not None else np.nan
    reason = "" if end is not None else "the change never falls below a tenth of its peak"
    return steps[peak], stop, steps[peak] / last, stop / last, "ok" if end is not None else "partial", reason
