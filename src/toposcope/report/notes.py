"""Clauses and captions that several parts share, from the findings."""

from __future__ import annotations

from toposcope.analysis.study import Study
from toposcope.report.parts import Caption


def of_seeds(study: Study) -> str:
    """Say what the number of seeds allows."""
    least, most = study.findings["changed"].numbers["seeds"]
    if len(study.runs) == 1:
        return "this is one run: another seed would give other curves, and how far off is not known"
    if most == 1:
        return "each size was trained once, so differences between sizes cannot be told from luck of the seed"
    if least < 3:
        return f"some sizes have fewer than three seeds ({least}), too few for an interval over seeds"
    seeds = str(most) if least == most else f"{least} to {most}"
    return f"with {seeds} seeds per size, intervals over seeds are meant for these recipes only"


def of_draws(study: Study, drawn_from: str) -> str:
    """Say whether random subsamples make a band; `drawn_from` is what was subsampled."""
    draws = study.findings["changed"].numbers["draws"]
    if draws > 1:
        return (
            f"bands are 95% intervals of the mean over {draws} random subsamples of the {drawn_from} (none "
            "where all were used)"
        )
    return f"the whole of the {drawn_from} was used, so there is no sampling noise"


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
    """Say how many primary features pass their test, or that this design can tell of none."""
    numbers = study.findings["beyond"].numbers
    if "tested" not in numbers:
        return "none"
    return passing(numbers["found"], numbers["tested"], "primary features")


def passing(found: int, tested: int, of: str) -> str:
    """Say how many of the tested pass; none is tested where the design cannot tell.

    >>> passing(2, 12, "primary features"), passing(0, 0, "primary features")
    ('2 of 12 primary features', 'none: this design cannot tell of any of the primary features')
    """
    return f"{found} of {tested} {of}" if tested else f"none: this design cannot tell of any of the {of}"


def correlations_caption(study: Study) -> Caption:
    """Return the words under the heat maps of correlations."""
    target = study.labels.label(study.target)
    departures = "departure_rho" in study.leading and study.leading["departure_rho"].notna().any()
    middle = (
        "Middle: the same for the departures from each one's own smooth trend, without a test. "
        if departures
        else "Middle: the same given log step. "
    )
    return Caption(
        f"Correlation with the {target}: raw, beside the trend, and beyond both trends",
        f"Left: Spearman's rho over checkpoints. {middle}Right: the correlation of innovations, that is of "
        "what a smooth trend and its own past do not explain of either series; outlined rows passed the test "
        "over all runs, after correction for the number of primary features. A dash: not computable.",
        f"Only the right panel's outlined rows ({outlined(study)}) speak of a relation beyond a shared "
        "trend: it is the only one of the three whose error rate holds for drifting curves.",
        "Nothing from a dark cell on the left alone. Nothing about cause. A row without outline is not "
        "evidence of no relation: small effects stay unseen with this many checkpoints.",
        f"Heat maps of features against model sizes: raw rank correlation with the {target}, the same beside "
        "the trend, and correlation of innovations.",
    )
