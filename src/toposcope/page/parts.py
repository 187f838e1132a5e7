"""What a page is made of: figures with captions, tables ready to print, and the parts that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.checkpoints import draw_checkpoints
from toposcope.core.drawing.rendering import begin_rendering
from toposcope.core.forms import capital, listed
from toposcope.core.groups import families_of, size_list
from toposcope.core.lines import left_out_of_means
from toposcope.core.repeats import AuditFinding
from toposcope.core.tabular import Table
from toposcope.core.types import About, Use
from toposcope.page.figures import leading
from toposcope.sources.adapter import ADAPTER
from toposcope.study.findings import words
from toposcope.study.study import Study
from toposcope.subjects.subject import Subject
from toposcope.subjects.weights.features import NEURAL_PERSISTENCE

if TYPE_CHECKING:
    from toposcope.subjects.landscape.page.view import SurfaceView

LOGS = "loss"
"""The figure of the training logs; beside the weights it is called after its subject, too."""

_CORRELATIONS = (
    "correlations", "topological_against_spectral", "gradient_correlations", "table_correlations",
    "landscape_correlations",
)  # fmt: skip

SHOWN: Mapping[str, tuple[str, ...]] = {
    "changed": (
        "overview", "snapshot", "representations", "topology_of_representations", "cloud_snapshot",
        "gradients", "gradient_snapshot", "landscape_training",
    ),
    "when": ("vietoris_rips", "perplexity", "rate_of_change", "gradient_persistence", LOGS),
    "rivals": _CORRELATIONS,
    "beyond": _CORRELATIONS,
    "sound": ("faults",),
    "end": ("forecast", "table_forecast", LOGS, "perplexity"),
    "on": (LOGS, "perplexity"),
    "scale": ("scaling", "gradient_scaling", "representation_scaling"),
    "surfaces": ("loss_surfaces", "landscape_profiles"),
    "layers": ("across_layers", "cloud_snapshot", "layers"),
}  # fmt: skip
"""The figures that may stand on the card of a question, the first that was drawn."""


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
    thumbnail: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """One question with its answer in words, and the figure that shows it (None where none does)."""

    question: str
    said: words.Said
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class PagePart:
    """What a page says about one kind of object: weights, gradients or representations.

    `said` is its answer: one line, its ground, its limits; `answers` are those to the other questions.
    `lead` is the table that stands under the answer. Figures and tables have names that no other part uses:
    they are files. `view` is what a script draws below the figures.
    """

    name: str
    heading: str
    subject: str
    said: words.Said
    answers: tuple[Answer, ...]
    pictures: tuple[Picture, ...]
    tables: Mapping[str, Table]
    lead: str
    view: SurfaceView | None = None

    @property
    def headline(self) -> str:
        """The answer in one line."""
        return self.said.act


@dataclass(frozen=True, slots=True)
class Page:
    """All that is printed on one page; `findings` to `provenance` are lines of its closing lists and tables.

    `apart` is the line that says which runs do not belong together; "" where all do.
    """

    title: str
    parts: tuple[PagePart, ...]
    findings: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]
    failures: tuple[tuple[str, ...], ...]
    provenance: tuple[tuple[str, ...], ...]
    apart: str = ""


def of_group(part: PagePart, label: str, number: int) -> PagePart:
    """Return a part that is on one of several groups of runs: its heading, figures and tables say which.

    Figures and tables are files: from the second group on their names end in the group's number.
    """
    end = f"_{number}" if number > 1 else ""

    def named(picture: Picture | None) -> Picture | None:
        if picture is None:
            return None
        caption = replace(picture.caption, title=f"{picture.caption.title} ({label})")
        return replace(picture, name=picture.name + end, caption=caption)

    tables = (
        replace(table, name=name + end, title=f"{table.title} ({label})")
        for name, table in part.tables.items()
    )
    return replace(
        part,
        name=part.name + end,
        heading=f"{part.heading}: {label}",
        subject=f"{capital(label)}: {part.subject}",
        answers=tuple(replace(answer, picture=named(answer.picture)) for answer in part.answers),
        pictures=tuple(filter(None, map(named, part.pictures))),
        tables={table.name: table for table in tables},
        lead=part.lead + end,
    )


def part_of(
    study: Study,
    figures: Callable[[Study], Iterable[tuple[str, Figure]]],
    captions: Callable[[Study], Mapping[str, Caption]],
    tables: Callable[[Study], Iterable[Table]],
    *,
    logs: bool = True,
) -> PagePart:
    """Put the part on one study together; tables without a row are left out.

    The figures come first: a second process renders them while the tables are computed. Without `logs` the
    curves of the training logs are left out: another part of the page shows those of the same runs.
    """
    names: list[str] = []

    def drawn() -> Iterator[Figure]:
        for name, figure in chain(_faulty(study), figures(study), _brought(study)):
            if logs or name != log_name(study.subject):
                names.append(name)
                yield figure

    rendered = begin_rendering(drawn())
    made = [table for table in tables(study) if table.rows]
    found = study.findings
    told = _with_means(study, {**captions(study), **_of_brought(study), _faults(study): _OF_FAULTS})
    pictures = {
        name: Picture(name, one.svg, one.png, told[name], one.thumbnail)
        for name, one in zip(names, rendered(), strict=True)
    }
    return PagePart(
        name=study.subject.name,
        heading=study.subject.heading,
        subject=f"{study.subject.title} Model sizes: {size_list(study.runs)}.{_of_adapters(study)}",
        said=words.said(found, found.lead),
        answers=tuple(
            Answer(found.title(one), answer, _shown(one.question, pictures, study.subject))
            for one in found
            if one is not found.lead
            and (one.question != "scale" or len(study.sizes) > 1)
            and (answer := words.said(found, one)).text
        ),
        pictures=tuple(pictures.values()),
        tables={table.name: table for table in made},
        lead="families",
    )


_NAMED = 4
"""Runs that a caption names for ending before others of their size."""
MEANS = (
    "overview", LOGS, NEURAL_PERSISTENCE, "vietoris_rips", "gradients", "gradient_persistence", "layers",
    "representations", "topology_of_representations", "spectrum_of_representations", "perplexity",
    "rate_of_change", "gaussian_null", "landscape_training", "leading",
)  # fmt: skip
"""The figures that draw means over seeds."""


def _with_means(study: Study, captions: Mapping[str, Caption]) -> dict[str, Caption]:
    """Return the captions, those of means over seeds with what they are taken over."""
    said = of_means(study)
    names = {known for name in MEANS for known in (name, f"{name}_{study.subject.name}")}
    return {
        name: replace(caption, shows=caption.shows + said) if name in names else caption
        for name, caption in captions.items()
    }


def of_means(study: Study) -> str:
    """Say what is drawn of seeds: a line for each run, and their mean where all of them are."""
    sizes = [group for group in study.sizes if len(group.runs) > 1]
    if not sizes:
        return ""
    rows = study.series.values[["run", "step"]]
    short = {run: step for group in sizes for run, step in left_out_of_means(rows, group.runs).items()}
    ends = "; ".join(f"{run} ends at step {step:,}" for run, step in list(short.items())[:_NAMED])
    more = (
        f"; so do {len(short) - _NAMED} more runs before others of their size" if len(short) > _NAMED else ""
    )
    where = f" ({ends}{more})" if short else ""
    return (
        " A thin line is one run. A thick one is the mean over a size's runs, drawn only at the steps that "
        f"all of them have{where}."
    )


def log_name(subject: Subject) -> str:
    """Return what the figure of the training logs is called in the part on a subject."""
    return LOGS if subject.name == About.WEIGHTS else f"{LOGS}_{subject.name}"


def _of_adapters(study: Study) -> str:
    """Say which runs' weights are an adapter's, and on what; empty where none are."""
    known = sorted({name for name in families_of(study.runs).values() if name.startswith(ADAPTER)})
    return f" The weights are an adapter's changes of its base: {listed(known)}." if known else ""


def _leading(study: Study) -> str:
    return f"leading_{study.subject.name}"


def _brought(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw what leads the study and no figure of the package is made for: a curve needs two checkpoints."""
    columns = study.brought(Use.CHANGE)
    if columns and study.has_curves:
        yield _leading(study), leading.draw(study.whole, study.runs, columns, study.series.catalogue)


def _of_brought(study: Study) -> dict[str, Caption]:
    names = [study.labels.label(column) for column in study.brought(Use.CHANGE)]
    if not names:
        return {}
    caption = Caption(
        f"From further probes: {listed(names)}",
        "What probes from outside the package declare as leading. Lines are means, with 95% intervals over "
        "draws, or over seeds where there are some. Grey: the feature's null, where one was measured.",
        "Which of them move, when, and whether they leave their null.",
        "Whether they move with the loss for any reason but time.",
        "A panel for each feature against the optimiser step, one line per model size.",
    )
    return {_leading(study): caption}


def _faults(study: Study) -> str:
    return f"faults_{study.subject.name}"


def _faulty(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw where the audit found something wrong with a checkpoint; nothing where it found nothing."""
    if study.audit is None or study.audit.empty:
        return
    found = [
        AuditFinding(
            str(line["run"]), None if pd.isna(line["step"]) else int(line["step"]), "", str(line["message"]),
            fault=str(line["fault"]),
        )
        for line in study.audit.to_dict("records")
    ]  # fmt: skip
    steps = {str(run): sorted(map(int, its)) for run, its in study.series.values.groupby("run")["step"]}
    figure = draw_checkpoints(steps, found).get_figure()
    assert isinstance(figure, Figure)
    yield _faults(study), figure


_OF_FAULTS = Caption(
    "Checkpoints with findings of the audit",
    "A tick for each measured checkpoint of a run, a sign at each that the audit found something wrong with.",
    "Which checkpoints to look at before anything else on this page.",
    "What went wrong there: the list of findings says what was seen, the files what it was.",
    "A line of ticks for each run against the optimiser step, with signs where the audit found faults.",
)


def _shown(question: str, pictures: Mapping[str, Picture], subject: Subject) -> Picture | None:
    """Return the picture of a question's card: the first of those it may have that was drawn.

    What several parts of a page may draw is called after its subject.
    """
    own = subject.name
    names = (
        known
        for name in SHOWN.get(question, ())
        for known in (name, f"{name}_{own}", f"{own}_{name}", f"leading_{own}" * (question == "changed"))
    )
    return next((pictures[name] for name in names if name in pictures), None)
