"""The weight-space paper as a study: from rows, from runs, or from runs that are trained first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.studies.study import CORPUS, RUNS, SEEDS, Reproduction, StudyCall, trained

if TYPE_CHECKING:
    from toposcope.studies.sections import Section


def sections(
    call: StudyCall, *, runs: str | None = None, rows: Path | None = None, seeds: int = 1,
    corpus: str | None = None, pythia: str | None = None, revisions: str | None = None,
) -> Sequence[Section]:  # fmt: skip
    """Make the weight-space paper's tables again.

    Each table shows the paper's value, the value by the paper's own conventions, and the value by the
    definitions in its text where these differ. With several seeds of a size, the claims are judged across
    seeds. --out also receives rows.csv, one line for each checkpoint; --rows judges the claims from it. For a
    folder with several such files it shows the judgements side by side.
    """
    from toposcope.studies.seed004 import page

    if pythia is not None:
        return _pythia(call, pythia, revisions)
    if rows is not None:
        _refuse_with_rows(runs=runs, seeds=seeds if seeds > 1 else None, corpus=corpus)
        return page.from_rows(rows)
    with call.folder() as folder:
        where = runs or trained("seed004", folder, call, seeds=seeds, overrides={"corpus": corpus})
        return page.reproduce(where, folder, jobs=call.processes, quiet=call.quiet)


def _refuse_with_rows(**given: object) -> None:
    """Refuse options about training or measuring if rows are read."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{option('rows')} reads existing measurements, so {option(name)} has no effect",
                remedy="leave one of them out",
            )


def _pythia(call: StudyCall, uri: str, revisions: str | None) -> Sequence[Section]:
    """Make the paper's Table 8, and draw its Figure 7."""
    from toposcope.studies.seed004 import pythia14m

    store = None if call.out is None else call.out / "stores" / pythia14m.PROBE
    features = pythia14m.measure(uri, revisions=revisions, store=store, quiet=call.quiet)
    call.draw(pythia14m.figure(features), "figure7")
    return [pythia14m.table(features)]


STUDY = Reproduction(
    "The weight-space paper",
    "Weights of five small models: Tables 1 to 8, seeds.",
    sections,
    (
        RUNS,
        click.option(
            "--rows", type=click.Path(path_type=Path),
            help="File of rows that a study wrote, or a folder of such files; no weights are read.",
        ),
        SEEDS,
        CORPUS,
        click.option(
            "--pythia", help="Series of Pythia-14m's shape. Prints Table 8 only and draws Figure 7."
        ),
        click.option(
            "--revisions", help="Revisions of a hub series to read, for --pythia: names, or a pattern."
        ),
    ),
)  # fmt: skip
