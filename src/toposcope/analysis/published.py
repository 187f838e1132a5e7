"""What published rules add to an analysis; whoever knows a paper hands them down, nothing here does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from toposcope.analysis.forecast.base import Forecaster
from toposcope.analysis.table import SeriesTable

PHASES = (
    "run", "column", "rule", "peak_step", "diminishing_step", "peak_fraction", "diminishing_fraction",
    "status", "reason",
)  # fmt: skip
"""The columns of a table of phases: one row for each run, feature and rule."""


def _no_forecasters(columns: Collection[str]) -> Sequence[Forecaster]:
    return ()


def _no_phases(table: SeriesTable, columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(PHASES))


@dataclass(frozen=True, slots=True)
class PublishedRules:
    """Rules from elsewhere: forecasters by the features that they may read, and where phases begin."""

    forecasters: Callable[[Collection[str]], Sequence[Forecaster]] = _no_forecasters
    phases: Callable[[SeriesTable, Sequence[str]], pd.DataFrame] = _no_phases


NOTHING = PublishedRules()
