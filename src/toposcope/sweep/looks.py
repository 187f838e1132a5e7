"""What a sweep sees of checkpoints that are fetched to be measured: whether they are in order.

Before a sweep the audit reads a sample of every checkpoint, unless it would have to be fetched for it: of the
hub it knows the hashes alone, which tell copies but no swapped steps. So a sketch of the same sample is kept
when the sweep has a checkpoint in hand anyway, and the order is judged at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.repeats import AuditFinding, together
from toposcope.core.types import Checkpoint
from toposcope.store.looks import look_file, read_look, write_look
from toposcope.subjects.snapshot import RunReader, unless_unreadable

if TYPE_CHECKING:
    import numpy as np

    from toposcope.sources import Series


def is_fetched(series: object, checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint would have to be fetched to be looked at."""
    from toposcope.sources import Series

    return isinstance(series, Series) and not series.computed and series.identity(checkpoint) is not None


def keep_look(store: Path, reader: RunReader, index: int, *, in_memory: bool) -> None:
    """Keep a sketch of a checkpoint that is at hand; `in_memory` says that its matrices are loaded."""
    snapshot = reader[index]
    at = snapshot.checkpoint
    if not is_fetched(reader.series, at) or snapshot.spoilt:
        return
    from toposcope.sources.audit_looks import sketched

    stored = getattr(reader.series, "stored_matrices", reader.series.matrices)

    def keep() -> None:
        content = reader.content_hash(index)
        if not look_file(store, at, content).is_file():
            write_look(store, at, content, sketched(snapshot.matrices() if in_memory else stored(at)))

    unless_unreadable(keep)


def judged(store: Path, series: object, runs: Mapping[str, Sequence[Checkpoint]]) -> list[AuditFinding]:
    """Return what the kept sketches tell of runs whose checkpoints are fetched."""
    from toposcope.sources import Series
    from toposcope.sources.audit import without_rests
    from toposcope.sources.audit_looks import findings_of

    found: list[AuditFinding] = []
    for run, checkpoints in runs.items():
        if not isinstance(series, Series) or not checkpoints or not is_fetched(series, checkpoints[0]):
            continue
        kept = [(at, unless_unreadable(partial(_kept, store, series, at))) for at in checkpoints]
        seen = findings_of([(at, sketch) for at, sketch in kept if sketch is not None])
        found += without_rests(series, run, seen)
    return together(found, lambda finding: finding.fault)


def _kept(store: Path, series: Series, at: Checkpoint) -> np.ndarray | None:
    return read_look(store, at, series.content_hash(at))
