"""The feature that a watch follows: the first leading feature of the store that a checkpoint has."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toposcope.core.types import Normalization, Scope

if TYPE_CHECKING:
    import pandas as pd


def followed(rows: pd.DataFrame, led: Sequence[Mapping[Hashable, Any]]) -> tuple[str, float] | None:
    """Return label and value of the feature that a watch follows: the first of `led` that is in the rows.

    `led` are lines of a store's catalogue. Scaled weights are scaled per network, as in Rieck's rule.
    """
    whole = rows[rows["scope"] == Scope.MODEL]
    for line in led:
        mine = whole[(whole["probe"] == line["probe"]) & (whole["feature"] == line["feature"])]
        if Normalization.NETWORK in line["filtrations"]:
            mine = mine[mine["filtration"] == Normalization.NETWORK]
        if len(mine):
            return str(line["label"]), float(mine["value"].mean())
    return None
