"""Curvature and surfaces over training: lines beside their nulls."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_null, draw_sizes
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import house, new_figure, say_empty
from toposcope.core.lines import select
from toposcope.core.types import Scope
from toposcope.page.notes import beside_null, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.study import Study
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


def draw(features: pd.DataFrame, runs: pd.DataFrame, catalogue: pd.DataFrame) -> Figure:
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


def _caption(study: Study) -> Caption:
    beside = beside_null(study)
    return Caption(
        "The loss surface over training",
        "The panels show the critical sharpness, the top eigenvalue and the trace of the Hessian, and the "
        "minima, the average persistence and the reach of the sampled surfaces. Coloured bands are 95% "
        "intervals over batches and direction seeds. Grey bands are nulls. The null of the sharpness and the "
        "eigenvalue is random directions. The null of minima and persistence is the quadratic model.",
        "Which numbers move and when, and whether they leave the band of their null."
        + (f" At the last checkpoint {beside}." if beside else ""),
        "Whether they move with the loss for any reason but time. The critical sharpness is in units of the "
        "update between two checkpoints, so checkpoints at uneven steps shift it. And "
        + of_seeds(study)
        + ".",
        "Six panels against the log step, a line for each model size with its interval.",
    )


ON_PAGE = OnPage(
    "landscape_training",
    questions={"changed": 3},
    draw=lambda study: draw(study.features, study.runs, study.series.catalogue),
    caption=_caption,
    means=True,
)
