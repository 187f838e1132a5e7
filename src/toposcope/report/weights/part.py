"""The parts of the page that are about weights and about gradients, and a plain one for tables."""

from __future__ import annotations

from toposcope.analysis.study import Study
from toposcope.report.parts import PagePart, part_of
from toposcope.report.tables import correlation_table, families_table, forecasts_table, replicates_table
from toposcope.report.weights.captions import captions, gradient_captions, table_captions
from toposcope.report.weights.pictures import (
    figures,
    gradient_figures,
    has_curves,
    table_figures,
)
from toposcope.report.weights.tables import phases_table, runs_table, scaling_table, segments_table


def weights_part(study: Study) -> PagePart:
    """Word, tabulate and draw a study of weights."""
    curves = has_curves(study)
    made = (
        families_table(study),
        runs_table(study),
        *(correlation_table(study, name, "trends") for name in (study.target, *study.further) if curves),
        replicates_table(study),
        *((phases_table(study), segments_table(study)) if curves else ()),
        *((scaling_table(study),) if study.has_sizes else ()),
        *((forecasts_table(study),) if study.forecasts["error"].notna().any() else ()),
    )
    return part_of(study, figures(study), captions(study), made)


def gradients_part(study: Study) -> PagePart:
    """Word, tabulate and draw a study of gradients."""
    made = (
        families_table(study),
        correlation_table(study, study.target, "gradient_trends"),
        replicates_table(study),
    )
    return part_of(study, gradient_figures(study), gradient_captions(study), made)


def table_part(study: Study) -> PagePart:
    """Word, tabulate and draw the features of a table made elsewhere."""
    made = (
        families_table(study),
        correlation_table(study, study.target, "table_trends"),
        replicates_table(study),
        scaling_table(study),
        forecasts_table(study),
    )
    figures_of_table, said = table_figures(study), table_captions(study)
    return part_of(study, figures_of_table, said, made)
