"""The part of `toposcope reproduce` that is about the embedding report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.papers.sections import Section


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
    jobs: int

    def sections(self, folder: Path, *, keep_files: bool, quiet: bool) -> Sequence[Section]:
        """Return the tables of the stored rows, or of a measured series.

        Raises
        ------
        InputError
            When nothing was named to read, or more than one kind of series.
        """
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
        if self.rows is None:
            return self._measured(folder, keep_files=keep_files, quiet=quiet)
        from toposcope.papers.seed003 import reproduce_rows, write_rows_report

        found = reproduce_rows(self.rows)
        if keep_files:
            page = write_rows_report(self.rows, folder / "rows-report")
            click.echo(f"wrote {page}", err=True)
        return found

    def _measured(self, folder: Path, *, keep_files: bool, quiet: bool) -> Sequence[Section]:
        from toposcope.api.representations import check_device
        from toposcope.papers import seed003_study
        from toposcope.subjects.representations.study import parse_grid

        check_device(self.device)
        numbers = () if self.sensitivity_texts == "none" else parse_grid(self.sensitivity_texts).texts
        settings = seed003_study.StudySettings(
            texts=self.texts or self.corpus or "wikitext2", limit=self.limit, sensitivity=numbers,
            labelled=self.labelled, device=self.device, jobs=self.jobs, quiet=quiet,
        )  # fmt: skip
        if self.recipe is not None:
            series = seed003_study.recipe_series(self.recipe)
        elif self.corpus is not None:
            if not keep_files:
                raise InputError(
                    "it trains three models first",
                    argument="train",
                    remedy=f"name a folder for them with {option('out')}",
                )
            series = seed003_study.open_all(self._trained(folder / "models", quiet))
        else:
            series = seed003_study.open_all(self.series)
        sections = seed003_study.study(series, folder, settings)
        if keep_files:
            click.echo(f"wrote {folder / 'report' / 'index.html'}", err=True)
        return sections

    def _trained(self, models: Path, quiet: bool) -> list[str]:
        from toposcope.cli.train import parse_seeds
        from toposcope.papers.seed003_study import train_stand_ins
        from toposcope.training.neox import NeoxPlan

        assert self.corpus is not None
        plan = NeoxPlan() if self.steps is None else NeoxPlan(steps=self.steps)
        return train_stand_ins(self.corpus, models, plan=plan, seeds=parse_seeds(self.seeds), quiet=quiet)
