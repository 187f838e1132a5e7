"""What the rows of a store are about: by its catalogue, and by what the package's own probes declare."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from toposcope.core.types import About, Feature
from toposcope.store import catalogue_table
from toposcope.store.columns import declared_line
from toposcope.subjects.roster import own_subjects, subject_of
from toposcope.subjects.subject import Subject

_ADDED = ("about", "leads")
"""Columns that the catalogues of older stores lack."""


def own_catalogue() -> pd.DataFrame:
    """Return the catalogue of every probe of the package, in the form that a store has.

    >>> table = own_catalogue().set_index(["probe", "feature"])
    >>> table.loc[("rips", "h0_total"), "label"], table.loc[("gradient_rips", "h0_total"), "label"]
    ('H0 total', 'gradients: H0 total')
    """
    return catalogue_table(declared_features())


def completed(declared: pd.DataFrame | None) -> pd.DataFrame:
    """Return a catalogue with its gaps filled: the columns `about` and `leads`, and the package's own probes.

    A store of a version without these columns is completed from the declarations of the package's own
    probes. A feature of another probe then counts as one of weights, or of gradients if the probe's name says
    so, and has no `leads`. Without a catalogue, the package's own is returned.

    >>> old = own_catalogue().drop(columns=["about", "leads"])
    >>> completed(old)[["about"]].equals(own_catalogue()[["about"]])
    True
    """
    ours = _ours()
    if declared is None or declared.empty:
        return ours.copy()
    lines = declared
    if not set(_ADDED) <= set(declared) or declared["about"].isna().any():
        lines = declared.reindex(columns=list(dict.fromkeys([*declared, *_ADDED])))
        filled = [_filled(line) if pd.isna(line["about"]) else line for line in lines.to_dict("records")]
        lines = pd.DataFrame(filled, columns=lines.columns)
    return pd.concat([lines, ours[~ours["probe"].isin(lines["probe"])]], ignore_index=True)


@functools.cache
def declared_features() -> Mapping[str, tuple[Feature, ...]]:
    """Return what each probe of the package declares, by its name; it imports the package's subjects."""
    return {probe: features for subject in own_subjects() for probe, features in subject.declared.items()}


@functools.cache
def _ours() -> pd.DataFrame:
    return own_catalogue()


def _filled(line: dict[Hashable, Any]) -> dict[Hashable, Any]:
    ours = {feature.name: feature for feature in declared_features().get(line["probe"], ())}
    declared = ours.get(line["feature"])
    if declared is None:
        probe = str(line["probe"])
        named = [
            subject.name for subject in own_subjects() if subject.prefix and probe.startswith(subject.prefix)
        ]
        return {**line, "about": str(named[0] if named else About.WEIGHTS), "leads": []}
    return {**line, **{name: declared_line(line["probe"], declared)[name] for name in _ADDED}}


def about(features: pd.DataFrame, catalogue: pd.DataFrame | None = None) -> pd.Series:
    """Return the subject of each row, by a store's `catalogue` or the declarations of the package's probes.

    >>> about(pd.DataFrame({"probe": ["rips", "mine"], "feature": ["h0_total", "x"]})).tolist()
    ['weights', 'weights']
    """
    lines = completed(catalogue)[["probe", "feature", "about"]].drop_duplicates(["probe", "feature"])
    merged = features[["probe", "feature"]].merge(lines, on=["probe", "feature"], how="left")["about"]
    return merged.fillna(str(About.WEIGHTS)).set_axis(features.index)


def rows_of(
    features: pd.DataFrame, catalogue: pd.DataFrame | None = None
) -> list[tuple[Subject, pd.DataFrame]]:
    """Return the subjects of a store in the order of the page, each with the rows that its study reads.

    >>> rows = pd.DataFrame({"probe": ["rips", "gradient_rips"], "feature": ["h0_total"] * 2})
    >>> [(str(subject.name), len(mine)) for subject, mine in rows_of(rows)]
    [('weights', 2)]
    """
    of = about(features, catalogue)
    measured = {}
    for name in dict.fromkeys(map(str, of)):
        subject = subject_of(name)
        if not set(features.loc[of == name, "probe"]) <= set(subject.never_alone):
            measured[name] = subject
    guests = [subject for subject in measured.values() if set(subject.within) & set(measured)]
    parts = []
    for name, subject in measured.items():
        if subject not in guests:
            mine = of.isin([name, *(guest.name for guest in guests if name in guest.within)])
            parts.append((subject, features[mine]))
    return sorted(parts, key=lambda pair: pair[0].order)
