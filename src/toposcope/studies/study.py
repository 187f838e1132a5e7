"""A study of `toposcope reproduce`: its title, its options, and the function that returns its sections."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.core.errors import BrokenOffError, InputError
from toposcope.core.outputs import for_writing
from toposcope.core.wording import option
from toposcope.studies.sections import Section, markdown, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST_SEED = 42
"""The seed of both papers; the seeds of further replicates follow it."""

Parameter = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What `click.option` and `click.argument` return."""

RUNS = click.option("--runs", help="Folder of the runs.  [default: they are trained first, into --out]")
SEEDS = click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True,
    help="Number of training replicates of each size. Their seeds are 42, 43, ...",
)  # fmt: skip
CORPUS = click.option(
    "--corpus", help="Text to train on: python-docs, installed, wikitext2, a file or a folder."
)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A study: its `title` on its page, its question in one line, and its options on the command line.

    `sections` gets a `StudyCall` and the options by name, and returns the judged claims and the tables. Its
    docstring is the help of its command.
    """

    title: str
    summary: str
    sections: Callable[..., Sequence[Section]]
    options: Sequence[Parameter] = ()


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
        from toposcope.training import default_jobs

        return self.jobs or default_jobs()

    def draw(self, figure: Figure, name: str) -> None:
        """Save a figure if results are kept."""
        if self.out is None:
            return
        from toposcope.core.drawing.style import save

        for path in save(figure, self.out, name):
            self.say(f"wrote {path}")


def write_page(study: str, title: str, sections: Sequence[Section], out: Path) -> Path:
    """Write a study's sections as one HTML page, beside it as Markdown, and return the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    title = f"{title}, reproduced"
    for_writing(out / f"{study}.md").write_text(markdown(title, sections), encoding="utf-8")
    path = out / f"{study}.html"
    for_writing(path).write_text(page(title, sections), encoding="utf-8")
    return path


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
        there = f"to use existing runs, give {option('runs')}"
        call.say(f"training the recipe {recipe} into {folder / 'runs'}; {there}")
    replicates = {"seeds": list(range(FIRST_SEED, FIRST_SEED + seeds))} if seeds > 1 else {}
    changes = {key: value for key, value in (overrides or {}).items() if value is not None}
    results = train(
        recipe, folder / "runs", overrides={**replicates, **changes}, jobs=call.processes, quiet=call.quiet
    )
    if failed := [result for result in results if result.status == "failed"]:
        raise BrokenOffError(
            f"{len(failed):,} of {len(results):,} runs failed, the first: {failed[0].run.run}: "
            f"{failed[0].problem}"
        )
    return [str(result.folder) for result in results]
