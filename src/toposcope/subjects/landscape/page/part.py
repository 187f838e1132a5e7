"""The part of the page that is about the loss surface, from its study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from toposcope.core.forms import number
from toposcope.core.tabular import Table
from toposcope.page.parts import PagePart, part_of
from toposcope.page.tables import correlation_table, families_table, replicates_table
from toposcope.study.findings.surfaces import shares
from toposcope.study.study import Study
from toposcope.subjects.landscape.page.captions import captions
from toposcope.subjects.landscape.page.pictures import figures, shown_surfaces
from toposcope.subjects.landscape.page.view import surface_view


def landscape_part(study: Study, *, logs: bool = True) -> PagePart:
    """Word, tabulate and draw a study of the loss surface."""
    shown = shown_surfaces(study)
    part = part_of(study, partial(figures, shown=shown), partial(captions, shown=shown), _tables, logs=logs)
    return replace(part, view=surface_view(shown))


def _tables(study: Study) -> Iterator[Table]:
    yield families_table(study)
    yield surfaces_table(study)
    yield correlation_table(study, study.target, "landscape_trends")
    yield from (correlation_table(study, name, "landscape_trends") for name in study.further)
    yield replicates_table(study)


def surfaces_table(study: Study) -> Table:
    """Return what the surfaces of every range and resolution hold."""
    table = shares(study.features)
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
        "surfaces",
        "Surfaces by range and resolution",
        "Trivial surfaces have one minimum. Branches are found on half of the sequences and confirmed where "
        "the other half's 95% interval of loss(saddle) - loss(minimum) lies above 0. Saddles are minima - 1.",
        ("range and resolution", "surfaces", "trivial", "by run", "minima, mean", "most", "branches",
         "confirmed", "masked"),
        rows,
        frame=table,
    )  # fmt: skip
