"""The figures of every part of a page: of its subject, of every subject, and of installed packages."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Iterable

from toposcope.core.errors import InputError
from toposcope.core.plugins import brought, leave_out
from toposcope.page.figures import correlations, faults, forecast, leading, losses
from toposcope.page.on_page import SUBJECT, OnPage
from toposcope.study.own import every_question
from toposcope.subjects.roster import subjects
from toposcope.subjects.subject import TABLE, Subject

GROUP = "toposcope.figures"
"""The entry points under which an installed package brings a figure: NAME = "module:ON_PAGE"."""

PLAIN: tuple[OnPage, ...] = (
    losses.ON_PAGE,
    correlations.ON_PAGE.named("{subject}_correlations"),
    forecast.ON_PAGE.named("{subject}_forecast"),
)
"""The figures of a table made elsewhere, and of a subject that lists none."""

_ADDED: list[OnPage] = []


def figures_of(subject: Subject) -> tuple[OnPage, ...]:
    """Return every figure that may stand on the part of a subject, in reading order.

    Raises
    ------
    InputError
        When an installed package brings something that is not a figure, or a file name that is taken.
    """
    further = [figure for figure in (*_installed(), *_ADDED) if figure.about in ("", subject.name)]
    return (*_own(subject), *further)


def _own(subject: Subject) -> tuple[OnPage, ...]:
    listed = pkgutil.resolve_name(subject.figures) if subject.figures else PLAIN
    return (faults.ON_PAGE, *listed, leading.ON_PAGE)


def add_figure(figure: OnPage) -> OnPage:
    """Let a figure stand on every page that this process writes, and return it.

    A package that is installed brings its figures to every process by the entry points `toposcope.figures`.

    Raises
    ------
    InputError
        When another figure has its file name.
    """
    if not any(figure is added_figure for added_figure in _ADDED):
        _ADDED.append(_free(figure, (*_installed(), *_ADDED)))
    return figure


@functools.cache
def _installed() -> tuple[OnPage, ...]:
    figures: list[OnPage] = []
    for brought_figure in brought(GROUP, OnPage):
        try:
            figures.append(_free(brought_figure, figures))
        except InputError as error:
            leave_out(f"{GROUP}: {error}")
    return tuple(figures)


def _free(figure: OnPage, others: Iterable[OnPage]) -> OnPage:
    """Return the figure of a package, unless a file of the page has its name already."""
    if not figure.about and SUBJECT not in figure.name:
        raise InputError(
            f"figure {figure.name!r} may stand on several parts of a page; give it `about`, or put "
            f"{SUBJECT} into its name"
        )
    if figure.about and figure.about not in (
        names := [subject.name for subject in (*subjects().values(), TABLE)]
    ):
        raise InputError(
            f"figure {figure.name!r} is about {figure.about!r}, which is not a subject; use one of "
            f"{', '.join(names)}, or add the subject first"
        )
    taken = {
        taken_figure.file_name(to.name) for to in (*subjects().values(), TABLE) for taken_figure in _own(to)
    }
    taken.update(name for other_figure in others for name in _files(other_figure))
    for name in _files(figure):
        if name in taken:
            raise InputError(f"figure {name!r} exists already; give yours another name")
    return figure


def _files(figure: OnPage) -> list[str]:
    """Return the file names of a package's figure, on every part where it may stand."""
    parts = [figure.about] if figure.about else [subject.name for subject in (*subjects().values(), TABLE)]
    return [figure.file_name(part) for part in parts]


def on_cards(parts: Iterable[Subject]) -> list[str]:
    """Return the file names of the figures that answer questions on these parts, grouped by question.

    Figures for the first screen come first, then those that show what changed.
    """
    wanted = [(subject, figure) for subject in parts for figure in figures_of(subject)]
    ordered = sorted(every_question(), key=lambda question: question != "changed")
    names = [
        figure.file_name(subject.name)
        for question in ordered
        for subject, figure in sorted(wanted, key=lambda pair: pair[1].questions.get(question, 0))
        if question in figure.questions
    ]
    leading = [figure.file_name(subject.name) for subject, figure in wanted if figure.leads]
    return list(dict.fromkeys([*leading, *names]))
