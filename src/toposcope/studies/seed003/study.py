"""The embedding report as a study: from its stored rows, or measured again on a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.studies.study import Reproduction, StudyCall

if TYPE_CHECKING:
    from toposcope.sources import Series
    from toposcope.studies.sections import Section


@dataclass(frozen=True, slots=True)
class Seed003Call:
    """The options of the embedding report's study, as typed."""

    rows: Path | None
    series: tuple[str, ...]
    recipe: str | None
    corpus: str | None
    steps: int | None
    seeds: str
    texts: str | None
    limit: int
    sensitivity_texts: str
    labelled: Path | None
    device: str

    def sections(self, folder: Path, call: StudyCall) -> Sequence[Section]:
        """Return the tables of the stored rows, or of a measured series.

        Raises
        ------
        InputError
            When nothing was named to read, or more than one kind of series.
        """
        self._check()
        if self.rows is None:
            return self._measured(folder, call)
        from toposcope.studies.seed003.stored_rows import reproduce_rows, write_rows_report

        sections = reproduce_rows(self.rows)
        if call.out is not None:
            call.say(f"wrote {write_rows_report(self.rows, folder / 'rows-report')}")
        return sections

    def _check(self) -> None:
        given = [self.rows is not None, bool(self.series), self.recipe is not None, self.corpus is not None]
        if sum(given) > 1:
            raise InputError(
                f"{option('rows')}, {option('series')}, {option('recipe')} and {option('train')} cannot be "
                "combined",
                remedy="give one of them",
            )
        if not any(given):
            raise InputError(
                "seed003 needs an input",
                remedy=f"give {option('rows')} FOLDER, {option('series')} SERIES, "
                f"{option('recipe')} pythia or {option('train')} CORPUS",
            )

    def _measured(self, folder: Path, call: StudyCall) -> Sequence[Section]:
        from toposcope.core.device import require_device
        from toposcope.studies.seed003 import runs
        from toposcope.subjects.representations import parse_grid

        require_device(self.device)
        numbers = () if self.sensitivity_texts == "none" else parse_grid(self.sensitivity_texts).texts
        settings = runs.StudySettings(
            texts=self.texts or self.corpus or "wikitext2", limit=self.limit, sensitivity=numbers,
            labelled=self.labelled, device=self.device, jobs=call.jobs or 1, quiet=call.quiet,
        )  # fmt: skip
        sections = runs.study(self._series(folder, call), folder, settings)
        if call.out is not None:
            call.say(f"wrote {folder / 'report' / 'index.html'}")
        return sections

    def _series(self, folder: Path, call: StudyCall) -> Series:
        from toposcope.studies.seed003.runs import open_all, recipe_series

        if self.recipe is not None:
            return recipe_series(self.recipe)
        if self.corpus is None:
            return open_all(self.series)
        if call.out is None:
            raise InputError(
                "it trains three models first",
                argument="train",
                remedy=f"name a folder for them with {option('out')}",
            )
        return open_all(self._trained(folder / "models", call.quiet))

    def _trained(self, models: Path, quiet: bool) -> list[str]:
        from toposcope.recipes import parse_seeds
        from toposcope.studies.seed003.runs import train_stand_ins
        from toposcope.training import NeoxPlan

        assert self.corpus is not None
        plan = NeoxPlan() if self.steps is None else NeoxPlan(steps=self.steps)
        return train_stand_ins(self.corpus, models, plan=plan, seeds=parse_seeds(self.seeds), quiet=quiet)


def sections(
    call: StudyCall, *, rows: Path | None, series: tuple[str, ...], recipe: str | None, corpus: str | None,
    steps: int | None, seeds: str, texts: str | None, limit: int, sensitivity_texts: str,
    labelled: Path | None, device: str,
) -> Sequence[Section]:  # fmt: skip
    """Make the embedding report's tables again, or repeat its whole study.

    The tables come from its stored rows (--rows). The study runs on a series (--series), on Pythia from the
    hub (--recipe pythia), or on three small models that it trains first (--train). --out keeps the store,
    the pooled states and the report. It works in one process unless --jobs says more.
    """
    options = Seed003Call(
        rows, series, recipe, corpus, steps, seeds, texts, limit, sensitivity_texts, labelled, device
    )
    with call.folder() as folder:
        return options.sections(folder, call)


STUDY = Reproduction(
    "The embedding report",
    "Hidden states of Pythia: its tables from rows or models.",
    sections,
    (
        click.option("--rows", type=click.Path(path_type=Path), help="Rows that the report stored."),
        click.option("--series", multiple=True, help="Measure this series. Can be repeated."),
        click.option(
            "--recipe", type=click.Choice(["pythia"]), help="Measure the report's own models from the hub."
        ),
        click.option(
            "--train", "corpus", help="Train three small GPT-NeoX models on this corpus and measure them."
        ),
        click.option(
            "--steps", type=int,
            help="Number of optimiser steps of each model, for --train.  [default: 3000]",
        ),
        click.option(
            "--seeds", default="42", show_default=True,
            help="Seeds of each size, for --train, separated by commas: 42,43,44.",
        ),
        click.option(
            "--texts", help="Texts that the models read.  [default: those of --train, or wikitext2]"
        ),
        click.option(
            "--limit", type=click.IntRange(min=1), default=200, show_default=True,
            help="Number of texts in a cloud.",
        ),
        click.option(
            "--sensitivity-texts", default="200,800", show_default=True,
            help="Numbers of texts for the sensitivity table, such as 200,800; none leaves it out.",
        ),
        click.option(
            "--labelled", type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Labelled texts in GLUE's format, for a linear probe.",
        ),
        click.option("--device", default="cpu", show_default=True, help="cpu or cuda."),
    ),
)  # fmt: skip
