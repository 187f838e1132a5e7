"""The subjects by name: those of the package, and those of installed packages."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Collection, Mapping, Sequence

from toposcope.core.errors import InputError
from toposcope.core.plugins import brought, leave_out
from toposcope.subjects.subject import Subject

FOLDERS = ("weights", "gradients", "representations", "landscape", "optimizer")
"""A subject of the package is a folder beside this file with a `subject.py` that has SUBJECT, named here."""
COMMANDS_OF = {
    "weights": "weights",
    "gradients": "weights",
    "representations": "embeddings",
    "landscape": "landscape",
    "optimizer": "optimizer",
}
"""The command that measures a subject; that of any other folder is made from its request."""
GROUP = "toposcope.subjects"
"""The entry points under which an installed package provides a subject: NAME = "module:SUBJECT"."""


SAVED_STATES = "saved states"


@functools.cache
def own_subjects() -> tuple[Subject, ...]:
    """Return the subjects of the package."""
    return tuple(map(_of_folder, FOLDERS))


@functools.cache
def subjects() -> Mapping[str, Subject]:
    """Return every subject by its name, in the order of the page; an unsound one of a package is left out."""
    subjects_by_name: dict[str, Subject] = {subject.name: subject for subject in own_subjects()}
    for offered in brought(GROUP, Subject):
        if offered.name in subjects_by_name:
            leave_out(f"{GROUP}: the name {offered.name!r} is taken; rename the subject of the package")
        else:
            subjects_by_name[offered.name] = offered
    return dict(sorted(subjects_by_name.items(), key=lambda item: item[1].order))


def with_made_command() -> dict[str, Subject]:
    """Return the subjects whose command is made from their request; no subject with its own is imported."""
    folders = [folder for folder in FOLDERS if folder not in COMMANDS_OF]
    with_command = [
        *map(_of_folder, folders),
        *(subject for subject in brought(GROUP, Subject) if subject.name not in FOLDERS),
    ]
    chosen: dict[str, Subject] = {}
    for subject in with_command:
        if subject.measurable:
            chosen.setdefault(subject.name, subject)
    return dict(sorted(chosen.items(), key=lambda item: item[1].order))


def _of_folder(folder: str) -> Subject:
    subject: Subject = importlib.import_module(f"toposcope.subjects.{folder}.subject").SUBJECT
    return subject


def users_of(name: str) -> tuple[str, ...]:
    """Return what uses a field of `TextRequest` or an argument of `measure`: subjects, then saved states.

    >>> users_of("limit"), users_of("preset")[:2]
    (('representations', 'saved states'), ('weights', 'gradients'))
    """
    every = subjects()
    of_ours = [every[folder] for folder in FOLDERS if folder in every]
    ordered = list(dict.fromkeys([*of_ours, *every.values()]))
    saved = any(name in subject.uses_saved for subject in ordered)
    return (
        *(str(subject.name) for subject in ordered if name in subject.uses),
        *((SAVED_STATES,) if saved else ()),
    )


def subject_measured(names: Collection[str]) -> Subject:
    """Return the subject that features of these names measure; names that no subject has are of weights.

    >>> [str(subject_measured([name]).name) for name in ("rips", "surface", "sensitivity")]
    ['weights', 'landscape', 'representations']
    """
    every = subjects()
    # of names of several subjects the later one decides: `gradients` stands beside those of weights
    of_package = [every[folder] for folder in reversed(FOLDERS) if folder in every]
    further = [subject for subject in every.values() if subject not in of_package]
    named = (subject for subject in (*further, *of_package) if {*names} & {subject.name, *subject.features})
    return next(named, every[FOLDERS[0]])


def measurable() -> dict[str, Subject]:
    """Return the subjects that are measured from a request alone: not the package's first four."""
    return {name: subject for name, subject in subjects().items() if subject.measurable}


def further_subject(features: Sequence[str]) -> Subject | None:
    """Return the subject among `features` that is measured from a request alone, if one is.

    Raises
    ------
    InputError
        If there are other features beside it: a store has one request.
    """
    further = measurable()
    alone_features = [further[name] for name in features if name in further]
    if alone_features and len(features) > 1:
        raise InputError(
            f"{alone_features[0].name} cannot be combined with other features",
            argument="features",
            value=",".join(features),
            remedy="name only it",
        )
    return alone_features[0] if alone_features else None


def subject_of(name: str) -> Subject:
    """Return the subject of this name; if it is not installed here, a plain one.

    A store can be read without the package that measured it.

    >>> subject_of("weights").heading, subject_of("attention").heading
    ('Weights', 'Attention')
    """
    subject = subjects().get(name)
    if subject is not None:
        return subject
    return Subject(
        name=name, heading=name.capitalize(), topology=f"the topology of {name}",
        title=f"Features of {name} during training.", null=f"the nulls of {name}",
    )  # fmt: skip
