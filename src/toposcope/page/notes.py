"""Clauses that several captions share, from the findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from toposcope.core.drawing.marks import bends_of
from toposcope.core.forms import capital, extent, listed, span
from toposcope.page.on_page import Caption
from toposcope.study.catalogue import column_of
from toposcope.study.findings.changed import move_of
from toposcope.study.study import Study

_TITLED = 2
"""The most quantities that a title names."""


def moved(study: Study, columns: Iterable[str], otherwise: str) -> str:
    """Return a title that says how the first of these columns moved; `otherwise` if none is known."""
    changes = [move for column in columns if column and (move := move_of(study, column))][:_TITLED]
    ways: dict[str, list[str]] = {}
    for move in changes:
        ways.setdefault(way(move), []).append(str(move["label"]))
    phrases = [f"{listed(labels)} {how}" for how, labels in ways.items()]
    return capital("; ".join(phrases), study.series.names) if phrases else otherwise


_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_ONWARD = re.compile(r"^(also, |and )")


def once(caption: Caption, seen: set[str]) -> Caption:
    """Return a caption without the sentences that appeared before, and add its own to `seen`.

    A part of it that would become empty is returned whole.

    >>> seen = set()
    >>> _ = once(Caption("A", "Bands are intervals.", "b", "c", "d"), seen)
    >>> once(Caption("B", "Dots are runs. Bands are intervals.", "b", "e", "f"), seen).shows
    'Dots are runs.'
    """
    parts = {}
    for name in ("shows", "can", "cannot"):
        every = _SENTENCES.split(getattr(caption, name))
        keys = [_ONWARD.sub("", sentence.lower()) for sentence in every]
        new = [sentence for sentence, key in zip(every, keys, strict=True) if key not in seen]
        seen.update(keys)
        parts[name] = " ".join(new or every)
    return replace(caption, **parts)


def way(move: Mapping[str, Any]) -> str:
    """Return the shape of a quantity: in how many runs it rose, fell or turned; of one run, its values.

    >>> way({"kinds": [["rose", 3], ["fell, then rose", 1]], "of": 4})
    'rose in 3 and fell, then rose in 1 of 4 runs'
    >>> way({"kinds": [["fell", 1]], "of": 1, "words": "fell from 2 to 1"})
    'fell from 2 to 1'
    """
    if move["of"] == 1:
        return str(move["words"])
    return f"{listed([f'{kind} in {n:,}' for kind, n in move['kinds']])} of {move['of']:,} runs"


def fell(name: str, ends: pd.DataFrame, *, so_far: bool = False, form: str = "{:,.2f}") -> str:
    """Return from where to where a loss went, or in how many runs it did not fall, as a title.

    `ends` has the columns first and last, a row for each run.

    >>> fell("loss", pd.DataFrame({"first": [4.0, 5.0], "last": [2.0, 2.5]}))
    'The loss fell from 4.00–5.00 to 2.00–2.50'
    >>> fell("loss", pd.DataFrame({"first": [2.5], "last": [7.1]}))
    'The loss went from 2.50 to 7.10'
    """
    rose = int((ends["last"] >= ends["first"]).sum())
    if rose and len(ends) > 1:
        return f"The {name} did not fall in {rose:,} of {len(ends):,} runs"
    first, last = (span(extent(ends[end]), form) for end in ("first", "last"))
    if rose:
        return f"The {name} went from {first} to {last}"
    return f"The {name} fell from {first} to {last}{' so far' if so_far else ''}"


def beside_band(study: Study, of: str, otherwise: str, verb: str = "ends") -> str:
    """Return where the first quantity with a null ends relative to the null's band, as a title.

    `of` is what the band is of; `otherwise` is the title where no band could be drawn.
    """
    for null in study.findings["changed"].numbers["nulls"]:
        inside = null["sizes"] - null["above"] - null["below"]
        sides = (("inside", inside), ("above", null["above"]), ("below", null["below"]))
        (first, n), *rest = sorted(((side, n) for side, n in sides if n), key=lambda side: -side[1])
        where = f"{first} the band of {of}"
        if null["sizes"] > 1:
            more = "".join(f" and {side} it in {n}" for side, n in rest)
            where += f" in {n}{more} of {null['sizes']} sizes"
        return capital(f"{null['label']} {verb} {where}", study.series.names)
    return otherwise


def moved_features(study: Study, probe: str, features: Iterable[str], otherwise: str) -> str:
    """Return `moved` for features of a probe."""
    return moved(study, (column_of(study.series.catalogue, probe, name) for name in features), otherwise)


def changepoints(study: Study, probe: str, features: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return the changepoints of a probe's features, by feature: what figures mark on their curves."""
    declared = study.series.catalogue
    return {name: bends_of(study.bends, column_of(declared, probe, name)) for name in features}


def marked(study: Study, probe: str, features: Iterable[str]) -> str:
    """Return the caption's clause on the changepoints that are marked on the curves."""
    if not sum(map(len, changepoints(study, probe, features).values())):
        return ""
    return (
        " A triangle marks a changepoint, where the slope on log step leaves every smooth trend; the line "
        "through it is its 95% interval."
    )


def alarmed(study: Study) -> str:
    """Return the caption's clause on the alarms that are marked on the curves."""
    return " A dashed line is an alarm of a watch, with the name of its test." if study.alarms else ""


def of_seeds(study: Study) -> str:
    """Return a clause on what the number of seeds allows to conclude."""
    least, most = study.findings["changed"].numbers["seeds"]
    if len(study.runs) == 1:
        return "this is one run: another seed would give other curves, and the difference is unknown"
    if most == 1 and not (study.runs["parameters"] > 0).any():
        return "no size is stated, so it is unknown whether the runs differ in size or only in their seeds"
    if most == 1:
        return "each size was trained once, so differences between sizes may come from the seed"
    if least < 3:
        return f"some sizes have fewer than three seeds ({least}), too few for an interval over seeds"
    seeds = str(most) if least == most else f"{least} to {most}"
    return f"with {seeds} seeds per size, intervals over seeds are valid for these recipes only"


def of_draws(study: Study, drawn_from: str) -> str:
    """Say whether random subsamples make a band; `drawn_from` is what was subsampled."""
    draws = study.findings["changed"].numbers["draws"]
    if draws > 1:
        return (
            f"bands are 95% intervals of the mean over {draws} random subsamples of the {drawn_from} (no "
            "band if all were used)"
        )
    return f"the whole of the {drawn_from} was used, so there is no sampling noise"


def beside_null(study: Study) -> str:
    """Say for how many sizes the last values leave the band of their null."""
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


def passing(found: int, tested: int, of: str) -> str:
    """Return a clause on how many of the tested features pass.

    >>> passing(2, 12, "primary features"), passing(0, 0, "primary features")
    ('2 of 12 primary features', 'no test was possible for any of the primary features')
    """
    return f"{found} of {tested} {of}" if tested else f"no test was possible for any of the {of}"
