"""The refusal of what means nothing for what is measured."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.subjects.roster import SAVED_STATES, users_of
from toposcope.subjects.subject import Subject
from toposcope.subjects.text_request import TextRequest

NO_MODEL = f"{SAVED_STATES} do not use it: they open no model"
"""Why a measurement of saved states refuses an option."""


def refuse_unused(
    subject: Subject, features: Sequence[str], request: TextRequest, *, saved: bool = False, **more: object
) -> None:
    """Refuse the first part of a request, or argument in `more`, that the measurement of a subject ignores.

    With `saved` it is the measurement of its saved states, which opens no model.

    Raises
    ------
    InputError
        Naming it, and the kinds that it is for.
    """
    given = request.given() | {name: value for name, value in more.items() if value is not None}
    for name, value in given.items():
        if name in (subject.uses_saved if saved else (*subject.uses, "steps")):
            continue
        raise InputError(
            NO_MODEL
            if saved
            else f"{option('features')} {','.join(features) or 'your own'!r} do not use it; it is for "
            f"{', '.join(users_of(name))}",
            argument=name,
            value=value if isinstance(value, int) else str(value),
            remedy="leave it out",
        )
    for name in ("min_chars", "split"):
        if name in given and request.texts is None:
            raise InputError(
                "it selects texts, and none are given",
                argument=name,
                value=given[name],
                remedy=f"give {option('texts')}, or leave it out",
            )
