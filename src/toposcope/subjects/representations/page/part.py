"""The part of the page that is about representations: its figures and its tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from toposcope.core.tabular import Table
from toposcope.page.figures import correlations, losses, scaling, strength
from toposcope.page.tables import correlation_table, families_table, replicates_table
from toposcope.study.study import Study
from toposcope.subjects.gradients.figures import gradients
from toposcope.subjects.representations.figures import (
    across_layers,
    against_target,
    bars_of_texts,
    cloud_null,
    cloud_snapshot,
    crocker,
    dimensions,
    heads,
    layer_map,
    perplexity,
    probing,
    rate_of_change,
    spectrum,
    topology,
)
from toposcope.subjects.representations.page.layers import (
    attention_table,
    dimensions_table,
    layers_table,
    probing_table,
    sensitivity_table,
)
from toposcope.subjects.representations.page.tables import (
    against_table,
    last_table,
    phases_table,
    trajectory_table,
)

_FOLDED = (
    topology.ON_PAGE,
    spectrum.ON_PAGE,
    against_target.ON_PAGE,
    strength.ON_PAGE,
    replace(
        correlations.ON_PAGE,
        name="representation_correlations",
        questions={"rivals": 2, "beyond": 2},
        needs=lambda study: study.has_curves and correlations.ON_PAGE.needs(study),
        draw=partial(correlations.of_study, most=24),
    ),
    rate_of_change.ON_PAGE,
    crocker.ON_PAGE,
    layer_map.H1_MAP,
    layer_map.RANK_MAP,
    across_layers.ON_PAGE,
    heads.ON_PAGE,
    probing.ON_PAGE,
    gradients.ON_PAGE,
    dimensions.ON_PAGE,
    scaling.ON_PAGE.named("representation_scaling"),
    bars_of_texts.ON_PAGE,
)
FIGURES = (
    replace(perplexity.ON_PAGE, leads=True),
    losses.ON_PAGE,
    cloud_snapshot.ON_PAGE,
    topology.ALONE,
    cloud_null.ON_PAGE,
    scaling.LAW,
    *(replace(figure, folded=True) for figure in _FOLDED),
)
"""In reading order."""


def tables(study: Study) -> list[Table]:
    """Return the tables on representations, in reading order, empty ones included.

    Those of curves are left out if no run has two checkpoints.
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
