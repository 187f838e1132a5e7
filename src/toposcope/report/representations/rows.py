"""From a store's rows to the series of the last layer, with what is derived on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.analysis.table import SeriesTable, series_table
from toposcope.figures.trajectories import of_layer, with_rates

PROBE = "representations"
SENSITIVITY = "sensitivity"
QUALITY = "log_perplexity"
HIDDEN = "representations/euclidean/hidden/"
ENTROPY, COUNT, TOTAL = f"{HIDDEN}h1_entropy", f"{HIDDEN}h1_count", f"{HIDDEN}h1_total"
RANK, TOP = "representations/hidden/rankme_eigenvalues", "representations/hidden/top_eigenvalue"
WITH_NULL = ("h1_total", "h1_entropy", "h1_count")

_NO_FEATURES = ("perplexity", "loss", "predicted_tokens", "majority_accuracy")


def belongs(features: pd.DataFrame) -> pd.Series:
    """Return which rows the part on representations reads; gradients are read beside them."""
    probe = features["probe"].astype(str)
    return probe.isin((PROBE, SENSITIVITY)) | probe.str.startswith("gradient_")


def derived(features: pd.DataFrame) -> pd.DataFrame:
    """Add what is computed from the rows: rates of change, and H1 above its Gaussian cloud (`_excess`)."""
    return pd.concat(
        [with_rates(features), *(_excess(features, name) for name in WITH_NULL)], ignore_index=True
    )


def _excess(features: pd.DataFrame, name: str) -> pd.DataFrame:
    keys = ["run", "step", "layer"]
    null = features[features["feature"] == f"{name}_null"].groupby(keys)["value"].mean().rename("null")
    rows = features[(features["feature"] == name) & (features["probe"] == PROBE)]
    rows = rows.merge(null.reset_index(), on=keys)
    return rows.assign(value=rows["value"] - rows["null"], feature=f"{name}_excess").drop(columns="null")


def last_layer_series(
    features: pd.DataFrame, metrics: pd.DataFrame | None, runs: pd.DataFrame
) -> SeriesTable:
    """Return the series table of each run's last hidden state, its attention, and its gradients.

    Its first target is the log perplexity, where every run has one.
    """
    mine = features[features["probe"] == PROBE]
    rows = pd.concat(
        [of_layer(mine, None), mine[mine["name"] == "attention"], features[_gradient(features)]],
        ignore_index=True,
    )
    left_out = rows["feature"].isin(_NO_FEATURES) | rows["feature"].str.endswith(
        ("_null", "_sd", "_shuffled")
    )
    kept = rows[~left_out] if (~left_out).any() else rows
    return _with_quality(series_table(kept, metrics, runs), mine)


def _gradient(features: pd.DataFrame) -> pd.Series:
    return features["probe"].astype(str).str.startswith("gradient_")


def _with_quality(table: SeriesTable, rows: pd.DataFrame) -> SeriesTable:
    """Add the log perplexity as a target."""
    known = rows[(rows["feature"] == "perplexity") & (rows["value"] > 0)]
    if known.empty:
        return table
    values = known.groupby(["run", "step"])["value"].mean().map(np.log).rename(QUALITY).reset_index()
    joined = table.values.merge(values, on=["run", "step"], how="left")
    return replace(table, values=joined, targets=(QUALITY, *table.targets))


def perplexities(features: pd.DataFrame) -> pd.DataFrame:
    """Return the perplexity at every checkpoint: columns run, step, value."""
    rows = features[(features["probe"] == PROBE) & (features["feature"] == "perplexity")]
    return rows.groupby(["run", "step"])["value"].mean().reset_index()
