"""What columns of the package's own probes are, for tables that were written by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from toposcope.study.table import series_table
from toposcope.subjects.catalogue import own_catalogue

_FILTRATIONS = ("euclidean", "rieck", "seed004", "attention", "weights")


def catalogue_of(columns: Iterable[str]) -> pd.DataFrame:
    """Return the catalogue of some column keys, as `SeriesTable.catalogue`."""
    rows = []
    for column in dict.fromkeys(columns):
        probe, *path, feature = column.split("/")
        filtration = path.pop(0) if path and path[0] in _FILTRATIONS else ""
        name = path[0] if path else "model"
        role = name.removeprefix("role=") if name.startswith("role=") else "model"
        layer = 1.0 if name == "hidden" else None
        at = {"filtration": filtration, "layer": layer, "role": role, "feature": feature, "value": 1.0}
        rows.append(
            {"run": "a", "step": 0, "probe": probe, **at, "name": name if role == "model" else "role"}
        )
    return series_table(pd.DataFrame(rows), catalogue=own_catalogue()).catalogue
