"""Power laws of what runs end with: final losses and final features against model size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.analysis.scaling import fit_power_law
from toposcope.analysis.table import SeriesTable
from toposcope.analysis.trends import default_columns

LOSSES = ("loss", "heldout_loss", "loss_smooth")
_FITTED = (
    "scale", "exponent", "low", "high", "r2", "spearman", "spearman_p", "n", "n_sizes", "status", "reason"
)  # fmt: skip
COLUMNS = ("quantity", *_FITTED)


def scaling_table(table: SeriesTable, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Fit a N^b to the last value of every loss and feature; one row each, with b's interval.

    Replicates of a size all enter. Runs that do not state their size are left out; the row of a quantity that
    cannot be fitted says why.

    Examples
    --------
    >>> from toposcope.analysis.table import from_frame
    >>> frame = pd.DataFrame({"run": ["a", "b", "c", "d"], "step": 1, "loss": [4.0, 2.05, 0.98, 0.51]})
    >>> runs = pd.DataFrame({"run": ["a", "b", "c", "d"], "parameters": [10, 100, 1000, 10000]})
    >>> row = scaling_table(from_frame(frame, features=[], runs=runs)).iloc[0]
    >>> row["quantity"], float(round(row["exponent"], 1))
    ('loss', -0.3)
    """
    columns = default_columns(table, ("model",)) if columns is None else list(columns)
    sizes = table.parameters()
    runs = [run for run in table.run_names if run in sizes]
    last = {run: table.of_run(run) for run in runs}
    rows: list[tuple[object, ...]] = []
    for quantity in [*(name for name in LOSSES if name in table.targets), *columns]:
        ends = [(sizes[run], _last(last[run][quantity])) for run in runs]
        n, value = (np.array(part, float) for part in zip(*ends, strict=True)) if ends else (np.empty(0),) * 2
        law = fit_power_law(n, value)
        rows.append((quantity, *(getattr(law, name) for name in _FITTED)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _last(values: pd.Series) -> float:
    known = values.dropna()
    return float(known.iloc[-1]) if len(known) else float("nan")
