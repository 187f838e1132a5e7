"""The rows of single runs beside the verdict that is taken over all runs."""

from __future__ import annotations

import pandas as pd

from toposcope.analysis.study import Study


def judged(study: Study) -> pd.DataFrame:
    """Return the trend rows of the primary features, each with its label, its kind and its family's verdict.

    The columns `verdict` and `departure_rho` are those over all runs where the row has none of its own.
    """
    keys = ["target", "column"]
    mine = study.leading[study.leading["column"].isin(study.labels.leading(study.leading["column"], most=60))]
    if mine.empty:
        mine = study.leading
    over_runs = study.families[[*keys, "verdict"]].drop_duplicates(keys)
    mine = mine.drop(columns="verdict", errors="ignore").merge(over_runs, on=keys, how="left")
    order = {column: i for i, column in enumerate(study.labels.primary())}
    mine = mine.assign(
        label=mine["column"].map(study.labels.label),
        baseline=mine["column"].map(study.labels.baseline).astype(bool),
        place=mine["column"].map(order).fillna(len(order)),
    )
    return mine.sort_values("place", kind="stable").drop(columns="place")
