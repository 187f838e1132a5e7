"""Audits the order of checkpoints that are fetched during a sweep.

Before a sweep, the audit reads a sample of every checkpoint, but it does not fetch any. For series of the hub
it has only the hashes, which show copies but not swapped steps. So the sweep stores a sketch of the same
sample whenever it has fetched a checkpoint, and judges the order at the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.observations import AuditFinding
from toposcope.core.repeats import together
from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint, Matrix
from toposcope.store import parts
from toposcope.subjects.snapshot import RunReader, Stored, unless_unreadable

if TYPE_CHECKING:
    from toposcope.sources import Series

_FOLDER = "looks"


def is_fetched(series: object, checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint would have to be fetched for an audit."""
    from toposcope.sources import Series

    return isinstance(series, Series) and not series.computed and series.identity(checkpoint) is not None


def keep_look(store: Path, reader: RunReader, index: int, *, in_memory: bool) -> None:
    """Keep a sketch of a fetched checkpoint; `in_memory` says that its matrices are loaded."""
    snapshot = reader[index]
    at = snapshot.checkpoint
    if not is_fetched(reader.series, at) or snapshot.non_finite:
        return
    series = reader.series
    stored = series.stored_matrices if isinstance(series, Stored) else series.matrices

    def keep() -> None:
        content = reader.content_hash(index)
        if not _file(store, at, content).is_file():
            _write(store, at, content, sketched(snapshot.matrices() if in_memory else stored(at)))

    unless_unreadable(keep)


def judged(store: Path, series: object, runs: Mapping[str, Sequence[Checkpoint]]) -> list[AuditFinding]:
    """Return the findings from the stored sketches of runs whose checkpoints are fetched."""
    from toposcope.sources import Series
    from toposcope.sources.audit import without_rests

    findings: list[AuditFinding] = []
    for run, checkpoints in runs.items():
        if not isinstance(series, Series) or not checkpoints or not is_fetched(series, checkpoints[0]):
            continue
        sketches = [(at, unless_unreadable(partial(_stored_sketch, store, series, at))) for at in checkpoints]
        seen = findings_of([(at, sketch) for at, sketch in sketches if sketch is not None])
        findings += without_rests(series, run, seen)
    return together(findings, lambda finding: finding.fault)


def sketched(matrices: Iterable[Matrix]) -> np.ndarray:
    """Return a count sketch, float64 of `COORDINATES`, of the rows that the cheap audit samples.

    Distances of sketches are those of the samples, up to a relative error of about 2%; a swap of checkpoints
    changes them by 30%. Each value is added with a random sign to a random coordinate; both depend only on
    the matrix's name.
    """
    from toposcope.kernels.sketch import COORDINATES, sign_codes, signed_sums
    from toposcope.sources.audit_evidence import sampled

    total = np.zeros(COORDINATES)
    for matrix in matrices:
        values = matrix.values
        rows = [values[start:stop] for start, stop in sampled(len(values), values.nbytes)]
        flat = np.concatenate(rows).astype(np.float32).reshape(-1)
        total += signed_sums(flat, sign_codes(rng(name=f"look/{matrix.name}"), flat.size), COORDINATES)
    return total


def findings_of(sketches: Sequence[tuple[Checkpoint, np.ndarray]]) -> list[AuditFinding]:
    """Return the findings from the sketches of one run, by step: swapped, off the path, identical."""
    from toposcope.files.formats.reader import TensorInfo
    from toposcope.sources.audit_checks import identical, path
    from toposcope.sources.audit_evidence import StepEvidence, TensorEvidence, distance

    whole_model = TensorInfo("", (1, 1), np.dtype(np.float32))
    steps: list[StepEvidence] = []
    past: list[np.ndarray] = []
    for at, sketch in sketches:
        if not np.isfinite(sketch).all():
            continue
        changes = [distance(sketch, before) for before in reversed(past[-2:])] + [np.nan, np.nan]
        whole = TensorEvidence(
            whole_model,
            hashlib.sha256(np.ascontiguousarray(sketch).tobytes()).hexdigest(),
            norm=float(np.linalg.norm(sketch)),
            change=changes[0],
            change2=changes[1],
        )
        steps.append(StepEvidence(at, {"": whole}))
        past.append(sketch)
    return [*identical(steps), *path(steps)]


def _file(store: Path, at: Checkpoint, content: str) -> Path:
    """Return the path of the sketch of a checkpoint with this content hash."""
    return store / _FOLDER / f"{parts.slug(at.run)}.{at.step:09d}.{content[:16]}.parquet"


def _write(store: Path, at: Checkpoint, content: str, sketch: np.ndarray) -> None:
    import pyarrow as pa

    table = pa.table({"sketch": sketch.astype(np.float32)})
    parts.write_atomically(table, _file(store, at, content), {})


def _stored_sketch(store: Path, series: Series, at: Checkpoint) -> np.ndarray | None:
    """Return the stored sketch of a checkpoint; None if there is none or its file is damaged."""
    import pyarrow.parquet as pq

    path = _file(store, at, series.content_hash(at))
    return pq.read_table(path)["sketch"].to_numpy() if parts.is_whole(path) else None
