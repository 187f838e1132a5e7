"""The further columns of a log: which of them are features that an analysis or a forecast may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd

from toposcope.logs.described import changing
from toposcope.logs.facts import DESCRIBES
from toposcope.logs.run import is_nan_column

Copies: TypeAlias = Callable[[pd.DataFrame, Sequence[str], Sequence[str]], Mapping[str, str]]
"""Which columns of a table are functions of its targets or the step, and of which, in words."""


def features_of(
    table: pd.DataFrame, metrics: pd.DataFrame, column: str, copies: Copies | None
) -> tuple[pd.DataFrame | None, list[str]]:
    """Return run, step and the features of a table, None without any, and notes on the other columns."""
    notes = []
    others = [str(c) for c in table if c not in {*metrics.columns, "parameters", *DESCRIBES}]
    others = [c for c in others if not is_nan_column(c)]
    features = [c for c in others if pd.api.types.is_numeric_dtype(table[c])]
    features = changing(table, features)
    if left := [c for c in others if c not in features]:
        notes.append(f"left out, text or the same at every step: {', '.join(left)}")
    losses = [c for c in dict.fromkeys((column, "loss", "heldout_loss")) if c in table]
    finite = table.replace([np.inf, -np.inf], np.nan)
    same = copies(finite, losses, features) if copies and features else {}
    if same:
        notes.append("left out: " + ", ".join(f"{column} ({why})" for column, why in same.items()))
        features = [c for c in features if c not in same]
    if not features:
        return None, notes
    notes.append(f"taken as features: {', '.join(features)}")
    wide = table[["run", "step", *features]].dropna(subset=["step"]).dropna(subset=features, how="all")
    return wide.drop_duplicates(["run", "step"], keep="last"), notes
