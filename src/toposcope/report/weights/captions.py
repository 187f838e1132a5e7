"""What each figure shows, and what can and what cannot be concluded from it, for the data at hand."""

from __future__ import annotations

import numpy as np

from toposcope.analysis.findings import words
from toposcope.analysis.findings.end import forecasts_of
from toposcope.analysis.forms import capital, listed
from toposcope.analysis.study import Study
from toposcope.figures.marks import bends_of
from toposcope.probes.weights.features import (
    H0_SCALED,
    H0_TOTAL,
    H1_SCALED,
    H1_TOTAL,
    NEURAL_PERSISTENCE,
    PERSISTENCE,
    RIPS,
)
from toposcope.report.notes import beside_null, correlations_caption, of_draws, of_seeds
from toposcope.report.parts import Caption
from toposcope.report.weights.pictures import ill_logs, shown_together
from toposcope.types import Feature, Normalization, Scope


def captions(study: Study) -> dict[str, Caption]:
    """Return the caption of every figure by its name."""
    return {
        **({"overview": _overview(study, shown)} if (shown := shown_together(study)) else {}),
        "loss": _loss(study),
        NEURAL_PERSISTENCE: _neural_persistence(study),
        "vietoris_rips": _vietoris_rips(study),
        "loss_against_h0": _loss_against_h0(),
        "correlations": correlations_caption(study),
        "forecast": _forecast(study),
        "scaling": _scaling(study),
        "layers": _layers(study),
        "barcode": _barcode(),
        "snapshot": _snapshot(),
    }


def _marked(study: Study, probe: str, *features: Feature) -> str:
    """Return what a caption says on the changepoints that its curves carry."""
    names = [study.column(probe, feature) for feature in features]
    if not sum(len(bends_of(study.bends, name)) for name in names):
        return ""
    return (
        " A triangle marks a changepoint, where the slope on log step leaves every smooth trend; the line "
        "through it is its 95% interval."
    )


def _alarmed(study: Study) -> str:
    """Return what a caption says on the alarms that its curves carry."""
    return " Dashed lines: where toposcope watch raised an alarm, and by which test." if study.alarms else ""


def _snapshot() -> Caption:
    return Caption(
        "Neural persistence of every matrix at this checkpoint",
        "Each matrix's neural persistence beside the same entries in random order (grey: lowest to highest "
        "of the draws).",
        "Which matrices' weights are arranged otherwise than at random.",
        "Anything about training: there is one checkpoint, and no curve.",
        "A dot for each matrix, beside a grey bar for its shuffled weights.",
    )


def _runs(study: Study) -> str:
    return "one run" if len(study.runs) == 1 else f"{len(study.runs)} runs"


def _overview(study: Study, shown: list[str]) -> Caption:
    return Caption(
        "The study on one page",
        f"{capital(listed(shown))} for {_runs(study)}.",
        "Which quantities move during training"
        + (", and in which order the sizes end." if study.has_sizes else "."),
        "Whether they move together for any reason but time"
        + (": see the correlations below for that" if study.target else "")
        + ". Also, "
        + of_seeds(study)
        + ".",
        f"Panels of {listed(shown)}.",
    )


def _loss(study: Study) -> Caption:
    held = study.metrics["heldout_loss"].notna().any() if len(study.metrics) else False
    can = "How fast and how far each run learned, up to the noise of a minibatch."
    cannot = (
        "Generalisation: no held-out loss was recorded, and the training loss is measured on what is "
        "learned from."
    )
    if held:
        can = "How fast and how far each run learned, and how far training and held-out loss are apart."
        cannot = "How the runs would go on: the learning-rate schedule has shaped the end of every curve."
    return Caption(
        "Loss",
        "Training loss of every step, averaged within log-spaced bins with their 5% to 95% range"
        + (", and the loss on fixed held-out batches at each checkpoint." if held else ".")
        + (" Dashed lines: where a log falls ill, and how." if ill_logs(study) else "")
        + _alarmed(study),
        can,
        cannot + " Also, " + of_seeds(study) + ".",
        "Loss, in the unit it was logged in, against the optimiser step on a log axis, for "
        f"{len(study.sizes)} model sizes.",
    )


def _neural_persistence(study: Study) -> Caption:
    convention = {
        Normalization.MATRIX: "each matrix divided by its own largest weight, p = 1",
        Normalization.NETWORK: "weights divided by the largest of the network, p = 2",
    }[Normalization(study.filtration)]
    known = study.findings["changed"].numbers
    few = (
        f"with {known['null_draws']} shuffled weights, where a band takes {known['least_draws']}"
        if known["null_draws"]
        else "without shuffled weights"
    )
    null = f"Only that it changes: {few}, how much of it is mere weight sizes is unknown."
    found = beside_null(study)
    if found:
        null = (
            f"At the last checkpoint {found}. Outside the band, the arrangement of the weights matters and "
            "not only how large they are."
        )
    return Caption(
        "Neural persistence beside shuffled weights",
        f"Mean over the matrices of each model ({convention}). Grey: the same entries in random order, mean "
        f"and 95% prediction band.{_marked(study, NEURAL_PERSISTENCE, PERSISTENCE)}{_alarmed(study)}",
        null,
        "That neural persistence causes or predicts the loss; and a part of it that moves together with "
        "the grey line is the "
        "distribution of weight sizes, not structure. Also, " + of_seeds(study) + ".",
        "One panel per model size: neural persistence against the step, with a grey band for shuffled "
        "weights.",
    )


def _vietoris_rips(study: Study) -> Caption:
    cloud = (
        "the rows of all matrices in one cloud"
        if study.cloud == Scope.POOLED
        else "the sum over the clouds of all matrices"
    )
    return Caption(
        "H0 and H1 of the weight cloud",
        f"Total persistence of connected components (H0) and loops (H1) of {cloud}; below, the same with "
        f"distances divided by their median. Lines are means; {of_draws(study, 'cloud')}."
        + _marked(study, RIPS, H0_TOTAL, H1_TOTAL, H0_SCALED, H1_SCALED)
        + _alarmed(study),
        "How spread out the rows of the weight matrices are, and, from the lower panels, what is left of "
        "it when the overall scale of the weights is taken out.",
        "Any growth that is absent from the lower panels is growth of the weights, not of their shape. "
        + (
            "Sizes have clouds of different numbers of points and dimensions, so levels are not comparable "
            "between them. "
            if study.has_sizes
            else ""
        )
        + "And "
        + of_seeds(study)
        + ".",
        "H0 and H1 total persistence against the step on a log axis, one line per model size, raw above "
        "and scale-free below.",
    )


def _barcode() -> Caption:
    return Caption(
        "Bars of the weight cloud: diagram and barcode",
        "Every component (H0) and loop (H1) of one subsample of one run's weight rows: where it appears and "
        "where it ends, at the last checkpoint and at the first. Far from the diagonal, or long: it lasts.",
        "At which distances the rows join, and whether any loop lasts much longer than the others.",
        "That a long bar is structure: a cloud without any has some as well. And it is one subsample of one "
        "run.",
        "Persistence diagrams, death against birth, beside barcodes with a line for each bar.",
    )


def _loss_against_h0() -> Caption:
    return Caption(
        "Loss against H0 total persistence",
        "Each point is a checkpoint, its colour the step. The points follow one another in time, which "
        "is why they form a curve.",
        "That both quantities move in step order, and where one moves while the other stands still.",
        "A relation between them: any two curves that drift look like this. The numbers in the "
        "panels give Spearman's rho of the values and of their departures from smooth trends, where they "
        "could be computed.",
        "Loss against H0 total persistence, one panel per model size, points coloured by the optimiser step.",
    )


def _scaling(study: Study) -> Caption:
    found = study.findings.get("scale")
    n = found.numbers["sizes"] if found else 0
    apart = found is not None and found.strength == "apart"
    can = words.said(study.findings, found).act if found else "Nothing: no size is known."
    law = "" if apart else ", with the fitted power law and its 95% confidence band"
    limit = f"The law beyond the sizes shown: {n} sizes carry it, width and depth change together"
    if apart:
        limit = "How one family scales: width and depth change together"
    return Caption(
        "Scaling with model size",
        f"Quantities at the last checkpoint against the number of parameters, on log-log axes{law}; bars are "
        "intervals over random subsamples.",
        can,
        f"{limit}, and clouds of larger models have more dimensions, which alone changes H0. Also, "
        + of_seeds(study)
        + ".",
        "Final loss and final topological features against the number of parameters on log-log axes with "
        "fitted lines.",
    )


def _layers(study: Study) -> Caption:
    return Caption(
        "Neural persistence layer by layer",
        "Every weight matrix on its own, by role (rows) and model size (columns), coloured by depth. "
        "Dotted: mean of the shuffled weights of that role.",
        "Which matrices move early, and which depart from their shuffled counterparts.",
        "That a layer matters for the loss. Matrices are of different shapes, and neural persistence "
        "depends on shape. A layer's "
        "place in a line of few layers is no trend. Also, " + of_seeds(study) + ".",
        "Grid of line charts: neural persistence of each matrix against the step, a row for each role "
        "and a column for each size.",
    )


def _forecast(study: Study) -> Caption:
    found = forecasts_of(study)
    can = "Nothing: no forecast could be made."
    limit = ""
    if found is not None:
        seen = " / ".join(f"{100 * cut:.0f}%" for cut in found.cuts)
        best = [
            min((m for m in found.mae if np.isfinite(found.mae[m][i])), key=lambda m, i=i: found.mae[m][i])  # type: ignore[misc]
            for i in range(len(found.cuts))
        ]
        can = f"For these {found.runs} runs the smallest mean error at {seen} had " + (
            " / ".join(best) + ". "
        )
        can += (
            "Topology lowers the error of sibling transfer beyond chance in places: see the text."
            if found.clear
            else "Topology beside the loss lowers the error of sibling transfer nowhere beyond chance."
        )
        least = 2.0 ** (1 - found.runs)
        limit = f" With {found.runs} runs, a paired rank test cannot give a p below {least:.3g}."
    return Caption(
        "Error of forecasts of the final loss",
        "Absolute error of every run (dots) and its mean (diamonds), by method and by the part of the run "
        "that was seen; each run is forecast from the others. Published rules are "
        f"{study.published.source or 'a paper'}'s; the dashed line is its combined rule with the last loss "
        "in place of the topology.",
        can,
        "How well any of these does elsewhere: which of many comes out best is itself a matter of chance, "
        f"and the published rules' constants were chosen by their authors on runs of this kind.{limit}",
        "Dot plot of forecast errors by method, one panel per part of the run that was seen, with the "
        "control without topology as a dashed line.",
    )


def gradient_captions(study: Study) -> dict[str, Caption]:
    """Return the captions of the figures on gradients."""
    return {
        "gradients": Caption(
            "Gradients",
            "The norm of the gradient on a fixed batch, the cloud of its matrices' rows, and the neural "
            "persistence of its matrices. Bands are 95% intervals of the mean over random subsamples.",
            "How the gradient's size and shape move during training.",
            "H0 grows and shrinks with the norm: only the panels without scale are about shape. A gradient "
            "of one batch carries that batch's noise.",
            "Four panels against the optimiser step: gradient norm, H0, scaled H1 and neural persistence.",
        ),
        "gradient_correlations": correlations_caption(study),
    }


def table_captions(study: Study) -> dict[str, Caption]:
    """Return the captions of the figures on a table made elsewhere."""
    return {"table_correlations": correlations_caption(study), "table_forecast": _forecast(study)}
