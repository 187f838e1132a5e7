"""Clauses and captions that several parts share, from the findings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from toposcope.core.drawing.marks import bends_of
from toposcope.core.forms import capital
from toposcope.page.figures import correlations
from toposcope.page.parts import Caption
from toposcope.study.catalogue import column_of
from toposcope.study.findings import words
from toposcope.study.findings.end import forecasts_of
from toposcope.study.study import Study
from toposcope.study.verdicts import judged


def changepoints(study: Study, probe: str, features: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return the changepoints of a probe's features, by feature: what figures mark on their curves."""
    known = study.series.catalogue
    return {name: bends_of(study.bends, column_of(known, probe, name)) for name in features}


def marked(study: Study, probe: str, features: Iterable[str]) -> str:
    """Return what a caption says on the changepoints that its curves carry."""
    if not sum(map(len, changepoints(study, probe, features).values())):
        return ""
    return (
        " A triangle marks a changepoint, where the slope on log step leaves every smooth trend; the line "
        "through it is its 95% interval."
    )


def alarmed(study: Study) -> str:
    """Return what a caption says on the alarms that its curves carry."""
    return " Dashed lines: where a watch raised an alarm, and by which test." if study.alarms else ""


def drawn_run(study: Study) -> str:
    """Return the run whose bars are drawn: the largest model that kept them."""
    kept = set(study.diagrams["run"])
    return [run for run in study.ordered if run in kept][-1]


def barcode_caption(study: Study, cloud: str, points: str) -> Caption:
    """Return the words under a persistence diagram and its barcode; `points` are those of the cloud."""
    at = "at the last checkpoint and at the first" if study.has_curves else "at this checkpoint"
    return Caption(
        f"Bars of the {cloud}: diagram and barcode",
        f"Every component (H0) and loop (H1) of one cloud of one run's {points}: where it appears and where "
        f"it ends, {at}. A point far from the diagonal, or a long bar, lasts long.",
        f"At which distances the {points} join, and whether any loop lasts much longer than the others.",
        "That a long bar is structure: a cloud without structure has long bars, too. And this is one cloud "
        "of one run.",
        "Persistence diagrams, death against birth, beside barcodes with a line for each bar.",
    )


def of_seeds(study: Study) -> str:
    """Say what the number of seeds allows."""
    least, most = study.findings["changed"].numbers["seeds"]
    if len(study.runs) == 1:
        return "this is one run: another seed would give other curves, and the difference is unknown"
    if most == 1:
        return "each size was trained once, so differences between sizes may come from the seed"
    if least < 3:
        return f"some sizes have fewer than three seeds ({least}), too few for an interval over seeds"
    seeds = str(most) if least == most else f"{least} to {most}"
    return f"with {seeds} seeds per size, intervals over seeds are meant for these recipes only"


def of_draws(study: Study, drawn_from: str) -> str:
    """Say whether random subsamples make a band; `drawn_from` is what was subsampled."""
    draws = study.findings["changed"].numbers["draws"]
    if draws > 1:
        return (
            f"bands are 95% intervals of the mean over {draws} random subsamples of the {drawn_from} (no "
            "band if all were used)"
        )
    return f"the whole of the {drawn_from} was used, so there is no sampling noise"


def scaling_caption(study: Study) -> Caption:
    """Return the words under the power laws in the number of parameters."""
    found = study.findings.get("scale")
    n = found.numbers["sizes"] if found else 0
    apart = found is not None and found.strength == "apart"
    can = words.said(study.findings, found).act if found else "Nothing: no size is known."
    law = "" if apart else ", with the fitted law (a loss has a floor in it) and its 95% confidence band"
    limit = f"The law beyond the sizes shown: {n} sizes determine it, and width and depth change together"
    if apart:
        limit = "How one family scales: width and depth change together"
    return Caption(
        "Scaling with model size",
        f"Quantities at the last checkpoint against the number of parameters, on log-log axes{law}; bars are "
        "intervals over random subsamples. Hollow points are runs that did not finish; no law is fitted to "
        "them.",
        can,
        f"{limit}, and clouds of larger models have more dimensions, which alone changes H0. Also, "
        + of_seeds(study)
        + ".",
        "Final loss and final topological features against the number of parameters on log-log axes with "
        "fitted lines.",
    )


def beside_null(study: Study) -> str:
    """Say of how many sizes the last values leave the band of their null."""
    if len(study.sizes) == 1:
        nulls = study.findings["changed"].numbers["nulls"]
        sides = ["above" if null["above"] else "below" if null["below"] else "inside" for null in nulls]
        return "; ".join(
            f"{null['label']} is {side} the band" for null, side in zip(nulls, sides, strict=True)
        )
    return "; ".join(
        f"{null['label']} is above the band in {null['above']}, below it in {null['below']} and inside it in "
        f"{null['sizes'] - null['above'] - null['below']} of {null['sizes']} sizes"
        for null in study.findings["changed"].numbers["nulls"]
    )


def outlined(study: Study) -> str:
    """Say how many of what the verdict judges pass their test, or that this design can tell of none."""
    numbers = study.findings["beyond"].numbers
    if "tested" not in numbers:
        return "none"
    return passing(numbers["found"], numbers["tested"], f"{study.judged}s")


def passing(found: int, tested: int, of: str) -> str:
    """Say how many of the tested pass; none is tested where the design cannot tell.

    >>> passing(2, 12, "primary features"), passing(0, 0, "primary features")
    ('2 of 12 primary features', 'no test was possible for any of the primary features')
    """
    return f"{found} of {tested} {of}" if tested else f"no test was possible for any of the {of}"


def correlations_caption(study: Study) -> Caption:
    """Return the words under the heat maps of correlations, of the panels that are drawn."""
    target = study.labels.label(study.target)
    trends = judged(study)
    shown = [stage for stage, _ in correlations.stages_of(trends[trends["target"] == study.target])]
    tested = "r" in shown
    panels = [_PANELS[stage] for stage in shown]
    can = (
        f"Only the outlined rows of the innovations ({outlined(study)}) are evidence of a relation beyond "
        "a shared "
        "trend: only the error rate of this panel holds for drifting curves."
        if tested
        else "Which quantities rise and fall in step order. No test was possible: see the table of verdicts."
    )
    cannot = "Nothing from a dark cell of the raw correlations alone. Nothing about cause."
    if tested:
        cannot += (
            " A row without outline does not exclude a relation: with this many checkpoints small effects "
            "stay undetected."
        )
    return Caption(
        f"Correlation with the {target}" + ("" if len(shown) < 3 else ": raw, beside the trend, and beyond"),
        f"{capital('; '.join(panels))}. A dash: not computable." if panels else "Nothing could be computed.",
        can,
        cannot,
        f"Heat maps of features against model sizes: {'; '.join(panels)}.",
    )


_PANELS = {
    "spearman": "Spearman's rho over checkpoints",
    "departure_rho": "the same for the departures of each series from its own smooth trend, without a test",
    "partial_step": "the same given log step",
    "r": "the correlation of innovations, the part of each series that its smooth trend and its own past "
    "do not "
    "explain; outlined rows passed the test over all runs, after correction for the number of tests",
}
"""What each panel of the heat maps shows, from left to right."""


def forecast_caption(study: Study) -> Caption:
    """Return the words under the errors of forecasts."""
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
