"""The subjects by name: those of the package, and those of installed packages."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.plugins import brought
from toposcope.core.types import About, Scope
from toposcope.subjects.catalogue import completed
from toposcope.subjects.subject import Subject

FOLDERS = ("gradients", "weights", "representations", "landscape")
"""A subject of the package is a folder beside this file with a `subject.py` that has SUBJECT, named here."""
GROUP = "toposcope.subjects"
"""The entry points under which an installed package provides a subject: NAME = "module:SUBJECT"."""


@functools.cache
def subjects() -> Mapping[str, Subject]:
    """Return every subject by its name, in the order of the page.

    Raises
    ------
    InputError
        If an installed package names something that is not a subject, or a name that is taken.
    """
    own = [importlib.import_module(f"toposcope.subjects.{folder}.subject").SUBJECT for folder in FOLDERS]
    found: dict[str, Subject] = {subject.name: subject for subject in own}
    for one in brought(GROUP, Subject):
        if one.name in found:
            raise InputError(f"{GROUP}: the name {one.name!r} is taken", remedy="rename the subject")
        found[one.name] = one
    return dict(sorted(found.items(), key=lambda item: item[1].order))


def measurable() -> dict[str, Subject]:
    """Return the subjects that can be measured from a request alone: those of installed packages."""
    return {name: one for name, one in subjects().items() if one.measurable}


def subject_of(name: str) -> Subject:
    """Return the subject of this name; if it is not installed here, a plain one.

    A store can be read without the package that measured it.

    >>> subject_of("weights").heading, subject_of("optimizer").heading
    ('Weights', 'Optimizer')
    """
    found = subjects().get(name)
    if found is not None:
        return found
    return Subject(
        name=name, heading=name.capitalize(), topology=f"the topology of {name}",
        title=f"Features of {name} during training.", null=f"the nulls of {name}",
    )  # fmt: skip


def about(features: pd.DataFrame, catalogue: pd.DataFrame | None = None) -> pd.Series:
    """Return the subject of each row, by a store's `catalogue` or the declarations of the package's probes.

    >>> about(pd.DataFrame({"probe": ["rips", "mine"], "feature": ["h0_total", "x"]})).tolist()
    ['weights', 'weights']
    """
    lines = completed(catalogue)[["probe", "feature", "about"]].drop_duplicates(["probe", "feature"])
    found = features[["probe", "feature"]].merge(lines, on=["probe", "feature"], how="left")["about"]
    return found.fillna(str(About.WEIGHTS)).set_axis(features.index)


def rows_of(
    features: pd.DataFrame, catalogue: pd.DataFrame | None = None
) -> list[tuple[Subject, pd.DataFrame]]:
    """Return the subjects of a store's rows, each with the rows that its study reads.

    Gradients in a store of weights or of representations are listed with these.
    """
    of = about(features, catalogue)
    gradients = of == About.GRADIENTS
    found = []
    for name in dict.fromkeys(map(str, of[~gradients])):
        mine = of == name
        if name == About.REPRESENTATIONS and (features.loc[mine, "scope"] == Scope.SETTING).all():
            continue  # the sensitivity to settings, without the measurement itself
        if name in (About.WEIGHTS, About.REPRESENTATIONS):
            mine |= gradients
        found.append((subject_of(name), features[mine]))
    if gradients.any() and not {About.WEIGHTS, About.REPRESENTATIONS} & {one.name for one, _ in found}:
        found.append((subject_of(About.GRADIENTS), features[gradients]))
    return sorted(found, key=lambda pair: pair[0].order)
