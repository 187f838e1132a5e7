"""One checkpoint, matrix by matrix: neural persistence beside the same entries in random order."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.analysis.lines import select
from toposcope.figures.neural_persistence import PROBE, thin
from toposcope.figures.series import DrawnSize, sizes
from toposcope.figures.style import NULL, house, new_figure, say_empty, size_title
from toposcope.types import Normalization, Scope

MOST = 40
"""Most matrices drawn one by one; of more, the roles' means are."""


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    filtration: str = Normalization.MATRIX,
    null: str | None = None,
) -> Figure:
    """Draw each matrix's neural persistence at the last checkpoint of a run of every size.

    Parameters
    ----------
    features
        The store's features table. Used: probe "neural_persistence", scope "matrix" (of more than forty
        matrices, scope "role"), feature "neural_persistence" and its null (one row per draw).
    runs
        Columns run, family, parameters.
    filtration
        Normalization of neural persistence.
    null
        What its null is called in the table; None draws none.

    Returns
    -------
    Figure
        Coloured dots: the measurement. Grey: lowest to highest of the shuffled draws.
    """
    groups = thin(sizes(runs), 4)
    tables = [at_the_end(features, group.runs[0], filtration=filtration, null=null) for group in groups]
    most = max((len(table) for table in tables), default=1)
    with house():
        figure, axes = new_figure(0.9 + 0.17 * max(most, 4), columns=max(len(groups), 1))
        for ax, group, table in zip(axes[0], groups, tables, strict=False):
            panel(ax, table, group)
    return figure


def at_the_end(features: pd.DataFrame, run: str, *, filtration: str, null: str | None) -> pd.DataFrame:
    """Return the last checkpoint of a run: columns name, value, low, high (of the null; NaN without)."""
    mine = features[features["run"] == run]
    mine = mine[mine["step"] == mine["step"].max()]
    named = "name"
    rows = select(mine, "neural_persistence", probe=PROBE, filtration=filtration, scope=Scope.MATRIX)
    if len(rows) > MOST:
        rows = select(mine, "neural_persistence", probe=PROBE, filtration=filtration, scope=Scope.ROLE)
        named = "role"
    table = rows.groupby(named, sort=False)["value"].mean().rename("value").to_frame()
    if null is None:
        return table.assign(low=np.nan, high=np.nan).rename_axis("name").reset_index()
    scope = Scope.MATRIX if named == "name" else Scope.ROLE
    draws = select(mine, null, probe=PROBE, filtration=filtration, scope=scope)
    band = draws.groupby(named)["value"].agg(low="min", high="max")
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
