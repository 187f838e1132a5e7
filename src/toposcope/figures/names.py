"""Which columns lead in figures and tables, and which are baselines: read from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from toposcope.types import Kind

_BASELINES_SHOWN = 3
"""One of so many columns that lead is a baseline, where there are enough."""


def leading(columns: Iterable[str], catalogue: pd.DataFrame, most: int = 16) -> list[str]:
    """Return at most `most` of the columns: the confirmatory family first, topology before baselines.

    What fills the rest stands for the whole model and comes in the order in which the probes declare it. No
    column is chosen for what its numbers say.

    >>> about = pd.DataFrame({"column": ["b", "a", "n"], "kind": ["baseline", "topology", "null"],
    ...                       "primary": [False, True, False], "scope": ["model", "model", "null"]})
    >>> leading(["n", "b", "a"], about)
    ['a', 'b']
    """
    lines = catalogue[catalogue["column"].isin(list(columns))].drop_duplicates("column")
    lines = lines[lines["kind"].isin([Kind.TOPOLOGY, Kind.BASELINE])]
    whole = lines["primary"].astype(bool) | (lines["scope"] == "model")
    lines = lines[whole] if whole.any() else lines
    baseline = lines["kind"] == Kind.BASELINE
    topology = lines[~baseline].sort_values("primary", ascending=False, kind="stable")
    kept = min(int(baseline.sum()), max(most // _BASELINES_SHOWN, most - len(topology)))
    return [*topology["column"].head(most - kept), *lines.loc[baseline, "column"].head(kept)]


def is_baseline(column: str, catalogue: pd.DataFrame) -> bool:
    """Return whether a column is a norm, spectral or other baseline and no topology."""
    return bool((catalogue.loc[catalogue["column"] == column, "kind"] == Kind.BASELINE).any())
