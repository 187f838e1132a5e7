"""Writes the page of an analysis, with a part for each of its studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from toposcope.core.progress import Progress
from toposcope.logs.belonging import said
from toposcope.page.appendix import failures, findings, provenance, unmeasured, versions
from toposcope.page.page import check_target, write_page
from toposcope.page.parts import Page, PagePart, of_group, part_of, pieces_of
from toposcope.study.study import Study, groups_among, notes_of, problems_of

TITLE = "Training report"


def write_studies(
    studies: Sequence[Study], out: str | Path, *, title: str = TITLE, quiet: bool = True
) -> Path:
    """Write the report of studies into the folder `out`, a part for each, and return the page's path.

    Measurements of weights, of gradients, of representations and of the loss surface each get a part of
    the page. The folder appears whole or not at all: it is written aside and renamed. It holds
    `index.html` (self-contained), `report.md`, `figures/NAME.png`, `figures/NAME.svg` and
    `tables/NAME.csv`. A report that is there already is replaced; a folder that holds anything else is
    left alone. Unless `quiet`, it shows which share of the figures and tables is done.

    Raises
    ------
    InputError
        When `out` holds something that is not a report.
    """
    out = Path(out)
    check_target(out)
    for study in studies:
        study.begin()
    audits = [study.audit for study in studies if study.audit is not None]
    audit = pd.concat(audits, ignore_index=True) if audits else pd.DataFrame()
    lines = [line for study in studies for line in provenance(study.provenance, study.runs)]
    groups = groups_among(studies)
    with Progress("writing the report", sum(map(pieces_of, studies)), quiet=quiet) as progress:
        parts = _parts(studies, progress.advance)
    broken = [unmeasured(study.features) for study in studies if len(study.features)]
    page = Page(
        title=title,
        parts=parts,
        findings=findings(audit),
        problems=(*problems_of(studies), *notes_of(studies)),
        failures=failures(pd.concat(broken, ignore_index=True)) if broken else (),
        provenance=tuple(dict.fromkeys((*lines, *versions()))),
        apart=said(groups),
    )
    return write_page(page, out)


def _parts(studies: Sequence[Study], advance: Callable[[], None]) -> tuple[PagePart, ...]:
    """Return the part on each study; a figure of the same runs is on the first of them alone."""
    groups = groups_among(studies)
    parts: list[PagePart] = []
    shown: list[tuple[frozenset[str], frozenset[str]]] = []
    for study in studies:
        runs = frozenset(map(str, study.runs["run"]))
        beside = frozenset(name for others, names in shown if runs <= others for name in names)
        part = part_of(study, beside=beside, advance=advance)
        shown.append((runs, frozenset(part.figures)))
        if study.group is not None:
            part = of_group(part, study.group.label, groups.index(study.group) + 1)
        parts.append(part)
    return tuple(parts)
