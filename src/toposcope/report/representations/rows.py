"""Which rows the part on representations reads, what they are called, and what is derived from them."""

from __future__ import annotations

import pandas as pd

from toposcope.figures.trajectories import with_rates

PROBE = "representations"
SENSITIVITY = "sensitivity"
QUALITY = "log_perplexity"
HIDDEN = "representations/euclidean/hidden/"
ENTROPY, COUNT, TOTAL = f"{HIDDEN}h1_entropy", f"{HIDDEN}h1_count", f"{HIDDEN}h1_total"
RANK, TOP = "representations/hidden/rankme_eigenvalues", "representations/hidden/top_eigenvalue"
WITH_NULL = ("h1_total", "h1_entropy", "h1_count")


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


def perplexities(features: pd.DataFrame) -> pd.DataFrame:
    """Return the perplexity at every checkpoint: columns run, step, value."""
    rows = features[(features["probe"] == PROBE) & (features["feature"] == "perplexity")]
    return rows.groupby(["run", "step"])["value"].mean().reset_index()
