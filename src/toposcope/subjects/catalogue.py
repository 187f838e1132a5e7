"""The declarations of the package's own probes, for rows without a store and for stores of older versions."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from toposcope.core.types import About, Feature
from toposcope.store import catalogue_table
from toposcope.store.columns import declared_line
from toposcope.subjects.landscape import features as landscape
from toposcope.subjects.representations import features as representations
from toposcope.subjects.weights import features as weights

if TYPE_CHECKING:
    import pandas as pd


DECLARED: Mapping[str, tuple[Feature, ...]] = {
    **weights.DECLARED,
    **{
        weights.GRADIENT + probe: tuple(map(weights.of_gradients, features))
        for probe, features in weights.DECLARED.items()
        if probe != weights.UPDATES  # gradients have no updates
    },
    representations.REPRESENTATIONS: representations.FEATURES,
    representations.SENSITIVITY: representations.SETTINGS,
    **landscape.DECLARED,
}
"""Probe -> what it declares."""

_ADDED = ("about", "leads")
"""Columns that the catalogues of older stores lack."""


def own_catalogue() -> pd.DataFrame:
    """Return the catalogue of every probe of the package, in the form that a store has.

    >>> table = own_catalogue().set_index(["probe", "feature"])
    >>> table.loc[("rips", "h0_total"), "label"], table.loc[("gradient_rips", "h0_total"), "label"]
    ('H0 total', 'gradients: H0 total')
    """
    return catalogue_table(DECLARED)


def completed(declared: pd.DataFrame | None) -> pd.DataFrame:
    """Return a catalogue with its gaps filled: the columns `about` and `leads`, and the package's own probes.

    A store of a version without these columns is completed from the declarations of the package's own
    probes. A feature of another probe then counts as one of weights, or of gradients if the probe's name says
    so, and has no `leads`. Without a catalogue, the package's own is returned.

    >>> old = own_catalogue().drop(columns=["about", "leads"])
    >>> completed(old)[["about"]].equals(own_catalogue()[["about"]])
    True
    """
    import pandas as pd

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
def _ours() -> pd.DataFrame:
    return own_catalogue()


def _filled(line: dict[Hashable, Any]) -> dict[Hashable, Any]:
    ours = {feature.name: feature for feature in DECLARED.get(line["probe"], ())}
    known = ours.get(line["feature"])
    if known is None:
        default = About.GRADIENTS if str(line["probe"]).startswith(weights.GRADIENT) else About.WEIGHTS
        return {**line, "about": str(default), "leads": []}
    return {**line, **{name: declared_line(line["probe"], known)[name] for name in _ADDED}}
