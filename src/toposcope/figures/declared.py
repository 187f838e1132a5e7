"""Which rows of a trend table a figure draws, and what they are called."""

from __future__ import annotations

import pandas as pd

from toposcope.figures.names import is_baseline, leading, readable_name


def declared(trends: pd.DataFrame, most: int) -> tuple[list[str], list[str], int]:
    """Return the columns to draw, topology first, their labels, and how many of them are topology.

    A table that says `label` and `baseline` of its rows (see `toposcope.analysis.verdicts.judged`) is drawn
    as it is; of any other, the columns that lead.
    """
    if {"label", "baseline"} <= set(trends):
        rows = trends.drop_duplicates("column")
        rows = rows.sort_values("baseline", kind="stable").head(most)
        return list(rows["column"]), list(rows["label"]), int((~rows["baseline"].astype(bool)).sum())
    columns = leading(trends["column"], most=most)
    topology = sum(not is_baseline(column) for column in columns)
    return columns, [readable_name(column) for column in columns], topology
