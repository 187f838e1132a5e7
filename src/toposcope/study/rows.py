"""The long rows of one feature, and the band of a null."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from toposcope.core.lines import bounds, half_width
from toposcope.store.draws import counted


def select(
    features: pd.DataFrame,
    feature: str,
    *,
    probe: str,
    filtration: str | None = None,
    name: str | None = None,
    role: str | None = None,
    scope: str | None = None,
) -> pd.DataFrame:
    """Return the rows of one feature that count (columns as in the store's features table)."""
    keep = (features["feature"] == feature) & (features["probe"] == probe)
    for column, wanted in (("filtration", filtration), ("name", name), ("role", role), ("scope", scope)):
        if wanted is not None:
            keep &= features[column] == wanted
    return counted(features[keep])


def of_column(features: pd.DataFrame, line: Mapping[Hashable, Any]) -> pd.DataFrame:
    """Return the long rows that count of a column of a series table; `line` is its line of the catalogue.

    Of several layers it is each run's last one.
    """
    rows = select(features, str(line["feature"]), probe=str(line["probe"]))
    for name, unnamed in (("filtration", ""), ("name", "model"), ("role", "model")):
        if name in rows:
            rows = rows[rows[name].fillna(unnamed).replace("", unnamed) == line[name]]
    if "layer" not in rows or rows["layer"].isna().all():
        return rows
    every = features[(features["probe"] == line["probe"]) & (features["name"] == line["name"])]
    return rows[rows["layer"] == rows["run"].map(every.groupby("run")["layer"].max())]


def null_band(rows: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return where one more value of the null would fall: columns step, mean, low, high, draws.

    `rows` are the long rows of the null. Each draw of it is averaged over the runs of a size first, so that
    the band is comparable with the mean line of that size: over the steps and the draws that all measured
    runs have. The band is Student's prediction interval over the draws, NaN where there are fewer than
    `LEAST`; above 0 where its values are, as that of `core.lines.curve`.
    """
    mine = counted(rows[rows["run"].isin(runs)])
    cells = mine.groupby(["step", "draw"])["value"].agg(["mean", "count"])  # over runs, draw by draw
    whole = cells.loc[cells["count"] == mine["run"].nunique(), "mean"]
    grouped = whole.groupby("step").agg(["mean", "std", "count"])
    half = half_width(grouped["std"], grouped["count"], of_mean=False)
    return pd.DataFrame(
        {
            "step": grouped.index.to_numpy(),
            "mean": grouped["mean"].to_numpy(),
            **bounds(grouped["mean"], half, positive=bool((mine["value"] >= 0).all())),
            "draws": grouped["count"].to_numpy(),
        }
    )
