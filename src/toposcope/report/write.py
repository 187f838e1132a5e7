"""From stores to a page: what each of them holds decides which parts the page has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from toposcope.errors import InputError
from toposcope.report.closing import failures, findings, provenance, versions
from toposcope.report.gradients import Gradients, gradients_part
from toposcope.report.page import check_target, write_page
from toposcope.report.parts import Page, Part
from toposcope.report.representations.part import representations_part
from toposcope.analysis.hidden import PROBE, SENSITIVITY
from toposcope.report.representations.study import Representations
from toposcope.report.representations.study import gather as gather_representations
from toposcope.report.weights.part import weights_part
from toposcope.report.weights.study import Study
from toposcope.report.weights.study import gather as gather_weights
from toposcope.store import Store

AnyStudy = Study | Gradients | Representations
TITLE = "The topology of these training runs"


def write_report(
    stores: Store | str | Path | Sequence[Store | str | Path],
    out: str | Path,
    *,
    title: str = TITLE,
    target: str | None = None,
    targets: pd.DataFrame | None = None,
) -> Path:
    """Analyse one or more stores, write their report into the folder `out`, and return the page's path.

    Measurements of weights, of gradients and of representations each get a part of the page. The folder
    appears whole or not at all: it is written aside and renamed. It holds `index.html` (self-contained),
    `report.md`, `figures/NAME.png`, `figures/NAME.svg` and `tables/NAME.csv`. A report that is there
    already is replaced; a folder that holds anything else is left alone.

    Parameters
    ----------
    stores
        A store, or several: for example one of weights and one of representations.
    title
        The page's title.
    target
        What correlations are taken with; by default the held-out loss or the loss for weights, and the
        log perplexity for representations.
    targets
        Further targets, as `toposcope.analysis.targets.read_targets` returns them.

    Raises
    ------
    InputError
        When a store has nothing measured or two of them hold the same kind, the target is not there, or
        `out` holds something that is not a report.
    """
    check_target(Path(out))
    return write_studies(studies_of_all(stores, target=target, targets=targets), out, title=title)


def studies_of_all(
    stores: Store | str | Path | Sequence[Store | str | Path],
    *,
    target: str | None = None,
    targets: pd.DataFrame | None = None,
) -> list[AnyStudy]:
    """Read and analyse one or more stores, whose kinds of measurement must differ; see `write_report`."""
    given = [stores] if isinstance(stores, Store | str | Path) else list(stores)
    opened = [store if isinstance(store, Store) else Store.open(store) for store in given]
    studies = [study for store in opened for study in studies_of(store, target=target, targets=targets)]
    kinds = [type(study) for study in studies]
    if len(set(kinds)) < len(kinds):
        names = ", ".join(str(store.path) for store in opened)
        raise InputError(f"{names}: two of the stores hold the same kind of measurement; report them apart")
    return studies


def problems_of(studies: Sequence[AnyStudy]) -> tuple[str, ...]:
    """Return what of the logs and the target files was left out, merged or missing, a line for each.

    That there are no metrics at all is none of these: a study of representations needs none.
    """
    tables = [study.study.series if isinstance(study, Gradients) else study.series for study in studies]
    lines = dict.fromkeys(line for table in tables for line in table.problems)
    return tuple(line for line in lines if "no metrics" not in line)


def studies_of(
    store: Store, *, target: str | None = None, targets: pd.DataFrame | None = None
) -> list[AnyStudy]:
    """Read and analyse `store`: a study of weights, of gradients, of representations, or several.

    Gradients in a store of weights or of representations are listed with these.

    Raises
    ------
    InputError
        When the store has nothing measured, or a study lacks the target.
    """
    probes = {str(probe) for probe in store.features()["probe"].dropna()}
    others = probes - {PROBE, SENSITIVITY}
    of_gradients = bool(probes) and all(probe.startswith("gradient_") for probe in probes)
    studies: list[AnyStudy] = []
    if of_gradients:
        studies.append(Gradients(gather_weights(store, target=target, targets=targets)))
    elif not probes or any(not probe.startswith("gradient_") for probe in others):
        studies.append(gather_weights(store, target=target, targets=targets))
    if PROBE in probes:
        studies.append(gather_representations(store, target=target, targets=targets))
    return studies


def write_studies(studies: Sequence[AnyStudy], out: str | Path, *, title: str = TITLE) -> Path:
    """Write the report of studies that are already analysed, a part for each; see `write_report`."""
    out = Path(out)
    check_target(out)
    audit = pd.concat([study.audit for study in studies], ignore_index=True).drop_duplicates()
    lines = [line for study in studies for line in provenance(study.provenance, study.runs)]
    page = Page(
        title=title,
        parts=tuple(_part(study) for study in studies),
        findings=findings(audit),
        problems=problems_of(studies),
        failures=failures(pd.concat([study.features for study in studies], ignore_index=True)),
        provenance=tuple(dict.fromkeys((*lines, *versions()))),
    )
    return write_page(page, out)


def _part(study: AnyStudy) -> Part:
    if isinstance(study, Representations):
        return representations_part(study)
    if isinstance(study, Gradients):
        return gradients_part(study)
    return weights_part(study)
