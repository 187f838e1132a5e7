"""The input of a check: the logs of a source, and the checkpoints beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core import WEIGHT_FILES
from toposcope.core.errors import SourceError
from toposcope.runs.contents import AuditOfRun, Contents, OfStore, audit_of_run, logged, nothing_more
from toposcope.store import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.runs.reading import Reading

_OF_STORE = "checkpoints (the store's audit is included; give their folder to audit them again)"


def read_contents(
    source: str | pd.DataFrame,
    name: str,
    reading: Reading,
    *,
    audited: bool = True,
    of_store: OfStore = nothing_more,
    chosen: Sequence[str] = (),
) -> list[Contents]:
    """Return the contents of a source, one for each log of a folder.

    Parameters
    ----------
    source
        A table, a log, a store, or a folder of checkpoints or logs.
    name
        What it is called.
    reading
        How runs are read.
    audited
        Whether checkpoints are audited.
    of_store
        Reads what a store has beside its losses.
    chosen
        Logs that the reader has named, which are taken where several beside checkpoints disagree.

    Raises
    ------
    InputError
        When nothing there can be read.
    """
    if not isinstance(source, str):
        return [logged(source, name, reading)]
    place = Path(source)
    if (place / MANIFEST).is_file():
        return [_of_store(source, name, of_store)]
    if place.is_dir() or place.suffix.lower() in WEIGHT_FILES:
        from toposcope.runs.folders import contents_of_folder

        return contents_of_folder(source, name, reading, audited=audited, chosen=chosen)
    return [logged(source, name, reading)]


def audits_of_runs(source: str, step_pattern: str | None) -> dict[str, AuditOfRun]:
    """Return the audit of every run that has checkpoints in a folder or a store; empty where none has."""
    if not Path(source).is_dir():
        return {}
    from toposcope.runs.folders import cheap_audit
    from toposcope.sources import open_series
    from toposcope.store import Store

    steps: Mapping[str, Sequence[int]]
    if (Path(source) / MANIFEST).is_file():
        store = Store.open(source)
        findings, steps = store.audited(), store.measured_steps()
    else:
        try:
            series = open_series(source, step_pattern=step_pattern, logs=False)
        except SourceError:  # a folder of logs alone
            return {}
        findings, steps = cheap_audit(series).findings, series.steps
    return {run: audit_of_run(run, of_run, findings) for run, of_run in steps.items()}


def _of_store(path: str, name: str, of_store: OfStore) -> Contents:
    from toposcope.runs.reading import log_of_store
    from toposcope.store import Store

    store = Store.open(path)
    facts = of_store(store)
    return Contents(
        name, log_of_store(path), "step and loss from the store",
        store.measured_steps(), tuple(store.audited()), _OF_STORE, changed=facts.changed,
        to_add=facts.to_add, replays=facts.replays, measured=facts.measured,
    )  # fmt: skip
