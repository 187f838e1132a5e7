"""The part of the page that is about weights: its figures and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toposcope.core.tabular import Table
from toposcope.page.figures import bars, correlations, forecast, losses, scaling
from toposcope.page.tables import (
    correlation_table,
    families_table,
    forecasts_table,
    replicates_table,
    scaling_table,
)
from toposcope.study.study import Study
from toposcope.subjects.gradients.figures import gradients
from toposcope.subjects.weights.figures import (
    layers,
    loss_against_h0,
    neural_persistence,
    snapshot,
    vietoris_rips,
)
from toposcope.subjects.weights.page.tables import equivalents_table, runs_table, segments_table

FIGURES = (
    losses.ON_PAGE.named("loss"),
    snapshot.ON_PAGE,
    vietoris_rips.COMPONENTS,
    neural_persistence.ON_PAGE,
    forecast.ON_PAGE,
    scaling.LAW,
    vietoris_rips.ON_PAGE,
    loss_against_h0.ON_PAGE,
    replace(correlations.ON_PAGE, needs=lambda study: study.has_curves and correlations.ON_PAGE.needs(study)),
    gradients.ON_PAGE,
    scaling.ON_PAGE,
    layers.ON_PAGE,
    bars.ON_PAGE,
)
"""In reading order."""


def tables(study: Study) -> Iterator[Table]:
    """Return the tables on this part, in reading order, empty ones included."""
    curves = study.has_curves
    yield families_table(study)
    yield equivalents_table(study)
    yield runs_table(study)
    if curves:
        yield from (correlation_table(study, name, "trends") for name in (study.target, *study.further))
    yield replicates_table(study)
    if curves:
        yield segments_table(study)
    if study.has_sizes:
        yield scaling_table(study)
    if study.forecasts["error"].notna().any():
        yield forecasts_table(study)
