"""The order of checkpoints that are fetched to be measured, told from a small sketch of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from toposcope.core.repeats import AuditFinding
from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint, Matrix
from toposcope.kernels.sketch import sign_codes, signed_sums
from toposcope.sources.audit_checks import identical, path
from toposcope.sources.audit_evidence import StepEvidence, TensorEvidence, distance, sampled
from toposcope.sources.reader import TensorInfo

SKETCH = 4096
"""Coordinates of a sketch: distances of checkpoints are off by about 2%, where a swap moves them by 30."""

_WHOLE = TensorInfo("", (1, 1), np.dtype(np.float32))


def sketched(matrices: Iterable[Matrix]) -> np.ndarray:
    """Return a count sketch, float64 of length `SKETCH`, of the rows that the cheap audit samples.

    Distances of sketches are those of the samples, up to a relative error of about 1 / sqrt(SKETCH). Each
    value goes with a random sign to a random coordinate; both depend on the matrix's name alone.
    """
    total = np.zeros(SKETCH)
    for matrix in matrices:
        values = matrix.values
        rows = [values[start:stop] for start, stop in sampled(len(values), values.nbytes)]
        flat = np.concatenate(rows).astype(np.float32).reshape(-1)
        total += signed_sums(flat, sign_codes(rng(name=f"look/{matrix.name}"), flat.size), SKETCH)
    return total


def findings_of(sketches: Sequence[tuple[Checkpoint, np.ndarray]]) -> list[AuditFinding]:
    """Return what the sketches of one run's checkpoints, by step, tell: swapped, off the path, identical."""
    steps: list[StepEvidence] = []
    past: list[np.ndarray] = []
    for at, sketch in sketches:
        if not np.isfinite(sketch).all():
            continue
        changes = [distance(sketch, before) for before in reversed(past[-2:])] + [np.nan, np.nan]
        whole = TensorEvidence(
            _WHOLE,
            hashlib.sha256(np.ascontiguousarray(sketch).tobytes()).hexdigest(),
            norm=float(np.linalg.norm(sketch)),
            change=changes[0],
            change2=changes[1],
        )
        steps.append(StepEvidence(at, {"": whole}))
        past.append(sketch)
    return [*identical(steps), *path(steps)]
