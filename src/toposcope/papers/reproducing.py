"""A paper's study from its runs to its sections: trains what is not there, measures, and writes the page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.papers.sections import Section, markdown

STUDIES = {
    "seed004": "The weight-space paper",
    "seed003": "The embedding report",
    "grokking": "Modular addition",
    "landscape": "The loss surface",
}
"""The studies, with the titles of their pages."""


@dataclass(frozen=True, kw_only=True)
class StudyCall:
    """What a study is redone from: the fields are the options of `toposcope reproduce`.

    `runs` are trained first where they are None; `out` is the folder that is kept, None for one that is not.
    `say` is told each file that is written.
    """

    runs: str | None = None
    pythia: str | None = None
    revisions: str | None = None
    texts: str | None = None
    checkpoints: int | None = None
    out: Path | None = None
    jobs: int | None = None
    quiet: bool = False
    say: Callable[[str], None] = print


def reproduce(study: str, call: StudyCall) -> Sequence[Section]:
    """Redo a study of `STUDIES` but seed003, whose own module is `papers.seed003_study`.

    Raises
    ------
    InputError
        When there is no such study, or it needs a folder to keep its runs in.
    """
    if study == "seed004" and call.pythia is not None:
        return _pythia(call.pythia, call)
    found = {"seed004": _seed004, "landscape": _landscape, "grokking": _grokking}.get(study)
    if found is None:
        raise InputError(f"study {study!r} is unknown; use seed004, landscape or grokking")
    return in_folder(call.out, lambda folder: found(folder, call))


def in_folder(out: Path | None, work: Callable[[Path], Sequence[Section]]) -> Sequence[Section]:
    """Do `work` in the folder that is kept, or in one that is not."""
    if out is not None:
        return work(out)
    with tempfile.TemporaryDirectory() as scratch:
        return work(Path(scratch))


def write_page(study: str, sections: Sequence[Section], out: Path) -> Path:
    """Write a study's sections as one Markdown page into a folder, and return where."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / f"{study}.md"
    page.write_text(markdown(f"{STUDIES[study]}, reproduced", sections), encoding="utf-8")
    return page


def _trained(recipe: str, folder: Path, jobs: int, call: StudyCall) -> str:
    """Return where the runs are; train them by a recipe where none were given."""
    if call.runs is not None:
        return call.runs
    from toposcope.training import train

    train(recipe, folder / "runs", jobs=jobs, quiet=call.quiet)
    return str(folder / "runs")


def _seed004(folder: Path, call: StudyCall) -> Sequence[Section]:
    from toposcope.papers import seed004

    if call.runs is None and call.out is None:
        raise InputError(
            f"without {option('runs')} the five models are trained first: name a folder with {option('out')}"
        )
    jobs = call.jobs or len(os.sched_getaffinity(0))
    runs = _trained("seed004", folder, jobs, call)
    return seed004.reproduce(runs, folder / "stores", jobs=jobs, quiet=call.quiet)


def _pythia(uri: str, call: StudyCall) -> Sequence[Section]:
    from toposcope.papers import pythia14m

    store = None if call.out is None else call.out / "stores" / pythia14m.PROBE
    features = pythia14m.measure(uri, revisions=call.revisions, store=store, quiet=call.quiet)
    if call.out is not None:
        from toposcope.core.drawing.style import save

        for path in save(pythia14m.figure(features), call.out, "figure7"):
            call.say(f"wrote {path}")
    return [pythia14m.table(features)]


def _landscape(folder: Path, call: StudyCall) -> Sequence[Section]:
    from toposcope.papers import landscape

    jobs = call.jobs or 1
    measured = landscape.measure(
        _trained("demo", folder, jobs, call), folder / "stores" / "landscape", texts=call.texts, jobs=jobs,
        quiet=call.quiet, checkpoints=call.checkpoints or landscape.CHECKPOINTS,
    )  # fmt: skip
    return landscape.sections(measured)


def _grokking(folder: Path, call: StudyCall) -> Sequence[Section]:
    from toposcope.papers import grokking
    from toposcope.papers.grokking_tables import tables
    from toposcope.sources import open_series

    jobs = call.jobs or 1
    series = open_series(_trained("grokking", folder, jobs, call))
    store = None if call.out is None else call.out / "stores" / "grokking"
    measured = grokking.measure(series, store, draws=grokking.DRAWS, jobs=jobs, quiet=call.quiet)
    studied = [grokking.study_run(run) for run in measured]
    if call.out is not None:
        from toposcope.core.drawing.style import save

        for one in studied:
            for path in save(grokking.figure(one), call.out, f"grokking-{one.run.name}"):
                call.say(f"wrote {path}")
    return tables(studied)
