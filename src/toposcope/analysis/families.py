"""One row for each feature and target over all runs, from the rows of the single runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.analysis.statistics import benjamini_hochberg, holm

COLUMNS = (
    "target", "column", "n", "runs", "r", "r_low", "r_high", "p", "p_holm", "q", "confirmatory",
    "family_size", "detectable_r", "departure_rho", "verdict", "reason",
)  # fmt: skip


def family_table(trends: pd.DataFrame, primary: Sequence[str], *, alpha: float = 0.05) -> pd.DataFrame:
    """Combine the runs of a trend table: the least p of a feature's runs times their number.

    Columns `COLUMNS`; Holm's method runs over the `primary` features of a target alone, every other row is
    exploratory and has Benjamini and Hochberg's `q`.
    """
    rows = []
    for (target, column), mine in trends.groupby(["target", "column"], sort=False):
        p = mine["innovation_p"].astype(float)
        known = p.dropna()
        rows.append(
            {
                "target": target, "column": column, "n": int(mine["n"].max()), "runs": len(mine),
                "r": mine["innovation_r"].astype(float).mean(),
                "p": min(1.0, known.min() * len(known)) if len(known) else np.nan,
                "confirmatory": column in primary or not primary,
                "reason": "" if len(known) else str(next(iter(mine["reason"]), "")),
            }
        )  # fmt: skip
    out = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    for _, mine in out.groupby("target"):
        chosen = mine.index[mine["confirmatory"].astype(bool)]
        others = mine.index.difference(chosen)
        out.loc[chosen, "p_holm"] = holm(out.loc[chosen, "p"].to_numpy(float))
        out.loc[chosen, "family_size"] = int(out.loc[chosen, "p"].notna().sum())
        out.loc[others, "q"] = benjamini_hochberg(out.loc[others, "p"].to_numpy(float))
    adds = out["confirmatory"].astype(bool) & (out["p_holm"].astype(float) <= alpha)
    out["verdict"] = np.where(adds, "adds", "trend only")
    out.loc[out["p"].isna(), "verdict"] = "cannot tell"
    return out
