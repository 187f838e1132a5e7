"""The part of the page about the loss surface: its figures and its tables."""

from __future__ import annotations

from collections.abc import Iterator

from toposcope.core.forms import number
from toposcope.core.tabular import Table
from toposcope.page.figures import correlations, losses
from toposcope.page.tables import correlation_table, families_table, replicates_table
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures import (
    landscape_training,
    loss_surface,
    merge_trees,
    profiles,
    spectral_density,
    surface_diagrams,
)
from toposcope.subjects.landscape.tables.surfaces import SURFACES

FIGURES = (
    landscape_training.ON_PAGE,
    losses.ON_PAGE,
    loss_surface.ON_PAGE,
    profiles.ON_PAGE,
    merge_trees.ON_PAGE,
    surface_diagrams.ON_PAGE,
    spectral_density.ON_PAGE,
    correlations.ON_PAGE.named("landscape_correlations"),
)
"""In reading order."""


def tables(study: Study) -> Iterator[Table]:
    """Return the tables on this part, in reading order, empty ones included."""
    yield families_table(study)
    yield surfaces_table(study)
    yield correlation_table(study, study.target, "landscape_trends")
    yield from (correlation_table(study, name, "landscape_trends") for name in study.further)
    yield replicates_table(study)


def surfaces_table(study: Study) -> Table:
    """Return a summary of the surfaces for every range and resolution."""
    table = study.own[SURFACES.name]
    rows = tuple(
        (
            str(line["name"]), f"{line['surfaces']}", number(line["trivial"], "{:.0%}"),
            f"{number(line['low'], '{:.0%}')} to {number(line['high'], '{:.0%}')}",
            number(line["minima"], "{:.2f}"), number(line["most"], "{:.0f}"), f"{line['found']}",
            f"{line['confirmed']}", number(line["masked"], "{:.1%}"),
        )
        for line in table.to_dict("records")
    )  # fmt: skip
    return Table(
        SURFACES.name,
        SURFACES.title,
        SURFACES.note,
        ("range and resolution", "surfaces", "trivial", "by run", "minima, mean", "most", "branches",
         "confirmed", "masked"),
        rows,
        frame=table,
    )  # fmt: skip
