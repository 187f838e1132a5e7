"""What is derived from the rows of hidden states: rates, excesses over the null, layers, pairs of layers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.analysis.lines import select

PROBE = "representations"
SENSITIVITY = "sensitivity"
QUALITY = "log_perplexity"
HIDDEN = "representations/euclidean/hidden/"
ENTROPY, COUNT, TOTAL = f"{HIDDEN}h1_entropy", f"{HIDDEN}h1_count", f"{HIDDEN}h1_total"
RANK, TOP = "representations/hidden/rankme_eigenvalues", "representations/hidden/top_eigenvalue"
_INTERVAL = re.compile(r"95% interval (\S+) to (\S+)")
WITH_NULL = ("h1_total", "h1_count", "h1_entropy")


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


def with_rates(
    features: pd.DataFrame, names: Sequence[str] = ("wasserstein1_h1", "wasserstein1_h0")
) -> pd.DataFrame:
    """Add NAME_rate: a distance to the previous checkpoint over the log of the ratio of the two steps.

    Checkpoints further apart differ more; steps 0 and 1 have no previous step to take the ratio to.
    """
    rows = features[features["feature"].isin(names)].copy()
    steps = features[["run", "step"]].drop_duplicates().sort_values(["run", "step"])
    gap = np.log(steps["step"].where(steps["step"] > 0)).groupby(steps["run"]).diff()
    gaps = steps.assign(gap=gap)
    rows = rows.merge(gaps, on=["run", "step"], how="left")
    rows["value"] = rows["value"] / rows.pop("gap")
    rows["feature"] += "_rate"
    return pd.concat([features, rows.dropna(subset=["value"])], ignore_index=True)


def of_layer(features: pd.DataFrame, layer: int | None) -> pd.DataFrame:
    """Return the rows of one hidden state (None: each run's last one), and those of the whole model."""
    hidden = features["name"] == "hidden"
    if layer is None:
        last = features[hidden].groupby("run")["layer"].transform("max")
        chosen = features[hidden][features[hidden]["layer"] == last]
    else:
        chosen = features[hidden & (features["layer"] == layer)]
    return pd.concat([chosen, features[features["name"] == "model"]], ignore_index=True)


def pairs(features: pd.DataFrame, *, probe: str = "representations") -> pd.DataFrame:
    """Return columns run, step, layer, cka, carried: draws averaged, rows with both numbers."""
    keys = ["run", "step", "layer"]
    cka = select(features, "cka", probe=probe).groupby(keys)["value"].mean().rename("cka")
    carried = select(features, "carried_h1", probe=probe).groupby(keys)["value"].mean().rename("carried")
    return pd.concat([cka, carried], axis=1).dropna().reset_index()


def noted_interval(note: object) -> tuple[float, float]:
    """Return the 95% interval that a dimension's note states; NaN where it states none.

    >>> noted_interval("95% interval 16.9 to 21.9")
    (16.9, 21.9)
    """
    found = _INTERVAL.search(str(note))
    return (float(found[1]), float(found[2])) if found else (np.nan, np.nan)
