"""Topology of the loss gradients on a fixed batch, and their norm, against the step."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from toposcope.analysis.lines import select
from toposcope.figures.lines import draw_sizes
from toposcope.figures.series import sizes
from toposcope.figures.style import house, new_figure, say_empty
from toposcope.probes.weights.features import (
    BASELINES,
    GRADIENT,
    H0_TOTAL,
    H1_SCALED,
    NEURAL_PERSISTENCE,
    PERSISTENCE,
    RIPS,
    WEIGHT_NORM,
)
from toposcope.types import Normalization, Scope

PANELS = (
    ("Norm of the gradient", BASELINES, WEIGHT_NORM, Scope.MODEL, "norm", True),
    ("H0 of the gradient cloud", RIPS, H0_TOTAL, Scope.POOLED, "total persistence", True),
    ("H1, distances / median", RIPS, H1_SCALED, Scope.POOLED, "ratio", False),
    ("Neural persistence", NEURAL_PERSISTENCE, PERSISTENCE, Scope.MODEL, "mean over matrices", False),
)
"""Title, probe of the weights, feature, scope of the rows, unit, and whether the axis is logarithmic."""


def draw(features: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw four panels, one line per size.

    Parameters
    ----------
    features
        The store's features table; rows of the probes whose name begins with "gradient_".
    runs
        Columns run, family, parameters.

    Returns
    -------
    Figure
        Lines are means over the subsamples (draws), bands their 95% interval; with seeds, over the seeds.
    """
    groups = sizes(runs)
    with house():
        figure, axes = new_figure(5.4, rows=2, columns=2)
        for ax, (title, probe, feature, scope, unit, log) in zip(axes.flat, PANELS, strict=True):
            rows = select(features, feature.name, probe=GRADIENT + probe, scope=scope)
            if feature.filtrations and len(rows):
                own = rows["filtration"] == Normalization.MATRIX
                rows = rows[own] if own.any() else rows
            ax.set_title(title)
            if rows.empty:
                say_empty(ax, "not measured")
                continue
            draw_sizes(ax, rows, groups, unit=unit, log=log and bool((rows["value"] > 0).all()))
    return figure
