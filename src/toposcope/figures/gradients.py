"""Topology of the loss gradients on a fixed batch, and their norm, against the step."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from toposcope.analysis.lines import select
from toposcope.figures.lines import draw_sizes
from toposcope.figures.series import sizes
from toposcope.figures.style import house, new_figure, say_empty

_NP, _RIPS, _NORM = "gradient_neural_persistence", "gradient_rips", "gradient_baselines"
PANELS = (
    ("Norm of the gradient", _NORM, "weight_norm", "model", "norm", True),
    ("H0 of the gradient cloud", _RIPS, "h0_total", "pooled", "total persistence", True),
    ("H1, distances / median", _RIPS, "h1_total_scaled", "pooled", "ratio", False),
    ("Neural persistence", _NP, "neural_persistence", "model", "mean over matrices", False),
)
"""Title, probe, feature, name of the rows, unit, and whether the axis is logarithmic."""


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
        for ax, (title, probe, feature, name, unit, log) in zip(axes.flat, PANELS, strict=True):
            rows = select(features, feature, probe=probe, name=name)
            if probe == _NP and len(rows):
                convention = "seed004" if (rows["filtration"] == "seed004").any() else "rieck"
                rows = rows[rows["filtration"] == convention]
            ax.set_title(title)
            if rows.empty:
                say_empty(ax, "not measured")
                continue
            draw_sizes(ax, rows, groups, unit=unit, log=log and bool((rows["value"] > 0).all()))
    return figure
