"""The embedding report's study on your own series: measured, tabulated, and compared with its nulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.studies.sections import Section
from toposcope.studies.seed003.report import printed

if TYPE_CHECKING:
    from toposcope.sources import Series
    from toposcope.store import Store
    from toposcope.training import NeoxPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySettings:
    """The settings of a study; everything else is as in the report.

    `texts` is a source of texts as in `load_texts`; the first `limit` of them form the clouds. With an empty
    `sensitivity`, the sensitivity table is left out. `labelled` adds a linear probe's accuracy.
    """

    texts: str
    limit: int = 200
    sensitivity: tuple[int, ...] = (200, 800)
    labelled: Path | None = None
    device: str = "cpu"
    jobs: int = 1
    quiet: bool = False


def recipe_series(name: str) -> Series:
    """Open the models of a packaged recipe at the report's checkpoints; they are fetched one at a time.

    Raises
    ------
    SourceError
        When the hub cannot be read.
    """
    from toposcope.sources import open_series
    from toposcope.studies.seed003.published_series import published

    family = published(name)
    addresses = [family.address_of(model) for model in printed()["trajectory"]]
    return open_series(addresses, revisions=family.revisions("seed003"))


def train_stand_ins(
    corpus: str, out: Path, *, plan: NeoxPlan, seeds: Sequence[int] = (42,), quiet: bool = False
) -> list[str]:
    """Train each of the three GPT-NeoX sizes once per seed on a corpus and return the runs' folders.

    Existing models are not trained again; of `plan`, everything but the seed is used.

    Raises
    ------
    InputError
        When the corpus cannot be read, or `out` holds models of another plan or corpus.
    """
    from toposcope.training import SHAPES, load_corpus, train_neox

    read = load_corpus(corpus)
    plans = [replace(plan, seed=seed) for seed in seeds]
    return [str(train_neox(shape, read, out, plan, quiet=quiet)) for shape in SHAPES for plan in plans]


def measure(series: Series, folder: Path, settings: StudySettings) -> Store:
    """Measure a series into `folder`/store by the report's conventions, and what the report left out.

    Added are every layer instead of the last, the Gaussian nulls, dimensions, attention graphs and, in rows
    of their own, the sensitivity grid. The pooled states go to `folder`/states. A stopped sweep resumes.

    Raises
    ------
    InputError
        When a checkpoint could not be measured; the others are in the store.
    """
    from toposcope.models import ModelLoader
    from toposcope.store import Store
    from toposcope.studies.measuring import refuse_failures
    from toposcope.subjects.representations import (
        SensitivityOptions,
        load_labelled,
        preset,
        save_runs,
        study_of_texts,
    )
    from toposcope.sweep import Execution, sweep

    options = preset("seed003", layers="all", dimension=True, attention=True)
    study = study_of_texts(
        options,
        settings.texts,
        ModelLoader(device=settings.device, half=options.half),
        limit=settings.limit,
        labelled=load_labelled(settings.labelled) if settings.labelled is not None else None,
        keep=folder / "states",
        grid=SensitivityOptions(texts=settings.sensitivity) if settings.sensitivity else None,
    )
    save_runs(folder / "states", series.runs)
    store = Store.create(folder / "store", recipe=study.recipe())
    execution = Execution(jobs=settings.jobs, keep_diagrams=True, quiet=settings.quiet)
    refuse_failures(sweep(series, study.probes(), store, execution=execution))
    return store


def study(series: Series, folder: Path, settings: StudySettings) -> list[Section]:
    """Measure a series, write its report page to `folder`/report, and return the study's tables."""
    from toposcope.studies.seed003.tables import tables

    store = measure(series, folder, settings)
    write_page(store, folder / "report")
    return tables(store)


def write_page(store: Store, out: Path) -> None:
    """Write the study's report page."""
    from toposcope.page import write_studies
    from toposcope.published.rules import PUBLISHED
    from toposcope.study.analysis import analysis_of

    studies = analysis_of(store, published=PUBLISHED).studies
    write_studies(studies, out, title="The topology of representations during training")


def open_all(uris: Sequence[str]) -> Series:
    """Open several series as one."""
    from toposcope.sources import open_series

    return open_series(list(uris))
