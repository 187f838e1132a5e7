"""A study from its runs to its sections: trains the missing runs, measures, and writes the page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import BrokenOffError, InputError
from toposcope.core.outputs import for_writing
from toposcope.core.wording import option, rendered
from toposcope.papers.sections import Section, markdown, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST_SEED = 42
"""The seed of both papers; the seeds of further replicates follow it."""


@dataclass(frozen=True, slots=True)
class StudyTitle:
    """The title of a study on its page, and its question in one line."""

    title: str
    summary: str


STUDIES: Mapping[str, StudyTitle] = {
    "seed001": StudyTitle(
        "The research plan", "Five sizes on subwords, 10,000 steps: four hypotheses, three criteria."
    ),
    "seed003": StudyTitle("The embedding report", "Hidden states of Pythia: its tables from rows or models."),
    "seed004": StudyTitle("The weight-space paper", "Weights of five small models: Tables 1 to 8, seeds."),
    "landscape": StudyTitle("The loss surface", "Does the surface follow the loss beyond the trend?"),
    "grokking": StudyTitle("Modular addition", "The positive control: does H1 find the circles, and when?"),
    "synthetic": StudyTitle("Known exponents", "Can topology predict scaling exponents that are known?"),
    "public-runs": StudyTitle("Public runs", "False alarms, forecasts and seeds on a folder of logs."),
}
"""The studies, in the order in which they are listed."""


@dataclass(frozen=True, kw_only=True)
class StudyCall:
    """Where a study keeps its results: `out` is None for a temporary folder.

    `jobs` is None if the study may choose; `say` is called for each file that is written.
    """

    out: Path | None = None
    jobs: int | None = None
    quiet: bool = False
    say: Callable[[str], None] = print

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield the folder that is kept, or a temporary one that is removed afterwards."""
        if self.out is not None:
            yield self.out
            return
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)

    @property
    def processes(self) -> int:
        """The number of processes; by default one for each core."""
        from toposcope.training.api import default_jobs

        return self.jobs or default_jobs()

    def draw(self, figure: Figure, name: str) -> None:
        """Save a figure if results are kept."""
        if self.out is None:
            return
        from toposcope.core.drawing.style import save

        for path in save(figure, self.out, name):
            self.say(f"wrote {path}")


def write_page(study: str, sections: Sequence[Section], out: Path) -> Path:
    """Write a study's sections as one HTML page, beside it as Markdown, and return the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    title = f"{STUDIES[study].title}, reproduced"
    for_writing(out / f"{study}.md").write_text(markdown(title, sections), encoding="utf-8")
    made = out / f"{study}.html"
    for_writing(made).write_text(page(title, sections), encoding="utf-8")
    return made


def trained(
    recipe: str,
    folder: Path,
    call: StudyCall,
    *,
    seeds: int = 1,
    overrides: Mapping[str, object] | None = None,
) -> list[str]:
    """Train a recipe's models with `seeds` seeds into `folder`/runs and return their folders.

    Raises
    ------
    InputError
        If hours of training would not be kept.
    BrokenOffError
        When a run could not be trained to its end.
    """
    from toposcope.training import train

    if call.out is None and recipe != "grokking":
        raise InputError(
            f"without {option('runs')} the models are trained first",
            remedy=f"name a folder with {option('out')}",
        )
    if not call.quiet:
        there = rendered(f"to use existing runs, give {option('runs')}")
        call.say(f"training the recipe {recipe} into {folder / 'runs'}; {there}")
    replicates = {"seeds": list(range(FIRST_SEED, FIRST_SEED + seeds))} if seeds > 1 else {}
    changes = {key: value for key, value in (overrides or {}).items() if value is not None}
    found = train(
        recipe, folder / "runs", overrides={**replicates, **changes}, jobs=call.processes, quiet=call.quiet
    )
    if failed := [one for one in found if one.status == "failed"]:
        raise BrokenOffError(
            f"{len(failed):,} of {len(found):,} runs failed, the first: {failed[0].run.run}: "
            f"{failed[0].problem}"
        )
    return [str(one.folder) for one in found]


def seed001(
    call: StudyCall, *, runs: str | None = None, seeds: int = 1, corpus: str | None = None,
    updates: int | None = None,
) -> Sequence[Section]:  # fmt: skip
    """Carry out the research plan, on the runs that are given or on those that are trained first."""
    from toposcope.papers import seed001 as plan

    with call.folder() as folder:
        changes = {"corpus": corpus, "steps": updates, "gradients": True}
        where = runs or trained("seed001", folder, call, seeds=seeds, overrides=changes)
        return plan.reproduce(where, folder / "stores", jobs=call.processes, quiet=call.quiet)


def seed004(
    call: StudyCall, *, runs: str | None = None, rows: Path | None = None, seeds: int = 1,
    corpus: str | None = None,
) -> Sequence[Section]:  # fmt: skip
    """Make the weight-space paper's tables: from rows, from runs, or from runs that are trained first."""
    from toposcope.papers import seed004 as paper

    if rows is not None:
        _refuse_with_rows(runs=runs, seeds=seeds if seeds > 1 else None, corpus=corpus)
        return paper.from_rows(rows)
    with call.folder() as folder:
        where = runs or trained("seed004", folder, call, seeds=seeds, overrides={"corpus": corpus})
        return paper.reproduce(where, folder, jobs=call.processes, quiet=call.quiet)


def _refuse_with_rows(**given: object) -> None:
    """Refuse options about training or measuring if rows are read."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{option('rows')} reads existing measurements, so {option(name)} has no effect",
                remedy="leave one of them out",
            )


def pythia(call: StudyCall, uri: str, *, revisions: str | None = None) -> Sequence[Section]:
    """Make the weight-space paper's Table 8, and draw its Figure 7."""
    from toposcope.papers import pythia14m

    store = None if call.out is None else call.out / "stores" / pythia14m.PROBE
    features = pythia14m.measure(uri, revisions=revisions, store=store, quiet=call.quiet)
    call.draw(pythia14m.figure(features), "figure7")
    return [pythia14m.table(features)]


def landscape(
    call: StudyCall, *, runs: str | None = None, texts: str | None = None, checkpoints: int | None = None
) -> Sequence[Section]:
    """Test whether curvature and sampled surfaces follow the loss of small models beyond the trend."""
    from toposcope.papers import landscape as surfaces

    with call.folder() as folder:
        where = runs or trained("demo", folder, call)
        measured = surfaces.measure(
            where, folder / "stores" / "landscape", texts=texts, jobs=call.jobs or 1, quiet=call.quiet,
            checkpoints=checkpoints or surfaces.CHECKPOINTS,
        )  # fmt: skip
        return surfaces.sections(measured)


def grokking(call: StudyCall, *, runs: str | None = None) -> Sequence[Section]:
    """Test whether and when H1 shows that a transformer has found the circles of modular addition."""
    from toposcope.papers import grokking as control
    from toposcope.papers.grokking_tables import tables
    from toposcope.sources import open_series

    with call.folder() as folder:
        series = open_series(runs or trained("grokking", folder, call))
        store = None if call.out is None else call.out / "stores" / "grokking"
        measured = control.measure(series, store, draws=control.DRAWS, jobs=call.jobs or 1, quiet=call.quiet)
        studied = [control.study_run(run) for run in measured]
        for one in studied:
            call.draw(control.figure(one), f"grokking-{one.run.name}")
        return tables(studied)


def synthetic(call: StudyCall, *, families: int) -> Sequence[Section]:
    """Test whether topology predicts scaling exponents that are known."""
    from toposcope.papers import synthetic as known

    with call.folder() as folder:
        return known.reproduce(folder, families=families, jobs=call.jobs or 1, quiet=call.quiet)


def public_runs(call: StudyCall, runs: Path, *, most: int) -> Sequence[Section]:
    """Judge alarms, forecasts and seeds on a folder of logs without known faults."""
    from toposcope.papers import public_runs as study

    return study.reproduce(runs, most=most, quiet=call.quiet)
