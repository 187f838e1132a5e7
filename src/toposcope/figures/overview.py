"""The study on one picture: loss, neural persistence, loss against H0, and H0 against model size."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from toposcope.figures import loss_against_h0, loss_curves, neural_persistence, scaling, vietoris_rips
from toposcope.figures.series import sizes
from toposcope.figures.style import house, new_figure, say_empty
from toposcope.types import Normalization, Scope

H0 = "rips/euclidean/pooled/h0_total"


def draw(
    features: pd.DataFrame,
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    finals: pd.DataFrame,
    fits: pd.DataFrame,
    catalogue: pd.DataFrame,
    *,
    filtration: str = Normalization.MATRIX,
    quantity: str = H0,
    scope: str = Scope.POOLED,
) -> Figure:
    """Draw the four panels; the tables are those of the figures that each panel is the short form of.

    `quantity` is the column key of the bottom right panel, which shows H1 where there is one size only, and
    `scope` the cloud of the bottom left one.
    """
    groups = sizes(runs)
    with house():
        figure, axes = new_figure(5.9, rows=2, columns=2)
        loss_curves.training(axes[0, 0], metrics, groups)
        neural_persistence.together(axes[0, 1], features, groups, filtration=filtration)
        loss_against_h0.together(axes[1, 0], features, metrics, groups, scope=scope)
        mine = finals[finals["quantity"] == quantity]
        if len(groups) == 1:  # no law from one size
            title = "H1: loops, raw distances"
            vietoris_rips.panel(axes[1, 1], features, groups, "h1_total", scope=scope, title=title)
        elif mine.empty:
            say_empty(axes[1, 1], "H0 total persistence is unknown\nat the end of these runs")
        else:
            scaling.panel(axes[1, 1], mine, fits[fits["quantity"] == quantity], groups, catalogue)
    return figure
