"""The declaration of a figure: its file, what it needs, its caption, the questions that it answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.study.findings.base import QUESTIONS
from toposcope.study.own import every_question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from toposcope.study.study import Study

SUBJECT = "{subject}"
"""Placeholder for the subject in the file name of a figure that may stand on several parts of a page."""


@dataclass(frozen=True, slots=True)
class Caption:
    """The words under a figure; `alt` describes it to a reader who cannot see it."""

    title: str
    shows: str
    can: str
    cannot: str
    alt: str


def _always(study: Study) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class OnPage:
    """A figure of the page, declared once, in the module that draws it.

    Parameters
    ----------
    name : str
        The name of its file, without ending: small letters, digits and _. It must be unique. "{subject}" in
        it stands for the subject whose part it is on.
    draw : callable
        Returns the figure of a study.
    caption : callable
        Returns its words for a study.
    needs : callable
        Returns whether a study has what is drawn. By default every study has.
    questions : mapping of str to int
        The questions on whose cards it may stand, each with its place. A card shows the figure with the
        lowest place that was drawn, and of equal ones the first in reading order.
    means : bool
        Whether it draws means over seeds. Its caption then says which runs they are taken over.
    of_log : bool
        Whether it shows the training log alone. Where several parts of a page are on the same runs, one of
        them shows it.
    leads : bool
        Whether it may stand on the first screen: the first of a part's figures that leads does.
    folded : bool
        Whether it is closed until its title is clicked, because it answers no question of its own.
    about : str
        For a figure from outside the package, the subject on whose part it stands: "" is every part. The
        package's own figures are listed by their subject.

    Raises
    ------
    InputError
        When the name cannot be a file's name, or a question is not one of the page's.
    """

    name: str
    draw: Callable[[Study], Figure]
    caption: Callable[[Study], Caption]
    needs: Callable[[Study], bool] = _always
    questions: Mapping[str, int] = field(default_factory=dict)
    means: bool = False
    of_log: bool = False
    leads: bool = False
    folded: bool = False
    about: str = ""

    def __post_init__(self) -> None:
        """Refuse an impossible file name, and questions that no page has."""
        if not re.fullmatch(r"[a-z0-9_]+", self.name.replace(SUBJECT, "x")):
            raise InputError(
                f"figure {self.name!r}: the name may contain only small letters, digits and _; change it"
            )
        unknown = [question for question in self.questions if question not in QUESTIONS]
        if unknown and unknown[0] not in (asked := every_question()):
            raise InputError(
                f"figure {self.name!r}: questions has {unknown[0]!r}, which no page asks; use "
                f"{', '.join(asked)}"
            )

    def named(self, name: str) -> OnPage:
        """Return the same figure under another file name, for another part of the page."""
        return replace(self, name=name)

    def file_name(self, subject: str) -> str:
        """Return the name of its file on the part of a subject."""
        return self.name.replace(SUBJECT, subject)
