"""What each figure shows, and what can and what cannot be concluded from it, for the data at hand."""

from __future__ import annotations

from toposcope.core.forms import capital, listed
from toposcope.core.types import Normalization, Scope
from toposcope.page import losses
from toposcope.page.notes import (
    alarmed,
    barcode_caption,
    beside_null,
    correlations_caption,
    forecast_caption,
    marked,
    of_draws,
    of_seeds,
    scaling_caption,
)
from toposcope.page.parts import Caption
from toposcope.study.study import Study
from toposcope.subjects.gradients.figures import gradients
from toposcope.subjects.weights.features import GRADIENT, NEURAL_PERSISTENCE, PERSISTENCE, RIPS
from toposcope.subjects.weights.figures import vietoris_rips
from toposcope.subjects.weights.page.pictures import shown_together


def captions(study: Study) -> dict[str, Caption]:
    """Return the caption of every figure by its name."""
    return {
        **({"overview": _overview(study, shown)} if (shown := shown_together(study)) else {}),
        **losses.captions(study),
        **gradients_caption(study),
        NEURAL_PERSISTENCE: _neural_persistence(study),
        "vietoris_rips": _vietoris_rips(study),
        "loss_against_h0": _loss_against_h0(),
        "correlations": correlations_caption(study),
        "forecast": forecast_caption(study),
        "scaling": scaling_caption(study),
        "layers": _layers(study),
        "barcode": barcode_caption(study, "weight cloud", "weight rows"),
        "snapshot": _snapshot(),
    }


def _snapshot(of: str = "weights") -> Caption:
    return Caption(
        "Neural persistence of every matrix at this checkpoint",
        "Each matrix's neural persistence beside the same entries in random order (grey: lowest to highest "
        "of the draws).",
        f"Which matrices' {of} are not arranged at random.",
        "Anything about training: there is one checkpoint, and no curve.",
        f"A dot for each matrix, beside a grey bar for its shuffled {of}.",
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


def _neural_persistence(study: Study, probe: str = NEURAL_PERSISTENCE, of: str = "weights") -> Caption:
    convention = {
        Normalization.MATRIX: "each matrix divided by its own largest entry, p = 1",
        Normalization.NETWORK: "entries divided by the largest of the network, p = 2",
    }[Normalization(study.filtration)]
    known = study.findings["changed"].numbers
    few = (
        f"with {known['null_draws']} shuffled {of}, where a band takes {known['least_draws']}"
        if known["null_draws"]
        else f"without shuffled {of}"
    )
    null = f"Only that it changes: {few}, how much of it comes only from the sizes of {of} is unknown."
    found = beside_null(study)
    if found:
        null = (
            f"At the last checkpoint {found}. Outside the band, the arrangement of the {of} matters and "
            "not only how large they are."
        )
    return Caption(
        f"Neural persistence beside shuffled {of}",
        f"Mean over the matrices of each model ({convention}). Grey: the same entries in random order, mean "
        f"and 95% prediction band.{marked(study, probe, [PERSISTENCE.name])}{alarmed(study)}",
        null,
        "That neural persistence causes or predicts the loss; and a part of it that moves together with "
        "the grey line is the "
        f"distribution of the sizes of {of}, not structure. Also, " + of_seeds(study) + ".",
        f"One panel per model size: neural persistence against the step, with a grey band for shuffled {of}.",
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
        + marked(study, RIPS, [one.name for one in vietoris_rips.FEATURES])
        + alarmed(study),
        "How spread out the rows of the weight matrices are, and, from the lower panels, how much of "
        "that remains when the overall scale of the weights is removed.",
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


def _layers(study: Study) -> Caption:
    return Caption(
        "Neural persistence layer by layer",
        "Every weight matrix on its own, by role (rows) and model size (columns), coloured by depth. "
        "Dotted: mean of the shuffled weights of that role.",
        "Which matrices move early, and which depart from their shuffled counterparts.",
        "That a layer matters for the loss. Matrices are of different shapes, and neural persistence "
        "depends on shape. A layer's "
        "place among a few layers is not a trend. Also, " + of_seeds(study) + ".",
        "Grid of line charts: neural persistence of each matrix against the step, a row for each role "
        "and a column for each size.",
    )


def gradient_captions(study: Study) -> dict[str, Caption]:
    """Return the captions of the figures on gradients."""
    return {
        **gradients_caption(study),
        **losses.captions(study),
        "gradient_snapshot": _snapshot("gradients"),
        "gradient_persistence": _neural_persistence(study, GRADIENT + NEURAL_PERSISTENCE, "gradients"),
        "gradient_correlations": correlations_caption(study),
        "gradient_scaling": scaling_caption(study),
    }


def gradients_caption(study: Study) -> dict[str, Caption]:
    """Return the words under the curves of gradients; none where no gradient was measured."""
    shown = gradients.measured(study.features)
    if not shown:
        return {}
    said = listed([panel.said for panel in shown])
    marks = next(filter(None, (marked(study, panel.probe, [panel.feature.name]) for panel in shown)), "")
    caption = Caption(
        "Gradients",
        f"{capital(said)}. Bands are 95% intervals of the mean over random subsamples.{marks}",
        "How the gradient's size and shape move during training.",
        "H0 grows and shrinks with the norm: only the panels without scale are about shape. A gradient "
        "of one batch carries that batch's noise.",
        f"Against the optimiser step: {said}.",
    )
    return {"gradients": caption}
