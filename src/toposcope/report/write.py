"""From stores to a page: what each of them holds decides which parts the page has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from toposcope.report.closing import failures, findings, provenance, versions
from toposcope.report.page import check_target, write_page
from toposcope.report.parts import Page
from toposcope.report.weights.part import part
from toposcope.report.weights.study import Study, gather
from toposcope.store import Store


def write_report(
    store: Store | str | Path, out: str | Path, *, title: str = "The topology of these training runs"
) -> Path:
    """Analyse `store`, write its report into the folder `out` and return the path of the page.

    The folder appears whole or not at all: it is written aside and renamed. It holds `index.html`
    (self-contained), `report.md`, `figures/NAME.png`, `figures/NAME.svg` and `tables/NAME.csv`. A report
    that is there already is replaced; a folder that holds anything else is left alone.

    Raises
    ------
    InputError
        When the store has nothing measured, or `out` holds something that is not a report.
    """
    check_target(Path(out))
    store = store if isinstance(store, Store) else Store.open(store)
    return write_studies([gather(store)], out, title=title)


def write_studies(studies: Sequence[Study], out: str | Path, *, title: str) -> Path:
    """Write the report of studies that are already analysed, a part for each; see `write_report`."""
    out = Path(out)
    check_target(out)
    audit = pd.concat([study.audit for study in studies], ignore_index=True)
    page = Page(
        title=title,
        parts=tuple(part(study) for study in studies),
        audited=bool(len(audit)),
        findings=findings(audit),
        failures=failures(pd.concat([study.features for study in studies], ignore_index=True)),
        provenance=tuple(
            dict.fromkeys(
                line for study in studies for line in (*provenance(study.provenance, study.runs), *versions())
            )
        ),
    )
    return write_page(page, out)
