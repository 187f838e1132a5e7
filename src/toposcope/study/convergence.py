"""Rows of iterations that did not converge: nothing is drawn, tested or fitted on them."""

from __future__ import annotations

import pandas as pd

from toposcope.core.forms import listed_steps
from toposcope.core.types import Scope, Status
from toposcope.statistics.trends.pooling import FEW

_PLACE = ["run", "step", "probe", "filtration", "scope", "name", "role", "layer", "head", "feature"]
"""The columns that all draws of one number share."""

_MOST_NAMED = 6
"""The most steps that a reason names."""

_EARLIER = "not converged"
"""The notes of earlier versions, under the status `truncated`."""


def without_unconverged(features: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return long rows whose unconverged numbers are NaN, and in words how many checkpoints that leaves out.

    Where one draw of a number did not converge at a checkpoint, the number is NaN there in all draws: a mean
    over those that are left would jump from one checkpoint to the next.

    >>> rows = pd.DataFrame({"run": "a", "step": [0, 0, 5], "probe": "curvature", "feature": "top",
    ...     "draw": [0, 1, 0], "value": [1.0, 9.0, 2.0], "status": ["ok", "unconverged", "ok"]})
    >>> found, said = without_unconverged(rows)
    >>> found["value"].tolist(), said
    ([nan, nan, 2.0], ('top: 1 of 2 checkpoints left out, where it did not converge',))
    """
    if "status" not in features:
        return features, ()
    bad = features["status"] == Status.UNCONVERGED
    earlier = features["status"] == Status.TRUNCATED
    if "note" in features and earlier.any():
        bad[earlier] = features.loc[earlier, "note"].astype(str).str.contains(_EARLIER, regex=False)
    if not bad.any():
        return features, ()
    keys = [key for key in _PLACE if key in features]
    places = features[keys].astype(object).fillna("")
    out = places.merge(places[bad].drop_duplicates().assign(_out=True), on=keys, how="left")["_out"].notna()
    out.index = features.index
    status = features["status"].astype(object).mask(bad, str(Status.UNCONVERGED))
    masked = features.assign(value=features["value"].mask(out), status=status)
    return masked, tuple(_messages(features, out))


def with_unconverged_named(
    families: pd.DataFrame, features: pd.DataFrame, values: pd.DataFrame
) -> pd.DataFrame:
    """Return the verdicts; where few checkpoints are left, the reason names those that did not converge.

    `features` are long rows with their status, `values` the table of run, step and columns that was tested.

    >>> rows = pd.DataFrame({"run": "a", "step": [5, 10], "feature": "top", "status": ["unconverged", "ok"]})
    >>> wide = pd.DataFrame({"run": "a", "step": [5, 10], "curvature/model/top": [float("nan"), 2.0]})
    >>> made = pd.DataFrame({"column": ["curvature/model/top"], "reason": ["too few: 1 checkpoint"]})
    >>> with_unconverged_named(made, rows, wide)["reason"].tolist()
    ['too few: 1 checkpoint; 1 of 2 did not converge (step 5)']
    """
    if "status" not in features or not len(families):
        return families
    stuck = features[features["status"] == Status.UNCONVERGED]
    reasons = []
    for column, reason in zip(families["column"].astype(str), families["reason"].astype(str), strict=True):
        rows = stuck[stuck["feature"] == column.rpartition("/")[2]]
        few = reason.startswith(FEW) and len(rows) and column in values
        reasons.append("; ".join(filter(None, (reason, _lost(rows, values, column) if few else ""))))
    return families.assign(reason=reasons)


def _lost(stuck: pd.DataFrame, values: pd.DataFrame, column: str) -> str:
    """Return how many checkpoints of the first run did not converge, of how many measured, and their steps.

    The first run is that of which the reason counts the checkpoints that are left.
    """
    values = values[values["run"] == values["run"].iloc[0]]
    empty = values.loc[values[column].isna(), ["run", "step"]]
    lost = empty.merge(stuck[["run", "step"]].drop_duplicates(), on=["run", "step"])
    if not len(lost):
        return ""
    every = int(values[column].notna().sum()) + len(lost)
    steps = [f"{step:,}" for step in sorted(set(lost["step"]))]
    named = f"step{'s' * (len(steps) > 1)} {listed_steps(steps, most=_MOST_NAMED)}"
    return f"{len(lost):,} of {every:,} did not converge ({named})"


def _messages(features: pd.DataFrame, out: pd.Series) -> list[str]:
    """Return a line for each number of the whole model, and one for all layers."""
    shown = features["scope"] != Scope.SETTING if "scope" in features else pd.Series(True, features.index)
    messages = []
    for feature, rows in features[shown].groupby("feature", sort=False):
        lost = rows.loc[out[rows.index], ["run", "step"]].drop_duplicates()
        if len(lost):
            every = len(rows[["run", "step"]].drop_duplicates())
            name = str(feature).replace("_", " ")
            messages.append(
                f"{name}: {len(lost):,} of {every:,} checkpoints left out, where it did not converge"
            )
    return messages
