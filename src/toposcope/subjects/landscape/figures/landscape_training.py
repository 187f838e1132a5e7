"""Curvature and surfaces over training, beside their nulls."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toposcope.core.drawing.lines import draw_nulls, draw_sizes
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import house, new_figure, say_empty
from toposcope.core.forms import listed
from toposcope.core.types import Feature, Scope
from toposcope.page.notes import beside_null, moved, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.catalogue import column_of, nulls_by_feature
from toposcope.study.rows import null_band, select
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

_NULLS = {
    of.SHARPNESS: "The null of the sharpness is random directions.",
    of.CURVATURE: "The null of the eigenvalue is random directions.",
    of.SURFACE: "The null of minima and persistence is the quadratic model.",
}
"""What the grey bands in a probe's panels mean."""


def measured(features: pd.DataFrame) -> tuple[tuple[str, str, Feature, str, bool], ...]:
    """Return the panels of what was measured."""
    return tuple(
        panel for panel in PANELS if len(select(features, panel[2].name, probe=panel[1], scope=Scope.MODEL))
    )


def draw(features: pd.DataFrame, runs: pd.DataFrame, catalogue: pd.DataFrame) -> Figure:
    """Draw a panel for each measured quantity against the log step, with one line per size.

    Grey bands are nulls.

    Parameters
    ----------
    features
        The store's features table; rows of the probes sharpness, curvature and surface.
    runs
        Columns run, family, parameters.
    catalogue
        Declarations of the features, as `SeriesTable.catalogue`; they say which feature is another's null.

    Returns
    -------
    Figure
        Coloured bands are 95% intervals over batches and direction seeds. Grey bands are 95% prediction
        intervals for one more value of the null.
    """
    groups = sizes(runs)
    with house():
        panels = measured(features)
        lines = max(1, -(-len(panels) // 3))
        figure, axes = new_figure(2.8 * lines, rows=lines, columns=max(1, -(-len(panels) // lines)))
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        if not panels:
            say_empty(axes[0, 0], "neither curvature nor a surface was measured")
        for ax, (title, probe, feature, unit, log) in zip(axes.flat, panels, strict=False):
            rows = select(features, feature.name, probe=probe, scope=Scope.MODEL)
            ax.set_title(title)
            null = nulls_by_feature(catalogue, probe).get(feature.name)
            positive = bool((rows["value"] > 0).all())
            if null is not None:
                nulls = select(features, null, probe=probe, scope=Scope.MODEL)
                bands = (null_band(nulls, group.runs) for group in groups)
                draw_nulls(ax, bands, positive=log and positive)
            # counts, depths and lengths: only an interval could lie below 0
            bottom = 0.0 if probe == of.SURFACE else None
            draw_sizes(ax, over_draws(rows), groups, unit=unit, log=log and positive, bottom=bottom)
            if unit == "count":
                ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _caption(study: Study) -> Caption:
    beside = beside_null(study)
    panels = measured(study.features)
    probes = dict.fromkeys(probe for _, probe, *_ in panels)
    uneven = (
        " The critical sharpness is in units of the update between two checkpoints, so checkpoints at uneven "
        "steps shift it."
    )
    return Caption(
        moved(
            study,
            [column_of(study.series.catalogue, probe, feature.name) for _, probe, feature, *_ in panels],
            "The loss surface over training",
        ),
        f"The panels show the {listed([title for title, *_ in panels])}. Coloured bands are 95% intervals "
        f"over batches and direction seeds. Grey bands are nulls. "
        + " ".join(_NULLS[probe] for probe in probes),
        "Which numbers move and when, and whether they leave the band of their null."
        + (f" At the last checkpoint {beside}." if beside else ""),
        "Whether they move with the loss for a reason other than time."
        + (uneven if of.SHARPNESS in probes else "")
        + f" And {of_seeds(study)}.",
        "A panel for each quantity against the log step, with a line for each model size and its interval.",
    )


ON_PAGE = OnPage(
    "landscape_training",
    questions={"changed": 3},
    needs=lambda study: bool(measured(study.features)),
    draw=lambda study: draw(study.features, study.runs, study.series.catalogue),
    caption=_caption,
    means=True,
)
