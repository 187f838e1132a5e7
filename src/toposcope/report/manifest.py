"""What every study takes from a store beside its numbers: its manifest, and a line for each run."""

from __future__ import annotations

import json

import pandas as pd

from toposcope.analysis.table import SeriesTable
from toposcope.store import Store


def manifest(store: Store) -> dict[str, object]:
    """Return what the store says about where its numbers were made."""
    return dict(json.loads((store.path / "store.json").read_text()))


def complete_runs(runs: pd.DataFrame, series: SeriesTable) -> pd.DataFrame:
    """Return the runs table with a line for every run that has features, in the order of their size."""
    wanted = ["run", "family", "parameters", "seed", "schedule", "corpus", "uri"]
    known = runs.reindex(columns=wanted).set_index("run").reindex(series.run_names).reset_index()
    known["family"] = known["family"].astype(object).where(known["family"].notna(), "").astype(str)
    known["parameters"] = known["parameters"].fillna(0).astype(int)
    return known
