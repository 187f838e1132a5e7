"""The figures on representations, drawn from a study: the embedding report's seven, and those it lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing import barcode
from toposcope.core.forms import number
from toposcope.page import losses
from toposcope.page.figures import correlations, scaling, strength
from toposcope.page.notes import changepoints, drawn_run
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.findings.rivals import strengths
from toposcope.study.representations import PROBE, QUALITY, pairs, perplexities
from toposcope.study.study import Study
from toposcope.study.verdicts import judged
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures import (
    across_layers,
    against_target,
    cloud_null,
    cloud_snapshot,
    crocker,
    dimensions,
    heads,
    layer_map,
    probing,
    trajectories,
)
from toposcope.subjects.weights.page.pictures import gradient_curves

MAPS = (
    (of.H1_SCALED.name, "H1 total / median distance"),
    (of.RANK.name, "effective rank"),
)


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw every figure that the store has the numbers for, in reading order.

    With one checkpoint a run there is no curve: the hidden states of that checkpoint stand in its place.
    """
    yield from _over_time(study) if study.has_curves else _at_one_checkpoint(study)
    if study.has_sizes and len(study.fits):
        finals = study.finals[study.finals["quantity"].isin(study.fits["quantity"])]
        drawn = scaling.draw(finals, study.fits, study.runs, study.series.catalogue)
        yield "representation_scaling", drawn
    if len(study.diagrams):
        yield "barcode_of_texts", barcode.draw(crocker.of_last_layer(study.diagrams), drawn_run(study))


def _at_one_checkpoint(study: Study) -> Iterator[tuple[str, Figure]]:
    yield from losses.figures(study)
    if cloud_snapshot.measured(study.features):
        nulls = nulls_by_feature(study.series.catalogue, PROBE)
        yield "cloud_snapshot", cloud_snapshot.draw(study.features, study.runs, nulls)


def _over_time(study: Study) -> Iterator[tuple[str, Figure]]:
    features, runs = study.features, study.runs
    if study.has(of.PERPLEXITY.name):
        yield from _trajectories(study, "representations", trajectories.SUMMARY)
    yield from losses.figures(study)
    yield from _trajectories(study, "topology_of_representations", trajectories.TOPOLOGY)
    nulls = nulls_by_feature(study.series.catalogue, PROBE)
    if any(panel.feature in nulls for panel in cloud_null.PANELS):
        yield "gaussian_null", cloud_null.draw(features, runs, nulls)
    yield from _trajectories(study, "spectrum_of_representations", trajectories.SPECTRUM)
    yield from _trajectories(study, "perplexity", trajectories.QUALITY)
    if study.target:
        yield from _correlated(study)
    yield from _trajectories(study, "rate_of_change", trajectories.CHANGE)
    if len(study.diagrams):
        yield "crocker", crocker.draw(study.diagrams, runs)
    yield from _by_layer(study)
    yield from gradient_curves(study)
    if study.has(of.TWONN.name):
        yield "dimension", dimensions.draw(features, runs, present(study, trajectories.DIMENSION))


def _trajectories(
    study: Study, name: str, panels: tuple[trajectories.TrajectoryPanel, ...]
) -> Iterator[tuple[str, Figure]]:
    """Draw those of the panels that have something to show, with their changepoints."""
    if shown := present(study, panels):
        bends = changepoints(study, PROBE, [panel.feature for panel in shown])
        yield name, trajectories.draw(study.features, study.runs, shown, bends=bends)


def _correlated(study: Study) -> Iterator[tuple[str, Figure]]:
    found, catalogue = judged(study), study.series.catalogue
    if present(study, against_target.PANELS):
        yield "topology_against_target", _against(study)
    yield (
        "topological_against_spectral",
        strength.draw(found, study.runs, catalogue, target=study.target, chance=study.chance, most=24),
    )
    yield (
        "representation_correlations",
        correlations.draw(found, study.runs, catalogue, target=study.target, most=24),
    )


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


def present(
    study: Study, panels: tuple[trajectories.TrajectoryPanel, ...]
) -> tuple[trajectories.TrajectoryPanel, ...]:
    """Return the panels that have something to show."""
    return tuple(panel for panel in panels if study.has(panel.feature))


def _against(study: Study) -> Figure:
    quality = study.target == QUALITY
    targets = perplexities(study.features) if quality else _target_values(study)
    unit = of.PERPLEXITY.label if quality else study.labels.label(study.target)
    panels = present(study, against_target.PANELS)
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
