"""Marks the rows that a tensor with NaN or infinite values makes unusable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposcope.core.errors import SourceError
from toposcope.core.forms import and_more
from toposcope.core.observations import Observation
from toposcope.core.types import Checkpoint, Role, Row, Scope, Status
from toposcope.sources.content import SPOILT
from toposcope.store import Store
from toposcope.subjects.base import Measured, Probe, Reads
from toposcope.subjects.snapshot import NonFiniteMatrix, Snapshot
from toposcope.subjects.weights.options import WeightOptions


def mark_spoilt(probe: Probe, snapshot: Snapshot, measured: Measured) -> Measured:
    """Return the measurement with the rows that a non-finite tensor affects marked `failed`.

    The tensor has one row of its own, `failed`. Rows that aggregate the model or the tensor's role stay, but
    without a value. Such a unit counts as done; it is measured again when its file changes.

    Raises
    ------
    SourceError
        If a probe that does not measure matrix by matrix had no matrix left.
    """
    options = getattr(probe, "options", None)
    if not isinstance(options, WeightOptions):
        if snapshot.left_out:
            raise SourceError(snapshot.left_out[0].note)
        return measured
    own_matrices = [matrix for matrix in snapshot.non_finite if options.keeps(matrix.name)]
    before = snapshot.previous if probe.reads == Reads.PREVIOUS else None
    past = (
        [matrix for matrix in before.non_finite if options.keeps(matrix.name)] if before is not None else []
    )
    matrices = list({matrix.name: matrix for matrix in [*past, *own_matrices]}.values())
    if not matrices:
        return measured
    rows = [_failed(row, matrices) for row in measured.rows] + [
        _row(snapshot.checkpoint, probe.name, matrix) for matrix in matrices
    ]
    names = {matrix.name for matrix in matrices}
    diagrams = [
        item for item in measured.diagrams if item.role != Role.MODEL and item.name not in names
    ]  # fmt: skip
    return replace(measured, rows=rows, diagrams=diagrams)


def known_spoilt(
    store: Store, probes: Sequence[Probe], runs: Mapping[str, Sequence[Checkpoint]]
) -> list[Observation]:
    """Return the non-finite tensors in these checkpoints that the store recorded, to report them again."""
    wanted = {(run, at.step) for run, checkpoints in runs.items() for at in checkpoints}
    notes: dict[tuple[str, int, str], Observation] = {}
    for probe in probes:
        rows = store.features(probe=probe.name, feature=SPOILT)
        for line in rows[rows["name"] != ""].to_dict("records"):
            if (line["run"], line["step"]) in wanted:
                observed = Observation(line["run"], int(line["step"]), line["name"], line["note"])
                notes[observed.run, observed.step or 0, observed.tensor] = observed
    return [note for _, note in sorted(notes.items())]


def with_status(measured: Measured) -> Measured:
    """Return the measurement with a status for every row that has no finite value.

    Weights near the largest float overflow in sums of squares; such a number is `degenerate`, not `ok`.
    """
    return replace(measured, rows=[_marked(row) for row in measured.rows])


def _marked(row: Row) -> Row:
    if math.isfinite(row.value) or row.status in (Status.DEGENERATE, Status.FAILED):
        return row
    why = "not defined here" if math.isnan(row.value) else "beyond the largest floating-point number"
    return replace(
        row, value=math.nan, status=Status.DEGENERATE, note="; ".join(filter(None, [row.note, why]))
    )


def _failed(row: Row, matrices: Sequence[NonFiniteMatrix]) -> Row:
    reaching = [matrix for matrix in matrices if _reaches(matrix, row)]
    if not reaching:
        return row
    more = and_more(len(reaching) - 1, form=" (and {})")
    return replace(row, value=math.nan, status=Status.FAILED, note=reaching[0].note + more)


def _reaches(matrix: NonFiniteMatrix, row: Row) -> bool:
    """Return whether a row depends on the tensor: directly, by its role, by the model or by its scale."""
    return (
        row.role == Role.MODEL
        or (row.scope == Scope.ROLE and row.role == matrix.role)
        or row.name == matrix.name
    )


def _row(at: Checkpoint, probe: str, matrix: NonFiniteMatrix) -> Row:
    return Row(
        at.run, at.step, probe, SPOILT, math.nan, tokens=at.tokens, name=matrix.name, role=matrix.role,
        layer=matrix.layer, head=matrix.head, scope=Scope.MATRIX, status=Status.FAILED, note=matrix.note,
    )  # fmt: skip
