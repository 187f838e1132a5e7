"""What a page is made of: figures with captions, tables ready to print, and the parts that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from toposcope.analysis.findings import words
from toposcope.analysis.groups import size_list
from toposcope.analysis.study import Study
from toposcope.figures.style import to_png, to_svg
from toposcope.tabular import Table


@dataclass(frozen=True, slots=True)
class Caption:
    """The words under a figure; `alt` is what a reader who cannot see it is told."""

    title: str
    shows: str
    can: str
    cannot: str
    alt: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure as bytes, with its file name (without ending) and its caption."""

    name: str
    svg: bytes
    png: bytes
    caption: Caption


@dataclass(frozen=True, slots=True)
class Part:
    """What a page says about one kind of object: weights, gradients or representations.

    `said` is its answer: one line, its ground, its limits; `answers` pairs of a question and a paragraph.
    `lead` is the table that stands under the answer. Figures and tables have names that no other part uses:
    they are files.
    """

    name: str
    heading: str
    subject: str
    said: words.Said
    answers: tuple[tuple[str, str], ...]
    pictures: tuple[Picture, ...]
    tables: Mapping[str, Table]
    lead: str

    @property
    def headline(self) -> str:
        """The answer in one line."""
        return self.said.act


@dataclass(frozen=True, slots=True)
class Page:
    """All that is printed on one page; the last four fields are lines of its closing lists and tables."""

    title: str
    parts: tuple[Part, ...]
    findings: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]
    failures: tuple[tuple[str, ...], ...]
    provenance: tuple[tuple[str, ...], ...]


def part_of(
    study: Study,
    figures: Iterable[tuple[str, Figure]],
    captions: Mapping[str, Caption],
    tables: Iterable[Table],
) -> Part:
    """Put the part on one study together; tables without a row are left out."""
    found = study.findings
    return Part(
        name=study.subject.name,
        heading=study.subject.heading,
        subject=f"{study.subject.title} Model sizes: {size_list(study.runs)}.",
        said=words.said(found, found.lead),
        answers=tuple(
            (found.title(one), text)
            for one in found
            if one is not found.lead and (text := words.said(found, one).text)
        ),
        pictures=tuple(drawn(figures, captions)),
        tables={table.name: table for table in tables if table.rows},
        lead="families",
    )


def drawn(figures: Iterable[tuple[str, Figure]], captions: Mapping[str, Caption]) -> Iterator[Picture]:
    """Yield the figures as pictures, each with its caption by name."""
    for name, figure in figures:
        svg = to_svg(figure)
        figure.set_layout_engine("none")  # the layout is settled; finding it again takes most of the time
        yield Picture(name, svg, to_png(figure), captions[name])
