"""Features that no probe measures: an excess over a null, a change per unit of log step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.store.draws import over_draws

_AT = ("run", "step", "probe", "filtration", "name", "role", "layer")


def with_derived(features: pd.DataFrame, catalogue: pd.DataFrame | None) -> pd.DataFrame:
    """Return long rows, with the derived features added that their probes declare and the rows lack.

    An excess is each of the feature's values minus the mean of its null's draws at the same place; a rate is
    the value over the difference of the two steps' logarithms. `catalogue` is what `Store.catalogue` returns.
    """
    if catalogue is None or features.empty:
        return features
    pairs_present = set(features[["probe", "feature"]].drop_duplicates().itertuples(index=False, name=None))
    more = []
    for line in catalogue.to_dict("records"):
        source = (line["probe"], line["excess_of"] or line["per_log_step_of"])
        if source not in pairs_present or (line["probe"], line["feature"]) in pairs_present:
            continue
        rows = features[features["probe"] == line["probe"]]
        if line["excess_of"]:
            of = (catalogue["probe"] == line["probe"]) & (catalogue["null_of"] == line["excess_of"])
            more.append(_excess(rows, line["excess_of"], list(catalogue.loc[of, "feature"]), line["feature"]))
        elif line["per_log_step_of"]:
            more.append(_rate(features, rows, line["per_log_step_of"], line["feature"]))
    more = [rows for rows in more if len(rows)]
    return pd.concat([features, *more], ignore_index=True) if more else features


def _excess(rows: pd.DataFrame, of: str, nulls: list[str], name: str) -> pd.DataFrame:
    keys = [key for key in _AT if key in rows]
    null = over_draws(rows[rows["feature"].isin(nulls)], keys).rename(columns={"value": "_null"})
    merged = rows[rows["feature"] == of].merge(null[[*keys, "_null"]], on=keys)
    return merged.assign(value=merged["value"] - merged["_null"], feature=name).drop(columns="_null")


def _rate(features: pd.DataFrame, rows: pd.DataFrame, of: str, name: str) -> pd.DataFrame:
    """Checkpoints further apart differ more; steps 0 and 1 have no previous step to take the ratio to."""
    steps = features[["run", "step"]].drop_duplicates().sort_values(["run", "step"])
    gap = np.log(steps["step"].where(steps["step"] > 0)).groupby(steps["run"]).diff()
    merged = rows[rows["feature"] == of].merge(steps.assign(_gap=gap), on=["run", "step"], how="left")
    merged = merged.assign(value=merged["value"] / merged["_gap"], feature=name).drop(columns="_gap")
    return merged.dropna(subset=["value"])
