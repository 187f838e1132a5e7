"""The rows of single runs, with the verdict over all runs."""

from __future__ import annotations

import pandas as pd

from toposcope.study.study import Study


def judged(study: Study) -> pd.DataFrame:
    """Return the trend rows of the primary features, each with the verdict on its feature over all runs."""
    keys = ["target", "column"]
    mine = study.leading
    over_runs = study.families[[*keys, "verdict"]].drop_duplicates(keys)
    mine = mine.drop(columns="verdict", errors="ignore").merge(over_runs, on=keys, how="left")
    return mine
