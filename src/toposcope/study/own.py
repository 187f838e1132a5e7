"""The tables and questions that a subject declares for its studies; a study loads them when it needs them."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd

from toposcope.core.errors import InputError
from toposcope.study.findings.base import QUESTIONS, Question
from toposcope.subjects.roster import subjects
from toposcope.subjects.subject import Subject

PARTS = (
    "families", "trends", "replicates", "lags", "phases", "segments", "saturation", "scaling", "exponents",
    "forecasts", "forecast_effects",
)  # fmt: skip
"""The names of the tables that every analysis has."""
_TAKEN = (
    *PARTS,
    "answer",
    "groups",
    "findings",
    "verdict",
    "problems",
    "read",
    "true_rates",
    "true_rates_of",
    "all",
)
"""Names that no subject's table may have: `analyze --json` has these fields."""

Declared = TypeVar("Declared", "SubjectTable", Question)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubjectTable:
    """A result table that only the studies of one subject have.

    Parameters
    ----------
    name : str
        Its name in `Analysis.tables`, in `analyze --table` and `--json`, and the name of its file.
    make : callable
        Returns the table of a study (`StudyTables`); without rows if the study has no data for it.
    title, note : str
        Its title on the page, and what its columns mean.
    """

    name: str
    make: Callable[[Any], pd.DataFrame]
    title: str = ""
    note: str = ""


def tables_of(subject: Subject) -> tuple[SubjectTable, ...]:
    """Return the tables that a subject declares, in reading order.

    Raises
    ------
    InputError
        If it declares something else, or a name is taken.
    """
    return _declared(subject, "tables", SubjectTable, _TAKEN)


def questions_of(subject: Subject) -> tuple[Question, ...]:
    """Return the questions that a subject declares, in reading order.

    Raises
    ------
    InputError
        If it declares something else, or a name is taken.
    """
    return _declared(subject, "questions", Question, tuple(QUESTIONS))


def every_table() -> list[str]:
    """Return the names of the tables that any subject declares."""
    return list(dict.fromkeys(table.name for subject in subjects().values() for table in tables_of(subject)))


def every_question() -> list[str]:
    """Return the questions of every study, then those that any subject declares."""
    declared = (question.name for subject in subjects().values() for question in questions_of(subject))
    return list(dict.fromkeys((*QUESTIONS, *declared)))


def _declared(
    subject: Subject, field: str, kind: type[Declared], taken: tuple[str, ...]
) -> tuple[Declared, ...]:
    place = getattr(subject, field)
    if not place:
        return ()
    where = f"subject {subject.name!r}: {field} is {place!r}"
    try:
        entries = tuple(pkgutil.resolve_name(place))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InputError(f"{where}, which cannot be read ({error}); give MODULE:NAME of a tuple") from error
    seen = set(taken)
    for entry in entries:
        if not isinstance(entry, kind):
            raise InputError(
                f"{where}, which has a {type(entry).__name__}; list only objects of {kind.__name__}"
            )
        if entry.name in seen:
            raise InputError(
                f"{where}, which has the name {entry.name!r}, which is taken; choose another name"
            )
        seen.add(entry.name)
    return entries
