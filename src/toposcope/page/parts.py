"""The contents of a page: figures with captions, tables ready to print, and the parts with them."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from toposcope.core.drawing.rendering import FOLDED, Rendered, TracedCurve, begin_rendering
from toposcope.core.forms import and_more, listed
from toposcope.core.groups import families_of, short
from toposcope.core.lines import left_out_of_means
from toposcope.core.plugins import spared
from toposcope.core.tabular import Table
from toposcope.files.formats.adapter import names_adapter
from toposcope.page._plain import tables_on_page
from toposcope.page.notes import once
from toposcope.page.on_page import Caption, OnPage
from toposcope.page.roster import figures_of
from toposcope.study.findings import Finding, Findings, words
from toposcope.study.findings.summary import FirstScreen, common, leading, without
from toposcope.study.study import Study


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure as bytes, with its file name (without ending) and its caption.

    `narrow` is the same as SVG for a phone, where it has one; a `folded` one starts closed. `curves` answer
    to a pointer.
    """

    name: str
    svg: bytes
    png: bytes
    caption: Caption
    folded: bool = False
    narrow: bytes = b""
    curves: tuple[TracedCurve, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One question with its answer in words, and the figure that shows it, if any."""

    question: str
    said: words.Said
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class SurfaceView:
    """What the page's script draws: a frame for each checkpoint, as plain lists.

    A frame has `step`, `values` (rows of losses; None where masked), `branches` and `confirmed`: the places
    of each minimum, then, where its branch ends, of the saddle and of the minimum that survives there. The
    confirmed ones are those of half of the sequences.
    """

    caption: Caption
    frames: list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class PagePart:
    """What a page says about one kind of object: weights, gradients or representations.

    `first` is its first screen, below which stands `opening`; `answers` are those to its questions, and
    `pictures` the other figures. `lead` is the table of verdicts. Figures and tables have names that no other
    part uses: they are files. `view` is what a script draws below the figures.
    A part that is `aside` is about odd runs alone: the first screen of their siblings names them.
    """

    name: str
    heading: str
    subject: str
    first: FirstScreen
    opening: Picture | None
    answers: tuple[Answer, ...]
    pictures: tuple[Picture, ...]
    tables: Mapping[str, Table]
    lead: str
    view: SurfaceView | None = None
    aside: bool = False
    group: str = ""

    @property
    def pointed(self) -> bool:
        """Whether any of its figures has curves that answer to a pointer."""
        return any(picture.curves for picture in (*self.pictures, *filter(None, [self.opening])))

    @property
    def figures(self) -> list[str]:
        """The file names of its figures."""
        on_cards = (self.opening, *(answer.picture for answer in self.answers))
        shown = (picture for picture in (*on_cards, *self.pictures) if picture is not None)
        return list(dict.fromkeys(picture.name for picture in shown))


@dataclass(frozen=True, slots=True)
class Page:
    """All that is printed on one page; its headline is the title of the gravest part.

    `findings` to `provenance` are lines of its closing lists and tables.

    `apart` is the line that says which runs do not belong together; "" where all do.
    """

    title: str
    parts: tuple[PagePart, ...]
    findings: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]
    failures: tuple[tuple[str, ...], ...]
    provenance: tuple[tuple[str, ...], ...]
    apart: str = ""

    @property
    def shown_first(self) -> tuple[PagePart, ...]:
        """The parts whose first screens are shown: all except those about odd runs only."""
        return tuple(part for part in self.parts if not part.aside) or self.parts

    @property
    def screens(self) -> tuple[tuple[FirstScreen | None, tuple[tuple[PagePart, FirstScreen], ...]], ...]:
        """For each group of runs what the first screens of its parts share, and each part with the rest."""
        by_group: dict[str, list[PagePart]] = {}
        for part in self.shown_first:
            by_group.setdefault(part.group, []).append(part)
        return tuple(map(_shared_screen, by_group.values()))

    @property
    def headline(self) -> str:
        """The title of the first part with something wrong, else of the first part."""
        return leading([part.first for part in self.parts]).title


def _shared_screen(
    parts: Sequence[PagePart],
) -> tuple[FirstScreen | None, tuple[tuple[PagePart, FirstScreen], ...]]:
    if len(parts) == 1:
        return None, ((parts[0], parts[0].first),)
    shared = common([part.first for part in parts])
    return shared, tuple((part, without(part.first, shared)) for part in parts)


def of_group(part: PagePart, label: str, number: int) -> PagePart:
    """Return a part about one of several groups of runs: its heading and its tables say which.

    Figures and tables are files: from the second group on their names end in the group's number.
    """
    end = f"_{number}" if number > 1 else ""

    def named(picture: Picture | None) -> Picture | None:
        if picture is None:
            return None
        return replace(picture, name=picture.name + end)

    tables = (
        replace(table, name=name + end, title=f"{table.title} ({label})")
        for name, table in part.tables.items()
    )
    return replace(
        part,
        group=label,
        name=part.name + end,
        heading=f"{part.heading}: {label}",
        answers=tuple(replace(answer, picture=named(answer.picture)) for answer in part.answers),
        opening=named(part.opening),
        pictures=tuple(filter(None, map(named, part.pictures))),
        tables={table.name: table for table in tables},
        lead=part.lead and part.lead + end,
    )


def pieces_of(study: Study) -> int:
    """Return how many pieces of work the part on a study is: its figures, its tables and what renders it."""
    return len(figures_of(study.subject)) + 2


def part_of(
    study: Study, *, beside: Collection[str] = (), advance: Callable[[], None] = lambda: None
) -> PagePart:
    """Put the part on one study together: the figures that it has numbers for, and tables with a row.

    Its subject says which figures, tables and view (`Subject.figures`, `page_tables`, `view`).

    The figures come first: a second process renders them while the tables are computed. `beside` has the
    file names of figures that other parts of the page show of the same runs: they are not drawn again, nor
    are the curves of the training logs. `advance` is called after each of its `pieces_of`.
    """
    if study.has_curves and study.target:
        study.leading  # noqa: B018  with the bootstrap that tables quote: the words take it, too, if it is there

    rendered = _begin_pictures(study, beside, advance)
    page_tables = [table for table in tables_on_page(study) if table.rows]
    findings = study.findings
    advance()
    name = study.subject.name
    opening, pictures = _without_repeats(
        (
            figure,
            Picture(
                figure.file_name(name), r.svg, r.png, worded(study, figure), figure.folded, r.narrow, r.curves
            ),
        )
        for figure, r in rendered()
    )
    advance()
    return PagePart(
        name=study.subject.name,
        heading=study.subject.heading,
        subject=study.subject.title + _of_sizes(study) + _of_adapters(study),
        first=findings.first,
        opening=opening,
        answers=tuple(
            Answer(findings.title(finding), answer, _on_card(finding.question, pictures))
            for finding in findings
            if finding.question not in ("trained", _JOINED[1])
            and (finding.question, finding.strength) not in _NO_CARD
            and (finding.question != "scale" or len(study.sizes) > 1)
            and (answer := _said(findings, finding)).text
        ),
        pictures=tuple(picture for _, picture in pictures if picture is not opening),
        tables={table.name: table for table in page_tables},
        lead="families" if any(findings["beyond"].numbers.get(which) for which in _TESTED) else "",
        view=_view(study),
        aside=study.aside,
    )


def _view(study: Study) -> SurfaceView | None:
    """Return what a script draws below the figures of a part, if its subject has such a view."""
    view: SurfaceView | None = None
    if study.subject.view:
        view = pkgutil.resolve_name(study.subject.view)(study)
    return view


def _begin_pictures(
    study: Study, beside: Collection[str], advance: Callable[[], None]
) -> Callable[[], list[tuple[OnPage, Rendered]]]:
    """Draw the figures of a part; return a function that returns each with its bytes, in reading order.

    The loss curves, which lead, show what the findings say. They are drawn last: meanwhile the second
    process renders the others.
    """
    own_figures = [
        figure
        for figure in figures_of(study.subject)
        if not (figure.of_log and len(beside) > 0) and figure.file_name(study.subject.name) not in beside
    ]
    drawn: list[OnPage] = []

    def draw() -> Iterator[Figure]:
        for to_draw in sorted(own_figures, key=lambda one: one.leads):
            if spared(to_draw.needs, False, study):
                figure = spared(to_draw.draw, None, study)
                if figure is not None:
                    drawn.append(to_draw)
                    figure.set_label(FOLDED if to_draw.folded else "")
                    yield figure
            advance()
        for _ in range(len(figures_of(study.subject)) - len(own_figures)):
            advance()

    rendered = begin_rendering(draw(), expected=len(own_figures))

    def finished() -> list[tuple[OnPage, Rendered]]:
        of = dict(zip((figure.name for figure in drawn), rendered(), strict=True))
        return [(figure, of[figure.name]) for figure in own_figures if figure.name in of]

    return finished


_TESTED = ("tested", "baselines_tested")
"""Counts of tested features: the table of verdicts leads if any is positive; else all its rows are equal."""
_NO_CARD = (("odd", "alone"), ("end", "unscored"), ("on", "finished"), ("on", "too few"))
"""Findings without a card: they have no answer, or a check of the first screen gives it."""


_JOINED = ("beyond", "rivals")
"""Two findings that answer one question, whether topology says more than cheaper numbers: one card."""


def _said(findings: Findings, finding: Finding) -> words.Said:
    """Return the words on the card of a finding, with those of the finding that is joined to it."""
    sentences, other = findings.said(finding), findings.get(_JOINED[1])
    if finding.question != _JOINED[0] or other is None:
        return sentences
    more = findings.said(other)
    parts = {
        name: f"{getattr(sentences, name)} {getattr(more, name)}".strip()
        for name in ("act", "ground", "limits")
    }
    return replace(sentences, **parts)


def _on_card(question: str, pictures: Iterable[tuple[OnPage, Picture]]) -> Picture | None:
    """Return the picture of a question's card: the first possible one that was drawn."""
    there = [
        (figure.questions[question], picture) for figure, picture in pictures if question in figure.questions
    ]
    return min(there, key=lambda pair: pair[0])[1] if there else None


def _without_repeats(
    drawn: Iterable[tuple[OnPage, Picture]],
) -> tuple[Picture | None, list[tuple[OnPage, Picture]]]:
    """Return the picture that opens the part, and all pictures; no caption repeats one above it."""
    pairs = list(drawn)
    opens = (
        [figure.leads for figure, _ in pairs]
        if any(figure.leads for figure, _ in pairs)
        else [not picture.folded for _, picture in pairs]
    )
    first = opens.index(True) if any(opens) else -1
    seen: set[str] = set()
    for at in sorted(range(len(pairs)), key=lambda at: (at != first, pairs[at][1].folded)):
        figure, picture = pairs[at]
        pairs[at] = figure, replace(picture, caption=once(picture.caption, seen))
    return (pairs[first][1] if first >= 0 else None), pairs


_NAMED = 4
"""The most runs that a caption names because they end before others of their size."""


def worded(study: Study, figure: OnPage) -> Caption:
    """Return the caption of a figure; for means over seeds it says which runs they are of."""
    caption = figure.caption(study)
    return replace(caption, shows=caption.shows + of_means(study)) if figure.means else caption


def of_means(study: Study) -> str:
    """Say what is drawn of seeds: a line for each run, and their mean where all of them are."""
    sizes = [group for group in study.sizes if len(group.runs) > 1]
    if not sizes:
        return ""
    rows = study.series.values[["run", "step"]]
    short = {run: step for group in sizes for run, step in left_out_of_means(rows, group.runs).items()}
    ends = "; ".join(f"{run} ends at step {step:,}" for run, step in list(short.items())[:_NAMED])
    more = and_more(len(short) - _NAMED, "more runs end before others of their size", form="; {}")
    where = f" ({ends}{more})" if short else ""
    return (
        " A thin line is one run. A thick one is the mean over a size's runs, drawn only at the steps that "
        f"all of them have{where}."
    )


def _of_sizes(study: Study) -> str:
    """Say which sizes the models have; empty where none is known."""
    sizes = list(dict.fromkeys(short(group.parameters) for group in study.sizes if group.parameters > 0))
    return f" Model size{'s' * (len(sizes) != 1)}: {', '.join(sizes)}." if sizes else ""


def _of_adapters(study: Study) -> str:
    """Say which runs' weights are an adapter's, and on what; empty where none are."""
    adapters = sorted({name for name in families_of(study.runs).values() if names_adapter(name)})
    return f" The weights are an adapter's changes to its base: {listed(adapters)}." if adapters else ""
