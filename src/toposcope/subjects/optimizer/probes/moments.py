"""Numbers of every matrix's moments: the update that they make, its rate, noise, floor, age and angle."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from toposcope.core.types import Checkpoint, Feature, Status
from toposcope.subjects.base import Measured, Probe, Reads
from toposcope.subjects.labels import Label, groups
from toposcope.subjects.optimizer.features import (
    ANGLE,
    EFFECTIVE_RATE,
    FLOOR,
    MOMENTS,
    OF_MOMENTS,
    SIGNAL,
    STALE,
    UPDATE_RMS,
)
from toposcope.subjects.optimizer.kept import (
    BEFORE,
    CHANGE,
    DIVISOR,
    FIRST,
    SECOND,
    UPDATE,
    MomentMatrix,
    has_moments,
    kept_state,
    moment_matrices,
    moments_in_words,
)
from toposcope.subjects.optimizer.steps import AdamRule
from toposcope.subjects.snapshot import Snapshot

NO_STATE = "no optimiser's state with a rate can be read beside their weights"
_BLOCK = 1 << 20
"""How many values are in memory in float64 at once."""


@dataclass(frozen=True)
class Moments(Probe):
    """The numbers of the optimiser's moments, per matrix, and their means over roles and the model.

    With m and v the moments, m_hat and v_hat after Adam's corrections, and lr the stored rate, which a
    schedule may already have set for the next step. What an optimiser does not keep has no row. A checkpoint
    without moments has no rows; if the probe was `asked` for by name, one row of it says so.
    """

    without: tuple[str, ...] = ()
    asked: bool = False
    name: str = MOMENTS
    version: ClassVar[int] = 1
    features: tuple[Feature, ...] = field(default=OF_MOMENTS, repr=False)
    reads = Reads.PREVIOUS

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: both moments, the weights and those before are read once."""
        return sum(1e-3 + 6e-8 * rows * columns for rows, columns in shapes)

    def expected_bytes(self, shapes: Sequence[tuple[int, int]]) -> int:
        """Return the memory beyond the matrices: five fields of one tensor, and one in float64."""
        return max((28 * rows * columns for rows, columns in shapes), default=0) + 64 * _BLOCK

    def hint(self, places: Sequence[str]) -> str:
        """Return at how many checkpoints nothing is measured."""
        without = sum(not has_moments(place) for place in places)
        if not without:
            return ""
        return f"{without:,} of {len(places):,} checkpoints have no row of moments: {NO_STATE}"

    def beside(self, place: str) -> str:
        """Return which moments a checkpoint keeps."""
        return moments_in_words(place)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the numbers of one checkpoint."""
        measured, at = Measured(), snapshot.checkpoint
        kept = kept_state(snapshot)
        if kept is None:
            if self.asked:
                measured.rows += Label("model").rows(
                    at, self.name, {UPDATE_RMS.name: math.nan}, status=Status.DEGENERATE, note=NO_STATE
                )
            return measured
        values: dict[Label, dict[str, float]] = {}
        for matrix in moment_matrices(snapshot, kept):
            if any(part in matrix.label.name for part in self.without):
                continue
            values[matrix.label] = numbers_of(matrix)
            note = matrix.rule.note if matrix.rule is not None else ""
            measured.rows += matrix.label.rows(at, self.name, values[matrix.label], note=note)
        measured.rows += list(_means(at, values))
        return measured


def _means(at: Checkpoint, values: dict[Label, dict[str, float]]) -> Iterator:  # type: ignore[type-arg]
    """Yield the means over the matrices of each role and of the model, of what is known of any."""
    for group, has in groups(values, "model").items():
        members = [value for label, value in values.items() if has(label)]
        for feature in OF_MOMENTS:
            finite = [
                member[feature.name]
                for member in members
                if math.isfinite(member.get(feature.name, math.nan))
            ]
            if finite:
                yield from group.rows(at, MOMENTS, {feature.name: statistics.fmean(finite)})


@dataclass(slots=True)
class MomentSums:
    """Sums over the blocks of one matrix."""

    squares: float = 0.0
    signal: float = 0.0
    with_signal: int = 0
    at_floor: int = 0
    stale: int = 0
    along: float = 0.0
    first: float = 0.0
    change: float = 0.0


def numbers_of(matrix: MomentMatrix) -> dict[str, float]:
    """Return the numbers of one matrix that its moments and their rule determine."""
    sums, count = MomentSums(), int(matrix.fields.size)
    has_update = False
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for block in _blocks(matrix.fields):
            has_update |= _add_update(sums, matrix, block)
            _add_second(sums, matrix, block)
            _add_angle(sums, matrix, block)
    values: dict[str, float] = {}
    if has_update:
        values[UPDATE_RMS.name] = math.sqrt(sums.squares / count)
    values |= _of_second(sums, matrix, count)
    if matrix.has(CHANGE):
        size = math.sqrt(sums.first) * math.sqrt(sums.change)
        cosine = max(-1.0, min(1.0, sums.along / size)) if 0 < size < math.inf else math.nan
        values[ANGLE.name] = math.degrees(math.acos(cosine))
    return values


def _blocks(fields: np.ndarray) -> Iterator[np.ndarray]:
    rows = max(1, _BLOCK // max(1, fields.shape[1]))
    for start in range(0, len(fields), rows):
        yield fields[start : start + rows]


def _wide(block: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(block[name], np.float64)


def _add_update(sums: MomentSums, matrix: MomentMatrix, block: np.ndarray) -> bool:
    """Add the squares of the update, and return whether it is known."""
    if matrix.has(UPDATE):
        update = _wide(block, UPDATE)
    elif matrix.rule is None or not matrix.has(FIRST):
        return False
    else:
        below = DIVISOR if matrix.has(DIVISOR) else SECOND
        second = _wide(block, below) if matrix.has(below) else None
        step = matrix.rule.update(_wide(block, FIRST), second)
        if step is None:
            return False
        update = step
    sums.squares += float(np.square(update).sum())
    return True


def _add_second(sums: MomentSums, matrix: MomentMatrix, block: np.ndarray) -> None:
    if not matrix.has(SECOND):
        return
    second = _wide(block, SECOND)
    if isinstance(matrix.rule, AdamRule):
        positive = second > 0
        ratio = np.square(_wide(block, FIRST)[positive]) / second[positive]
        sums.signal += float(ratio.sum()) * matrix.rule.second / matrix.rule.first**2
        sums.with_signal += len(ratio)
    if matrix.rule is not None and matrix.rule.floor is not None:
        sums.at_floor += int(np.count_nonzero(second <= matrix.rule.floor))
    if matrix.has(BEFORE):
        before = _wide(block, BEFORE)
        # each update rounds twice, by half an epsilon at most
        room = 1 + matrix.second_epsilon * (matrix.between + 1)
        decayed = second <= matrix.beta**matrix.between * before * room
        sums.stale += int(np.count_nonzero(decayed | (second == before)))


def _of_second(sums: MomentSums, matrix: MomentMatrix, count: int) -> dict[str, float]:
    """Return the numbers of the second moment; a stored type of 16 bits does not tell what is stale."""
    values: dict[str, float] = {}
    rule = matrix.rule
    below = DIVISOR if matrix.has(DIVISOR) else SECOND
    middle = float(np.median(matrix.fields[below])) if matrix.has(below) else math.nan
    rate = None if rule is None else rule.rate(middle)
    if rate is not None:
        values[EFFECTIVE_RATE.name] = rate
    if not matrix.has(SECOND):
        return values
    if sums.with_signal:
        values[SIGNAL.name] = sums.signal / sums.with_signal
    if rule is not None and rule.floor is not None:
        values[FLOOR.name] = sums.at_floor / count
    if matrix.has(BEFORE) and matrix.between > 0 and matrix.beta < 1 and math.isfinite(matrix.second_epsilon):
        values[STALE.name] = sums.stale / count
    return values


def _add_angle(sums: MomentSums, matrix: MomentMatrix, block: np.ndarray) -> None:
    if matrix.has(CHANGE):
        first, change = _wide(block, FIRST), _wide(block, CHANGE)
        sums.along += float((first * change).sum())
        sums.first += float(np.square(first).sum())
        sums.change += float(np.square(change).sum())
