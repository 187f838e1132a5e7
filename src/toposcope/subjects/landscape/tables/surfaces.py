"""A summary of the sampled surfaces, for each range and resolution."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.store.draws import counted
from toposcope.study.own import SubjectTable
from toposcope.subjects.landscape.features import CONFIRMED, FOUND, MASKED, MINIMA, SURFACE, TRIVIAL

PLACES = {
    "model": "full range", "full, every second place": "full range, every second place",
    "quarter": "a quarter of it", "quarter, every second place": "a quarter of it, every second place",
}  # fmt: skip
"""Name of the rows -> range and resolution in words."""


def shares(features: pd.DataFrame) -> pd.DataFrame:
    """Return a summary of the surfaces for each range and resolution.

    Columns name, surfaces, trivial (share with one minimum), low and high (that share of the run with fewest
    and with most: checkpoints of one run are not replicates), minima (mean), most (largest number of minima),
    found and confirmed (branches of half the sequences, and those that the other half confirms), masked.
    """
    rows = counted(features[features["probe"] == SURFACE])
    share_rows = []
    for name in PLACES:
        mine = rows[rows["name"] == name]
        values = {feature: part["value"].to_numpy(float) for feature, part in mine.groupby("feature")}
        if TRIVIAL.name not in values:
            continue
        # no average over draws: each row is a surface, and surfaces are counted
        branches_found, confirmed = (values.get(name, np.zeros(0)) for name in (FOUND.name, CONFIRMED.name))
        by_run = mine[mine["feature"] == TRIVIAL.name].groupby("run")["value"].mean()
        share_rows.append({
            "name": PLACES[name],
            "surfaces": len(values[TRIVIAL.name]), "trivial": values[TRIVIAL.name].mean(),
            "low": by_run.min(), "high": by_run.max(),
            "minima": values[MINIMA.name].mean(), "most": values[MINIMA.name].max(),
            "found": int(branches_found.sum()), "confirmed": int(confirmed.sum()),
            "masked": values[MASKED.name].mean(),
        })  # fmt: skip
    return pd.DataFrame(share_rows)


TABLES = (
    SubjectTable(
        name="surfaces",
        make=lambda study: shares(study.features),
        title="Surfaces by range and resolution",
        note="Trivial surfaces have one minimum. Branches are found on one half of the sequences. A branch "
        "is confirmed if the other half's 95% interval of loss(saddle) - loss(minimum) lies above 0. The "
        "number of saddles is the number of minima minus 1.",
    ),
)
(SURFACES,) = TABLES
