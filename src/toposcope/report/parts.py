"""What a page is made of: figures with captions, tables ready to print, and the parts that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure

from toposcope.figures.style import to_png, to_svg


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
class Table:
    """A table ready to print.

    `groups` are headings over several columns: (text, number of columns). `frame` holds the unrounded
    numbers, which are written beside the page as `name`.csv. `folded` tables start closed on the page;
    in `grouped` ones the first column becomes a heading over its rows.
    """

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    folded: bool = False
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What a page says about one kind of object: weights, or representations.

    `headline` is its answer in one line, `answers` pairs of a question and a paragraph. `lead` is the table
    that stands under the answer. Figures and tables have names that no other part uses: they are files.
    """

    name: str
    heading: str
    subject: str
    headline: str
    answers: tuple[tuple[str, str], ...]
    pictures: tuple[Picture, ...]
    tables: Mapping[str, Table]
    lead: str


@dataclass(frozen=True, slots=True)
class Page:
    """All that is printed on one page; the last four fields are lines of its closing lists and tables."""

    title: str
    parts: tuple[Part, ...]
    findings: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]
    failures: tuple[tuple[str, ...], ...]
    provenance: tuple[tuple[str, ...], ...]


def drawn(figures: Iterable[tuple[str, Figure]], captions: Mapping[str, Caption]) -> Iterator[Picture]:
    """Yield the figures as pictures, each with its caption by name."""
    for name, figure in figures:
        svg = to_svg(figure)
        figure.set_layout_engine("none")  # the layout is settled; finding it again takes most of the time
        yield Picture(name, svg, to_png(figure), captions[name])
