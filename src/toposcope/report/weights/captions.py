"""What each figure shows, and what can and what cannot be concluded from it, for the data at hand."""

from __future__ import annotations

import numpy as np

from toposcope.figures.series import select, sizes
from toposcope.report.parts import Caption
from toposcope.report.weights import forecasts
from toposcope.report.weights.facts import above_null
from toposcope.report.weights.study import H0, Study


def captions(study: Study) -> dict[str, Caption]:
    """Return the caption of every figure by its name."""
    return {
        "overview": _overview(study),
        "loss": _loss(study),
        "neural_persistence": _neural_persistence(study),
        "vietoris_rips": _vietoris_rips(study),
        "loss_against_h0": _loss_against_h0(study),
        "correlations": _correlations(study),
        "forecast": forecasts.caption(study.forecasts),
        "scaling": _scaling(study),
        "layers": _layers(study),
    }


def _seeds(study: Study) -> str:
    counts = [len(group.runs) for group in sizes(study.runs)]
    if not counts or max(counts) == 1:
        return "each size was trained once, so differences between sizes cannot be told from luck of the seed"
    if min(counts) < 3:
        return (
            f"some sizes have fewer than three seeds ({min(counts)}), so intervals over seeds are wide or "
            "missing"
        )
    return (
        f"with {min(counts)} to {max(counts)} seeds per size, intervals over seeds are meant for these "
        "recipes only"
    )


def _draws(study: Study) -> int:
    rows = select(study.features, "h0_total", probe="rips", name=study.cloud)
    return int(rows["draw"].nunique()) if rows["draw"].notna().any() else 0


def _sampled(study: Study) -> str:
    n = _draws(study)
    if n:
        return (
            f"bands are 95% intervals of the mean over {n} random subsamples of the cloud (none where all "
            "rows were used)"
        )
    return "all rows of the cloud were used, so there is no sampling noise"


def _overview(study: Study) -> Caption:
    return Caption(
        "The study on one page",
        f"Loss, mean neural persistence and loss against H0 for {len(study.runs)} runs, and the last H0 "
        "against model size.",
        "Which quantities move during training, and in which order the sizes end.",
        "Whether they move together for any reason but time: see the correlations below for that. And "
        + _seeds(study)
        + ".",
        "Four panels: loss falling with the step, neural persistence against the step, loss against H0 "
        "total persistence, and final H0 against the number of parameters.",
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
        + (", and the loss on fixed held-out batches at each checkpoint." if held else "."),
        can,
        cannot + " Also, " + _seeds(study) + ".",
        f"Loss in nats per token against the optimiser step on a log axis, for {len(sizes(study.runs))} "
        "model sizes.",
    )


def _neural_persistence(study: Study) -> Caption:
    above, below, n = above_null(study)
    convention = {
        "seed004": "each matrix divided by its own largest weight, p = 1",
        "rieck": "weights divided by the largest of the network, p = 2",
    }[study.filtration]
    null = "Only that it changes: without shuffled weights, how much of it is mere weight sizes is unknown."
    if n:
        null = (
            f"At the last checkpoint the line is above the band in {above}, below it in {below} and "
            f"inside it in {n - above - below} of {n} sizes. Outside the band, the arrangement of the "
            "weights matters and not only how large they are."
        )
    return Caption(
        "Neural persistence beside shuffled weights",
        f"Mean over the matrices of each model (convention {study.filtration}: {convention}). Grey: the "
        "same entries in random order, mean and 95% prediction band.",
        null,
        "That neural persistence causes or predicts the loss; and a part of it that moves together with "
        "the grey line is the "
        "distribution of weight sizes, not structure. Also, " + _seeds(study) + ".",
        "One panel per model size: neural persistence against the step, with a grey band for shuffled "
        "weights.",
    )


def _vietoris_rips(study: Study) -> Caption:
    cloud = (
        "the rows of all matrices in one cloud"
        if study.cloud == "pooled"
        else "the sum over the clouds of all matrices"
    )
    return Caption(
        "H0 and H1 of the weight cloud",
        f"Total persistence of connected components (H0) and loops (H1) of {cloud}; below, the same with "
        f"distances divided by their median. Lines are means; {_sampled(study)}.",
        "How spread out the rows of the weight matrices are, and, from the lower panels, what is left of "
        "it when the overall scale of the weights is taken out.",
        "Any growth that is absent from the lower panels is growth of the weights, not of their shape. "
        "Sizes have clouds of different numbers of points and dimensions, so levels are not comparable "
        "between them. And " + _seeds(study) + ".",
        "H0 and H1 total persistence against the step on a log axis, one line per model size, raw above "
        "and scale-free below.",
    )


def _loss_against_h0(study: Study) -> Caption:
    column = study.column(H0)
    rows = study.trends[(study.trends["target"] == study.target) & (study.trends["column"] == column)]
    n = rows["effective_n"].dropna() if "effective_n" in rows else rows["spearman"].iloc[:0]
    worth = ""
    if len(n):
        worth = f" The checkpoints of a run are worth only about {n.median():.0f} independent ones."
    return Caption(
        "Loss against H0 total persistence",
        "Each point is a checkpoint, its colour the step. The points follow one another in time, which "
        "is why they form a curve.",
        "That both quantities move in step order, and where one moves while the other stands still.",
        f"A relation between them: any two curves that drift look like this.{worth} The numbers in the "
        "panels give Spearman's rho before and after log step is taken out, where they could be computed.",
        "Loss against H0 total persistence, one panel per model size, points coloured by the optimiser step.",
    )


def _correlations(study: Study) -> Caption:
    return Caption(
        f"Correlation with the {study.series.label(study.target)}: raw, given the step, and beyond both "
        "trends",
        "Left: Spearman's rho over checkpoints. Middle: the same given log step. Right: the correlation "
        "of innovations, that is of what the past of the two series does not explain; outlined cells "
        "passed that test after correction for the number of tests. A dash: not computable, for instance "
        "because the loss ranks the checkpoints as the step does.",
        "Only the right panel's outlined cells speak of a relation beyond a shared trend: it is the only "
        "one of the three whose error rate holds for drifting curves.",
        "Nothing from a dark cell on the left alone. Nothing about cause. A cell without outline is not "
        "evidence of no relation: small effects stay unseen with this many checkpoints.",
        "Three heat maps of features against model sizes: raw rank correlation with the loss, "
        "correlation given log step, and correlation of innovations.",
    )


def _scaling(study: Study) -> Caption:
    fits = study.fits
    n = int(fits["n_sizes"].max()) if len(fits) else 0
    clear = [
        study.series.label(quantity)
        for quantity, low, high in fits[["quantity", "low", "high"]].itertuples(index=False)
        if np.isfinite(low) and np.isfinite(high) and (low > 0 or high < 0)
    ]
    can = (
        f"An exponent that differs from zero at 95%, for: {', '.join(clear)}."
        if clear
        else "No exponent that differs from zero at 95%."
    )
    if n < 3:
        can = (
            f"Nothing: {n} model sizes with a known number of parameters are too few for a power law with "
            "an interval."
        )
    return Caption(
        "Scaling with model size",
        "Quantities at the last checkpoint against the number of parameters, on log-log axes, with the "
        "fitted power law and its 95% confidence band; bars are intervals over random subsamples.",
        can,
        f"The law beyond the sizes shown: {n} sizes carry it, width and depth change together, and clouds "
        "of larger models have "
        "more dimensions, which alone changes H0. Also, " + _seeds(study) + ".",
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
        "place in a line of few layers is no trend. Also, " + _seeds(study) + ".",
        "Grid of line charts: neural persistence of each matrix against the step, a row for each role "
        "and a column for each size.",
    )
