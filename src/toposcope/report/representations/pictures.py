"""The figures on representations, drawn from a study: the embedding report's seven, and those it lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from toposcope.analysis.catalogue import nulls_by_feature
from toposcope.analysis.findings.rivals import strengths
from toposcope.analysis.forms import number
from toposcope.analysis.hidden import PROBE, QUALITY, pairs, perplexities
from toposcope.analysis.study import Study
from toposcope.analysis.verdicts import judged
from toposcope.figures import (
    across_layers,
    against_target,
    cloud_null,
    correlations,
    crocker,
    dimensions,
    heads,
    layer_map,
    probing,
    strength,
    trajectories,
)
from toposcope.probes.representations import features as of

MAPS = (
    (of.H1_SCALED.name, "H1 total / median distance"),
    (of.RANK.name, "effective rank"),
)


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw every figure that the store has the numbers for, in reading order."""
    features, runs = study.features, study.runs
    if study.has(of.PERPLEXITY.name):
        yield "representations", trajectories.draw(features, runs, trajectories.SUMMARY)
    yield (
        "topology_of_representations",
        trajectories.draw(features, runs, _present(study, trajectories.TOPOLOGY)),
    )
    nulls = nulls_by_feature(study.series.catalogue, PROBE)
    if any(panel.feature in nulls for panel in cloud_null.PANELS):
        yield "gaussian_null", cloud_null.draw(features, runs, nulls)
    yield (
        "spectrum_of_representations",
        trajectories.draw(features, runs, _present(study, trajectories.SPECTRUM)),
    )
    if study.has(of.PERPLEXITY.name):
        yield "perplexity", trajectories.draw(features, runs, trajectories.QUALITY)
    if study.target:
        yield "topology_against_target", _against(study)
        yield (
            "topological_against_spectral",
            strength.draw(
                judged(study), runs, study.series.catalogue, target=study.target, chance=study.chance, most=24
            ),
        )
        yield (
            "representation_correlations",
            correlations.draw(judged(study), runs, study.series.catalogue, target=study.target, most=24),
        )
    if study.has(of.H1_MOVED.name):
        yield "rate_of_change", trajectories.draw(features, runs, _present(study, trajectories.CHANGE))
    if len(study.diagrams):
        yield "crocker", crocker.draw(study.diagrams, runs)
    yield from _by_layer(study)
    if study.has(of.TWONN.name):
        yield "dimension", dimensions.draw(features, runs)


def _by_layer(study: Study) -> Iterator[tuple[str, Figure]]:
    features, runs = study.features, study.runs
    hidden = features[(features["probe"] == PROBE) & (features["scope"] == "layer")]
    if hidden["layer"].nunique() > 1:
        for feature, title in MAPS:
            if study.has(feature):
                yield f"layer_map_{feature}", layer_map.draw(features, runs, feature, title=title)
    if len(pairs(features)):
        yield "across_layers", across_layers.draw(features, runs)
    if study.has(of.ATTENTION_H0.name):
        yield "attention", heads.draw(features, runs)
    if study.has(of.ACCURACY.name):
        yield "linear_probe", probing.draw(features, runs)


def _present(
    study: Study, panels: tuple[trajectories.TrajectoryPanel, ...]
) -> tuple[trajectories.TrajectoryPanel, ...]:
    """Return the panels that have something to show; all of them when none has."""
    return tuple(panel for panel in panels if study.has(panel.feature)) or panels


def _against(study: Study) -> Figure:
    quality = study.target == QUALITY
    targets = perplexities(study.features) if quality else _target_values(study)
    unit = of.PERPLEXITY.label if quality else study.labels.label(study.target)
    panels = _present(study, against_target.PANELS)
    return against_target.draw(
        study.features, targets, study.runs, panels, unit=unit, log=quality, notes=rho_notes(study)
    )


def _target_values(study: Study) -> pd.DataFrame:
    known = study.series.values[["run", "step", study.target]].dropna()
    return known.rename(columns={study.target: "value"})


def rho_notes(study: Study) -> dict[str, str]:
    """Return, by feature, its mean |rho| with the target over the models."""
    notes = {}
    for line in strengths(study).to_dict("records"):
        notes[str(line["column"]).rpartition("/")[2]] = f"mean |ρ| {number(line['raw'], '{:.2f}')}"
    return notes
