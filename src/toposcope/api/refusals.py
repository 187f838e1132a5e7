"""Refuses arguments that have no meaning for what is measured; they are never ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from toposcope.api.representations import TextRequest
from toposcope.core.errors import InputError
from toposcope.subjects.roster import subject_of

WEIGHTS, GRADIENTS, SAVED_STATES = "weights", "gradients", "saved states"
REPRESENTATIONS, LANDSCAPE = "representations", "landscape"
TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    "texts": (GRADIENTS, REPRESENTATIONS, LANDSCAPE),
    "limit": (REPRESENTATIONS, SAVED_STATES),
    "tokenizer": (REPRESENTATIONS, LANDSCAPE),
    "recipe": (LANDSCAPE,),
    "device": (REPRESENTATIONS, LANDSCAPE),
    "preset": (WEIGHTS, GRADIENTS, REPRESENTATIONS, SAVED_STATES),
    "steps": (WEIGHTS, GRADIENTS, REPRESENTATIONS, LANDSCAPE),
    "min_chars": (REPRESENTATIONS, LANDSCAPE),
    "split": (REPRESENTATIONS, LANDSCAPE),
    "labelled": (REPRESENTATIONS,),
    "grid": (REPRESENTATIONS, SAVED_STATES),
    "keep": (REPRESENTATIONS,),
}
"""For each argument of `measure` and each field of `TextRequest`, the subjects that use it."""


BUILT_IN = (WEIGHTS, GRADIENTS, REPRESENTATIONS, LANDSCAPE, SAVED_STATES)
"""What `measure` measures without a further package; of another subject it takes `steps`, and its request."""


def kind_of(names: Collection[str], *, saved_states: bool) -> str:
    """Return the subject that features of these names measure.

    >>> [kind_of([name], saved_states=False) for name in ("rips", "surface", "sensitivity")]
    ['weights', 'landscape', 'representations']
    """
    if saved_states:
        return SAVED_STATES
    for kind in (LANDSCAPE, REPRESENTATIONS):
        if {*names} & {kind, *subject_of(kind).features}:
            return kind
    return GRADIENTS if GRADIENTS in names else WEIGHTS


def refuse_meaningless(kind: str, features: str, given: Mapping[str, object]) -> None:
    """Raise InputError for the first given argument that has no meaning for this kind of measurement."""
    settings = dict(given)
    if isinstance(texts := settings.get("texts"), TextRequest):
        settings |= _said(texts)
    for name, value in settings.items():
        if value is not None and kind not in TAKEN_BY[name] and (kind in BUILT_IN or name != "steps"):
            raise InputError(
                f"{name} {value if isinstance(value, int) else str(value)!r}: features {features!r} do not "
                f"use it; it is for {', '.join(TAKEN_BY[name])}; leave it out"
            )


def _said(texts: TextRequest) -> dict[str, object]:
    """Return the fields of a `TextRequest` that differ from their defaults, None for the others."""
    defaults = {field.name: field.default for field in dataclasses.fields(TextRequest)}
    named = {name: getattr(texts, name) for name in defaults if name != "features"}
    return {name: None if value == defaults[name] else value for name, value in named.items()}


def refuse_both(name: str, value: object, other: str) -> None:
    """Raise InputError for an argument that is given together with the one that replaces it."""
    raise InputError(f"{name} {value!r}: {other}, which replaces it, is given too; leave one of them out")
