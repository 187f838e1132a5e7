"""What each figure on representations shows, and what can and what cannot be concluded from it."""

from __future__ import annotations

import numpy as np

from toposcope.core.forms import listed
from toposcope.page import losses
from toposcope.page.notes import (
    barcode_caption,
    beside_null,
    correlations_caption,
    marked,
    of_seeds,
    passing,
    scaling_caption,
)
from toposcope.page.parts import Caption
from toposcope.study.findings import words
from toposcope.study.representations import PROBE
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures import trajectories
from toposcope.subjects.representations.page.pictures import present
from toposcope.subjects.weights.page.captions import gradients_caption


def captions(study: Study) -> dict[str, Caption]:
    """Return the caption of every figure by its name."""
    return {
        **losses.captions(study),
        "representations": _summary(study),
        "topology_of_representations": _topology(study),
        "gaussian_null": _null(study),
        "spectrum_of_representations": _spectrum(study),
        "perplexity": _perplexity(study),
        "topology_against_target": _against(study),
        "topological_against_spectral": _strength(study),
        "representation_correlations": correlations_caption(study),
        "rate_of_change": _rate(study),
        "crocker": _crocker(study),
        f"layer_map_{of.H1_SCALED.name}": _map("H1 total persistence over the median distance"),
        f"layer_map_{of.RANK.name}": _map("effective rank"),
        "across_layers": _across(study),
        "attention": _attention(),
        "linear_probe": _probe(),
        "dimension": _dimension(study),
        "cloud_snapshot": _snapshot(study),
        **gradients_caption(study),
        "representation_scaling": scaling_caption(study),
        "barcode_of_texts": barcode_caption(study, "cloud of texts", "texts"),
    }


def _sampled(study: Study) -> str:
    rows = study.features[
        (study.features["probe"] == PROBE) & (study.features["feature"] == of.H1_TOTAL.name)
    ]
    draws = rows["draw"].nunique() if rows["draw"].notna().any() else 0
    if draws > 1:
        return f"Bands are 95% intervals of the mean over {draws} subsamples of the texts."
    return (
        "All texts were in every cloud, so there is no subsampling noise to show; the figure does not "
        "show how much another set of texts would change the lines."
    )


def _titles(study: Study, panels: tuple[trajectories.TrajectoryPanel, ...]) -> str:
    titles = [panel.title for panel in present(study, panels)]
    return listed(titles) if titles else "nothing"


def _marked(study: Study, panels: tuple[trajectories.TrajectoryPanel, ...]) -> str:
    return marked(study, PROBE, [panel.feature for panel in present(study, panels)])


def _summary(study: Study) -> Caption:
    shown = _titles(study, trajectories.SUMMARY)
    n = len(study.runs)
    order = ", when, and in which order the models end." if n > 1 else ", and when."
    return Caption(
        "Representations on one page",
        f"{shown}, for {n} model{'s' * (n != 1)}, of the last hidden state. {_sampled(study)}"
        + _marked(study, trajectories.SUMMARY),
        "Which quantities move" + order,
        "Whether they move together for any reason but time. And " + of_seeds(study) + ".",
        f"Panels against the optimiser step: {shown}.",
    )


def _snapshot(study: Study) -> Caption:
    found = beside_null(study)
    return Caption(
        "H1 of every hidden state at this checkpoint",
        "Dots: the cloud of texts in each hidden state (0 is the embedding). Grey: where one more Gaussian "
        "cloud of its mean and covariance would fall, with 95% probability; its spectrum is the same.",
        f"In the last hidden state {found}. Outside the band the spectrum alone does not explain H1."
        if found
        else "How H1 differs from layer to layer.",
        "Anything about training: there is one checkpoint, and no curve. Hidden states have different "
        "scales before the final norm.",
        "A dot for each hidden state, beside a grey bar for its Gaussian clouds.",
    )


def _topology(study: Study) -> Caption:
    can = "How number, length and concentration of the loops move."
    scaled = "How much of it is the scale of the cloud alone: distances over their median were not measured."
    if study.has(of.H1_SCALED.name):
        can = "How much of H1's growth remains when the scale of the cloud is removed: the last panel."
        scaled = (
            "Growth of the raw totals that is absent from the last panel is growth of the cloud, not of its "
            "shape."
        )
    return Caption(
        "Topology of the hidden states",
        f"Loops (H1) and components (H0) of the cloud of texts: {_titles(study, trajectories.TOPOLOGY)}. "
        + _sampled(study)
        + _marked(study, trajectories.TOPOLOGY),
        can,
        scaled
        + (
            " Clouds of different models have different dimensions; levels are not comparable."
            if len(study.runs) > 1
            else ""
        )
        + " And "
        + of_seeds(study)
        + ".",
        "Panels of H1 and H0 summaries against the optimiser step on a log axis, one line per model.",
    )


def _null(study: Study) -> Caption:
    found = beside_null(study)
    return Caption(
        "H1 beside Gaussian clouds of the same covariance",
        "Grey: Gaussian clouds with exactly the mean and covariance of the states, mean and 95% prediction "
        "band; all spectral numbers of the two are equal. Coloured: the states.",
        f"At the last checkpoint {found}. Outside the band the spectrum alone does not explain H1."
        if found
        else "Nothing: no band could be drawn.",
        "That values outside the band come from the structure of language: clusters, heavy tails or repeated "
        "texts also lie outside. And " + of_seeds(study) + ".",
        "H1 summaries of each model against the step, with a grey band for Gaussian clouds of the same "
        "covariance.",
    )


def _spectrum(study: Study) -> Caption:
    return Caption(
        "Spectrum of the hidden states",
        f"The baseline that a topological feature has to beat: {_titles(study, trajectories.SPECTRUM)} of "
        "the covariance. " + _sampled(study) + _marked(study, trajectories.SPECTRUM),
        "When the spectrum collapses and widens, and whether H1 moves at the same checkpoints.",
        "That one of them explains the perplexity: all of them drift. And " + of_seeds(study) + ".",
        "Panels of spectral numbers against the optimiser step on a log axis, one line per model.",
    )


def _perplexity(study: Study) -> Caption:
    return Caption(
        "Perplexity",
        "Perplexity per predicted token on the same texts at every checkpoint, on log axes.",
        "How far and how fast each model learned these texts.",
        "How the models compare on other texts, or where they have different tokenizers. And "
        + of_seeds(study)
        + ".",
        "Perplexity against the optimiser step, both on log axes, one line per model.",
    )


def _against(study: Study) -> Caption:
    can = "That the quantities move in step order, and where one moves while the other stands still."
    if "rivals" in study.findings:
        can += " " + words.said(study.findings, study.findings["rivals"]).ground
    return Caption(
        f"Features against the {study.labels.label(study.target).removeprefix('log ')}",
        "Each point is a checkpoint, each line a model through time; the large point is the last one. Below "
        "each panel: mean of |ρ| over the models.",
        can,
        "A relation between them: any two curves that drift look like this.",
        "Panels of features against the target, one connected line of checkpoints per model.",
    )


def _strength(study: Study) -> Caption:
    verdicts = study.findings["beyond"].numbers
    grey = (
        f" Grey: where two independent random walks of this length lie in 95% of cases ({study.chance:.2f})."
        if np.isfinite(study.chance)
        else ""
    )
    passed = passing(verdicts["found"], verdicts["tested"], "primary features of topology")
    baselines = passing(verdicts["baselines_found"], verdicts["baselines_tested"], "spectra and sizes")
    return Caption(
        "Topological against spectral features",
        f"Left: |ρ| with the {study.labels.label(study.target)} over the checkpoints of each model, with the "
        f"interval of a moving-block bootstrap.{grey} Right: the correlation of innovations, which is what "
        "neither series' own past explains, with its interval; filled where it passes the test. Topology is "
        "above the line.",
        f"What passes the test over all models, after correction for their number: {passed}; {baselines}.",
        "That one kind is the better predictor because its marks on the left lie further out: both kinds "
        "drift. An unfilled mark does not exclude a relation.",
        "Two dot plots of features: absolute rank correlation with the target, and correlation of "
        "innovations with intervals.",
    )


def _rate(study: Study) -> Caption:
    return Caption(
        "Rate of topological change",
        "Wasserstein distance (order 1) between the diagrams of consecutive checkpoints; below, divided by "
        "the log of the ratio of their steps." + _marked(study, trajectories.CHANGE),
        "Between which checkpoints the diagrams differ most. The lower panels can be compared along the "
        "line, the upper ones only where checkpoints are equally far apart.",
        "That topology reorganises: a cloud that only grows moves its diagram too. No noise floor is drawn. "
        "And " + of_seeds(study) + ".",
        "Wasserstein distances between consecutive diagrams against the optimiser step, H1 and H0, raw and "
        "per unit of log step.",
    )


def _crocker(study: Study) -> Caption:
    return Caption(
        "CROCKER map of H1",
        "The number of loops at each scale (up) and checkpoint (across), one panel per model, with one "
        "grid of scales for all.",
        "At which scale loops live, and how scale and number change together: a band that moves up and "
        "widens is a cloud that grows.",
        "That a bright band is structure: a Gaussian cloud has one, too. And " + of_seeds(study) + ".",
        "Heat maps of the first Betti number over scale and checkpoint, one per model.",
    )


def _map(name: str) -> Caption:
    return Caption(
        f"Layer by step: {name}",
        f"Colour is the {name} of each hidden state (up; 0 is the embedding) at each checkpoint (across).",
        "In which layer and at which checkpoint it changes first.",
        "Small differences of shade: no interval is in the map. Layers have different scales before the "
        "final norm, which raw quantities would show.",
        f"Heat maps of {name} over hidden states and checkpoints, one per model.",
    )


def _across(study: Study) -> Caption:
    can = "Whether the two agree on which layers change the representation most."
    if "layers" in study.findings:
        can += " " + words.said(study.findings, study.findings["layers"]).ground
    return Caption(
        "From layer to layer: carried H1 beside CKA",
        "Across: linear CKA (debiased) of two consecutive layers. Up: the share of H1's total persistence "
        "that an optimal matching carries from one to the next. A line goes through a pair's checkpoints.",
        can,
        "That carried bars are the same loops: the matching compares births and deaths, not texts.",
        "Scatter plots of carried H1 against CKA, one panel per model, one line per pair of layers.",
    )


def _attention() -> Caption:
    return Caption(
        "Attention graphs",
        "Mean bar length of H0 of each head's attention graph (thin) and its mean over a layer's heads "
        "(thick): 0 when every token is tied to another with weight 1, near 1 when attention is spread thin.",
        "When and in which layers heads become sharp, and how far the heads of a layer differ.",
        "What the heads attend to; and a sharp head may serve no purpose.",
        "H0 bar length of attention graphs against the step, coloured by layer, one panel per model.",
    )


def _probe() -> Caption:
    return Caption(
        "Linear probe",
        "Five-fold accuracy of a logistic regression on each layer's states; bands: one sd over the folds. "
        "Dashed: the share of the commonest label.",
        "From which checkpoint and in which layer the labels can be read off linearly.",
        "Small differences between layers: the folds share their training texts, so the bands are no "
        "intervals.",
        "Probe accuracy against the optimiser step, coloured by layer, with the majority share as a dashed "
        "line.",
    )


def _dimension(study: Study) -> Caption:
    return Caption(
        "Intrinsic dimension",
        f"{_titles(study, trajectories.DIMENSION)} of the last hidden state's reduced cloud, each with the "
        "band that it states; those of TwoNN and PH do not cover at their nominal rate.",
        "Whether the estimators agree that the cloud becomes flatter or fuller.",
        "The absolute value: all are biased for few points in many dimensions, and the reduction "
        "bounds them.",
        "Panels of intrinsic dimension against the optimiser step, one line per model with its band.",
    )
