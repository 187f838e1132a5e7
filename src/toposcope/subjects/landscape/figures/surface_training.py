"""Curvature and surfaces over training: lines beside their nulls, spectral densities, diagrams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_null, draw_sizes
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import NULL, house, new_figure, say_empty, sequential
from toposcope.core.lines import select
from toposcope.core.types import Diagram, Scope
from toposcope.study.catalogue import nulls_by_feature
from toposcope.subjects.landscape import features as of

PANELS = (
    ("critical sharpness", of.SHARPNESS, of.CRITICAL, "2 / update", True),
    ("top Hessian eigenvalue", of.CURVATURE, of.TOP, "loss / weight²", False),
    ("Hessian trace", of.CURVATURE, of.TRACE, "loss / weight²", False),
    ("minima of the surface", of.SURFACE, of.MINIMA, "count", False),
    ("average persistence", of.SURFACE, of.PERSISTENCE, "nats per token", False),
    ("reach of the surface", of.SURFACE, of.REACH, "unit of the directions", False),
)
"""Title, probe, feature, unit, and whether the axis is logarithmic."""


def draw_lines(features: pd.DataFrame, runs: pd.DataFrame, catalogue: pd.DataFrame) -> Figure:
    """Draw six panels against the log step, one line a size; grey bands are nulls.

    Parameters
    ----------
    features
        The store's features table; rows of the probes sharpness, curvature and surface.
    runs
        Columns run, family, parameters.
    catalogue
        What the columns are, as `SeriesTable.catalogue`: it says which feature is another's null.

    Returns
    -------
    Figure
        Bands in colour are 95% intervals over batches and direction seeds; grey: where one more value of the
        null would fall with 95% probability.
    """
    groups = sizes(runs)
    with house():
        figure, axes = new_figure(5.6, rows=2, columns=3)
        for ax, (title, probe, feature, unit, log) in zip(axes.flat, PANELS, strict=True):
            rows = select(features, feature.name, probe=probe, scope=Scope.MODEL)
            ax.set_title(title)
            if rows.empty:
                say_empty(ax, "not measured")
                continue
            null = nulls_by_feature(catalogue, probe).get(feature.name)
            positive = bool((rows["value"] > 0).all())
            if null is not None:
                nulls = select(features, null, probe=probe, scope=Scope.MODEL)
                draw_null(ax, nulls, groups, positive=log and positive)
            # counts, depths and lengths: only an interval could lie below 0
            bottom = 0.0 if probe == of.SURFACE else None
            draw_sizes(ax, rows, groups, unit=unit, log=log and positive, bottom=bottom)
    return figure


def draw_densities(densities: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Figure:
    """Draw spectral densities over training, first steps dark.

    Parameters
    ----------
    densities
        Title, grid (n,) and each random vector's density (vectors, n).
    """
    with house():
        figure, axes = new_figure(3.4)
        ax = axes[0, 0]
        if not densities:
            say_empty(ax, "no spectral density was kept")
            return figure
        for (title, grid, rows), colour in zip(densities, sequential(len(densities)), strict=True):
            mean = rows.mean(axis=0)
            spread = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.zeros(len(grid))
            floor = 1e-8 * float(mean.max())
            ax.fill_between(
                grid, np.maximum(mean - 2 * spread, floor), np.maximum(mean + 2 * spread, floor),
                color=colour, alpha=0.2, linewidth=0,
            )  # fmt: skip
            ax.plot(grid, np.maximum(mean, floor), color=colour, label=title)
        highest = max(float(rows.mean(axis=0).max()) for _, _, rows in densities)
        ax.set_yscale("log")
        ax.set_ylim(1e-6 * highest, 2 * highest)
        ax.set_xlabel("Hessian eigenvalue (loss / weight²)")
        ax.set_ylabel("density")
        ax.legend(fontsize=7)
    return figure


def draw_diagrams(panels: Sequence[tuple[str, Sequence[Diagram]]]) -> Figure:
    """Draw the sublevel diagrams of surfaces, dots for H0 and triangles for H1, over one pair of axes."""
    columns = max(1, min(4, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    with house():
        figure, axes = new_figure(2.2 * rows + 0.4, rows=rows, columns=columns, sharex=True, sharey=True)
        for ax in axes.ravel()[len(panels) :]:
            ax.set_axis_off()
        if not panels:
            say_empty(axes[0, 0], "no surface was sampled")
            return figure
        births = np.concatenate([d.birth for _, found in panels for d in found])
        deaths = np.concatenate([d.death[np.isfinite(d.death)] for _, found in panels for d in found])
        ends = np.array([min(births), max(np.concatenate([births, deaths]))])
        top = ends[1] + 0.08 * max(float(np.ptp(ends)), 1e-6)
        for ax, (title, found) in zip(axes.ravel(), panels, strict=False):
            ax.plot(ends, ends, color=NULL, linewidth=0.7)
            for diagram, marker in zip(found, ("o", "^", "s"), strict=False):
                death = np.where(np.isfinite(diagram.death), diagram.death, top)
                ax.plot(diagram.birth, death, marker, markersize=4, label=f"H{diagram.dim}")
            ax.set_title(title, fontsize=8.0)
        axes[0, 0].legend(fontsize=7)
        for ax in axes.ravel()[max(0, len(panels) - columns) : len(panels)]:  # the lowest of each column
            ax.set_xlabel("birth")
            ax.xaxis.set_tick_params(labelbottom=True)
        for row in axes:
            row[0].set_ylabel("death (never: top)")
    return figure
