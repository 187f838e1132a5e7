"""The bars of one cloud of points: its persistence diagrams and barcodes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.drawing import barcode
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study


def drawn_run(study: Study) -> str:
    """Return the run whose bars are drawn: the largest model with stored diagrams."""
    with_diagrams = set(study.diagrams["run"])
    return [run for run in study.ordered if run in with_diagrams][-1]


def _title(diagrams: pd.DataFrame, run: str) -> str:
    """Return how many loops the drawn cloud has at the last checkpoint, and how long the longest lasts."""
    mine = diagrams[diagrams["run"] == run]
    step = int(mine["step"].max())
    loops = barcode.bars_at(mine, step).get(1, np.empty((0, 2)))
    lasts = loops[:, 1] - loops[:, 0]
    lasts = lasts[np.isfinite(lasts)]
    many = f"{len(loops):,} loop{'s' * (len(loops) != 1)} (H1)"
    longest = f"; the longest lasts a distance of {lasts.max():.2g}" if len(lasts) else ""
    return f"The cloud of {run} has {many} at step {step:,}{longest}"


def caption(study: Study, diagrams: pd.DataFrame, points: str) -> Caption:
    """Return the words under a persistence diagram and its barcode; `points` are those of the cloud.

    `diagrams` are those that are drawn.
    """
    at = "at the last checkpoint and at the first" if study.has_curves else "at this checkpoint"
    return Caption(
        _title(diagrams, drawn_run(study)),
        f"Every component (H0) and loop (H1) of one cloud of one run's {points}: where it appears and where "
        f"it ends, {at}. A point far from the diagonal, or a long bar, lasts long.",
        f"At which distances the {points} join, and whether any loop lasts much longer than the others.",
        "That a long bar is structure. A cloud without structure has long bars, too. This is one cloud of "
        "one run.",
        "Persistence diagrams, death against birth, beside barcodes with a line for each bar.",
    )


ON_PAGE = OnPage(
    "barcode",
    needs=lambda study: len(study.diagrams) > 0,
    draw=lambda study: barcode.draw(study.diagrams, drawn_run(study)),
    caption=lambda study: caption(study, study.diagrams, "weight rows"),
)
