"""The part of the page that is about gradients: its figures and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toposcope.core.tabular import Table
from toposcope.page.figures import correlations, losses, scaling
from toposcope.page.tables import correlation_table, families_table, replicates_table
from toposcope.study.study import Study
from toposcope.subjects.gradients.figures import gradient_persistence, gradient_snapshot, gradients

FIGURES = (
    gradients.ON_PAGE,
    losses.ON_PAGE,
    gradient_snapshot.ON_PAGE,
    gradient_persistence.ON_PAGE,
    replace(
        correlations.ON_PAGE,
        name="gradient_correlations",
        needs=lambda study: study.has_curves and correlations.ON_PAGE.needs(study),
    ),
    scaling.LAW,
    replace(
        scaling.ON_PAGE,
        name="gradient_scaling",
        needs=lambda study: study.has_curves and scaling.ON_PAGE.needs(study),
    ),
)
"""In reading order."""


def tables(study: Study) -> Iterator[Table]:
    """Return the tables on this part, in reading order, empty ones included."""
    yield families_table(study)
    if study.has_curves:
        yield correlation_table(study, study.target, "gradient_trends")
    yield replicates_table(study)
