"""The leading features of probes from other packages: a curve for each, with its null."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_nulls, draw_sizes
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import house, new_panels
from toposcope.core.forms import listed
from toposcope.core.types import Use
from toposcope.page.notes import moved
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.rows import null_band, of_column
from toposcope.study.study import Study


def draw(
    features: pd.DataFrame, runs: pd.DataFrame, columns: Sequence[str], catalogue: pd.DataFrame
) -> Figure:
    """Draw a panel for each column against the step, one line a size; grey bands are nulls.

    Parameters
    ----------
    features
        The store's features table.
    runs
        Columns run, family, parameters.
    columns
        What to draw, in reading order: at least one.
    catalogue
        What the columns are: `SeriesTable.catalogue`. Labels, units and nulls are read from it.

    Returns
    -------
    Figure
        Lines are means over the draws, bands their 95% interval; with seeds, over the seeds. Grey: where one
        more value of the null would fall with 95% probability.
    """
    lines = {str(line["column"]): line for line in catalogue.to_dict("records")}
    nulls = {str(line["null_of"]): line for line in lines.values()}
    groups = sizes(runs)
    with house():
        figure, axes = new_panels(len(columns), each=2.5, more=0.4)
        for ax, column in zip(axes, columns, strict=False):
            ax.set_title(str(lines[column]["label"]))
            if column in nulls:
                of_null = of_column(features, nulls[column])
                draw_nulls(ax, (null_band(of_null, group.runs) for group in groups))
            values = over_draws(of_column(features, lines[column]))
            draw_sizes(ax, values, groups, unit=str(lines[column]["unit"]))
    return figure


def _drawn(study: Study) -> Figure:
    return draw(study.whole, study.runs, study.brought(Use.CHANGE), study.series.catalogue)


def _caption(study: Study) -> Caption:
    names = [study.labels.label(column) for column in study.brought(Use.CHANGE)]
    return Caption(
        moved(study, study.brought(Use.CHANGE), f"From further probes: {listed(names)}"),
        "The features that probes from outside the package declare as leading. Lines are means, with 95% "
        "intervals over draws, or over seeds where there are several. Grey is the feature's null, where one "
        "was measured.",
        "Which of them move, when, and whether they leave their null.",
        "Whether they move with the loss beyond a shared trend.",
        "A panel for each feature against the optimiser step, one line per model size.",
    )


ON_PAGE = OnPage(
    "leading_{subject}",
    questions={"changed": 2},
    needs=lambda study: study.has_curves and len(study.brought(Use.CHANGE)) > 0,
    draw=_drawn,
    caption=_caption,
    means=True,
)
