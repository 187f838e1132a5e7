"""The plain part of a page: a table made elsewhere, and subjects that draw nothing of their own."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from toposcope.core.tabular import Table
from toposcope.page import losses
from toposcope.page.figures import correlations, forecast
from toposcope.page.notes import correlations_caption, forecast_caption
from toposcope.page.parts import Caption, PagePart, part_of
from toposcope.page.tables import (
    correlation_table,
    families_table,
    forecasts_table,
    replicates_table,
    scaling_table,
)
from toposcope.study.study import Study
from toposcope.study.verdicts import judged
from toposcope.subjects.subject import TABLE, Subject


def part_maker(subject: Subject) -> Callable[..., PagePart]:
    """Return the function that makes a subject's part of the page: its own, else the plain one."""
    made: Callable[..., PagePart] = pkgutil.resolve_name(subject.part) if subject.part else plain_part
    return made


def plain_part(study: Study, *, logs: bool = True) -> PagePart:
    """Word, tabulate and draw a table made elsewhere, or a subject without figures of its own.

    `part_of` adds a curve of every feature that leads the study.
    """
    return part_of(study, _figures, _captions, _tables, logs=logs)


def _figures(study: Study) -> Iterator[tuple[str, Figure]]:
    yield from losses.figures(study)
    if study.target:
        drawn = correlations.draw(judged(study), study.runs, study.series.catalogue, target=study.target)
        yield _named(study, "correlations"), drawn
    if study.forecasts["error"].notna().any():
        yield _named(study, "forecast"), forecast.draw(study.forecasts)


def _captions(study: Study) -> dict[str, Caption]:
    return {
        **losses.captions(study),
        _named(study, "correlations"): correlations_caption(study),
        _named(study, "forecast"): forecast_caption(study),
    }


def _named(study: Study, name: str) -> str:
    """Return the name of a figure or table: it is a file, and no other part of the page has it."""
    return f"{study.subject.name}_{name}"


def _tables(study: Study) -> Iterator[Table]:
    yield families_table(study)
    yield correlation_table(study, study.target, _named(study, "trends"))
    yield replicates_table(study)
    for table in (scaling_table(study), forecasts_table(study)):
        yield table if study.subject is TABLE else replace(table, name=_named(study, table.name))
