"""One checkpoint, matrix by matrix: neural persistence beside the same entries in random order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.series import DrawnSize
from toposcope.core.drawing.style import NULL, house, new_figure, say_empty, size_title
from toposcope.core.types import Scope
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.subjects.weights.features import PERSISTENCE
from toposcope.subjects.weights.figures.neural_persistence import Persistences, is_measured, persistences_of

MOST = 40
"""The largest number of matrices drawn one by one; of more, the means by role are drawn."""


def draw(rows: Persistences) -> Figure:
    """Draw each matrix's neural persistence at the last checkpoint of a run of every size.

    Of `rows` those of the scope "matrix" are drawn; of more than forty matrices those of "role".

    Returns
    -------
    Figure
        Coloured dots: the measurement. Grey: lowest to highest of the shuffled draws.
    """
    groups = rows.sizes(4)
    tables = [at_the_end(rows, group.runs[0]) for group in groups]
    most = max((len(table) for table in tables), default=1)
    with house():
        figure, axes = new_figure(0.9 + 0.17 * max(most, 4), columns=max(len(groups), 1))
        for ax, group, table in zip(axes[0], groups, tables, strict=False):
            panel(ax, table, group)
    return figure


def at_the_end(rows: Persistences, run: str) -> pd.DataFrame:
    """Return the last checkpoint of a run: columns name, value, low, high (of the null; NaN without)."""
    mine = rows.features[rows.features["run"] == run]
    last = replace(rows, features=mine[mine["step"] == mine["step"].max()])
    many = len(last.measured(Scope.MATRIX)) > MOST
    scope, named = (Scope.ROLE, "role") if many else (Scope.MATRIX, "name")
    table = over_draws(last.measured(scope), [named]).set_index(named)[["value"]]
    if rows.null is None:
        return table.assign(low=np.nan, high=np.nan).rename_axis("name").reset_index()
    # no average: the lowest and the highest draw
    band = last.shuffled(scope).groupby(named)["value"].agg(low="min", high="max")
    return table.join(band).rename_axis("name").reset_index()


def panel(ax: Axes, table: pd.DataFrame, group: DrawnSize) -> None:
    """Draw one size's matrices from the top down."""
    size_title(ax, group.label, group.colour)
    if table.empty:
        say_empty(ax, "not measured")
        return
    y = np.arange(len(table))[::-1]
    ax.hlines(y, table["low"], table["high"], color=NULL, linewidth=4, alpha=0.6, label="shuffled")
    ax.plot(table["value"], y, "o", color=group.colour, markersize=4, label="measured")
    ax.set_yticks(y, [str(name).removesuffix(".weight") for name in table["name"]], fontsize=7)
    ax.set_xlabel("neural persistence")
    ax.legend(loc="best", fontsize=7)


def _title(rows: Persistences, of: str) -> str:
    """Return a title with the number of drawn matrices above and below their null."""
    ends = pd.concat([at_the_end(rows, group.runs[0]) for group in rows.sizes(4)])
    bounded = ends.dropna(subset=["value", "low", "high"])
    if bounded.empty:
        return f"Neural persistence of the {of}, matrix by matrix"
    above, below = (
        int((bounded["value"] > bounded["high"]).sum()),
        int((bounded["value"] < bounded["low"]).sum()),
    )
    where, n = ("below", below) if below > above else ("above", above)
    return f"Neural persistence lies {where} that of all shuffled {of} in {n:,} of {len(bounded):,} matrices"


def caption(rows: Persistences, of: str = "weights") -> Caption:
    """Return the caption; `of` is what was measured: weights or gradients."""
    return Caption(
        _title(rows, of),
        "Each matrix's neural persistence beside the same entries in random order (grey: lowest to highest "
        "of the draws).",
        f"Which matrices' {of} are not arranged at random.",
        "Anything about training, because there is one checkpoint and no curve.",
        f"A dot for each matrix, beside a grey bar for its shuffled {of}.",
    )


ON_PAGE = OnPage(
    "snapshot",
    questions={"changed": 3},
    needs=lambda study: not study.has_curves and is_measured(study, PERSISTENCE),
    draw=lambda study: draw(persistences_of(study, study.features)),
    caption=lambda study: caption(persistences_of(study, study.features)),
)
