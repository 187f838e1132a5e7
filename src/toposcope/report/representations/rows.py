"""Which rows the part on representations reads, what they are called, and what is derived from them."""

from __future__ import annotations

import pandas as pd

PROBE = "representations"
SENSITIVITY = "sensitivity"
QUALITY = "log_perplexity"
HIDDEN = "representations/euclidean/hidden/"
ENTROPY, COUNT, TOTAL = f"{HIDDEN}h1_entropy", f"{HIDDEN}h1_count", f"{HIDDEN}h1_total"
RANK, TOP = "representations/hidden/rankme_eigenvalues", "representations/hidden/top_eigenvalue"


def belongs(features: pd.DataFrame) -> pd.Series:
    """Return which rows the part on representations reads; gradients are read beside them."""
    probe = features["probe"].astype(str)
    return probe.isin((PROBE, SENSITIVITY)) | probe.str.startswith("gradient_")


def perplexities(features: pd.DataFrame) -> pd.DataFrame:
    """Return the perplexity at every checkpoint: columns run, step, value."""
    rows = features[(features["probe"] == PROBE) & (features["feature"] == "perplexity")]
    return rows.groupby(["run", "step"])["value"].mean().reset_index()
