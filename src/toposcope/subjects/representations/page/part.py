"""The part of the page that is about representations, from its study."""

from __future__ import annotations

from toposcope.core.tabular import Table
from toposcope.page.parts import PagePart, part_of
from toposcope.page.tables import correlation_table, families_table, replicates_table
from toposcope.study.study import Study
from toposcope.subjects.representations.page.captions import captions
from toposcope.subjects.representations.page.layers import (
    attention_table,
    dimensions_table,
    layers_table,
    probing_table,
    sensitivity_table,
)
from toposcope.subjects.representations.page.pictures import figures
from toposcope.subjects.representations.page.tables import (
    against_table,
    last_table,
    phases_table,
    trajectory_table,
)


def tables(study: Study) -> list[Table]:
    """Return the tables on representations, in reading order, empty ones included.

    Those of curves are left out where no run has two checkpoints.
    """
    curves = study.has_curves
    of_curves = (phases_table(study), trajectory_table(study)) if curves else ()
    trends = (study.target, *study.further) if curves else ()
    correlations = [correlation_table(study, name, "representation_trends") for name in trends]
    return [
        families_table(study),
        last_table(study),
        *correlations[:1],
        against_table(study),
        replicates_table(study),
        *of_curves,
        layers_table(study),
        attention_table(study),
        dimensions_table(study),
        probing_table(study),
        sensitivity_table(study),
        *correlations[1:],
    ]


def representations_part(study: Study, *, logs: bool = True) -> PagePart:
    """Word, tabulate and draw a study of representations."""
    return part_of(study, figures, captions, tables, logs=logs)
