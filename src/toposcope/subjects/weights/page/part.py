"""The parts of the page that are about weights and about gradients, and a plain one for tables."""

from __future__ import annotations

from collections.abc import Iterator

from toposcope.core.tabular import Table
from toposcope.page.parts import PagePart, part_of
from toposcope.page.tables import correlation_table, families_table, forecasts_table, replicates_table
from toposcope.study.study import Study
from toposcope.subjects.weights.page.captions import captions, gradient_captions, table_captions
from toposcope.subjects.weights.page.pictures import figures, gradient_figures, table_figures
from toposcope.subjects.weights.page.tables import phases_table, runs_table, scaling_table, segments_table


def weights_part(study: Study, *, logs: bool = True) -> PagePart:
    """Word, tabulate and draw a study of weights."""
    return part_of(study, figures, captions, _weight_tables, logs=logs)


def _weight_tables(study: Study) -> Iterator[Table]:
    curves = study.has_curves
    yield families_table(study)
    yield runs_table(study)
    if curves:
        yield from (correlation_table(study, name, "trends") for name in (study.target, *study.further))
    yield replicates_table(study)
    if curves:
        yield phases_table(study)
        yield segments_table(study)
    if study.has_sizes:
        yield scaling_table(study)
    if study.forecasts["error"].notna().any():
        yield forecasts_table(study)


def gradients_part(study: Study, *, logs: bool = True) -> PagePart:
    """Word, tabulate and draw a study of gradients."""
    return part_of(study, gradient_figures, gradient_captions, _gradient_tables, logs=logs)


def _gradient_tables(study: Study) -> Iterator[Table]:
    yield families_table(study)
    if study.has_curves:
        yield correlation_table(study, study.target, "gradient_trends")
    yield replicates_table(study)


def table_part(study: Study, *, logs: bool = True) -> PagePart:
    """Word, tabulate and draw the features of a table made elsewhere."""
    return part_of(study, table_figures, table_captions, _tables_of_table, logs=logs)


def _tables_of_table(study: Study) -> Iterator[Table]:
    yield families_table(study)
    yield correlation_table(study, study.target, "table_trends")
    yield replicates_table(study)
    yield scaling_table(study)
    yield forecasts_table(study)
