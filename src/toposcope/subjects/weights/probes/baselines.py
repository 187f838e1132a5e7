"""Norms and spectra of every matrix, which topology must beat."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from toposcope.core.seeding import rng
from toposcope.core.threads import run_blocks, thread_count
from toposcope.core.types import Checkpoint, Feature, Matrix, Row
from toposcope.kernels.blas import one_blas_thread
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.labels import Label, groups
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.features import BASELINES, MATRIX_NORM, OF_BASELINES, WEIGHT_NORM
from toposcope.subjects.weights.options import WeightOptions
from toposcope.topology import baselines
from toposcope.topology.spectra import Approximate, is_large, large_baselines

_MOST_THREADS = 8
"""The largest number of matrices that are decomposed in parallel, because each needs memory."""


@dataclass(frozen=True)
class Baselines(Probe):
    """The baselines of `toposcope.topology.baselines` per matrix, their means, and the weight norm.

    Rows: each matrix under its own name; the mean over the matrices of a role as `role`, over all matrices
    as `layers`; and `weight_norm`, the Euclidean norm of all matrices together, as `model`. With `spread`,
    `frobenius_norm_sd` is the standard deviation of the matrices' norms.

    Matrices beyond the sizes in `toposcope.topology.spectra` are approximated. The note of such a row states
    the method and the error. The note of a mean states the error that follows from its members' errors, taken
    as independent.
    """

    options: WeightOptions
    spread: bool = False
    name: str = BASELINES
    version: ClassVar[int] = 2
    features: tuple[Feature, ...] = field(default=OF_BASELINES, repr=False)

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: a Gram matrix of the smaller side, and its eigenvalues."""
        return sum(_large_seconds(s) if is_large(s) else _small_seconds(s) for s in shapes)

    def expected_bytes(self, shapes: Sequence[tuple[int, int]]) -> int:
        """Return the memory beyond the matrices: Gram matrix, covariance and Krylov space, by threads."""
        sides = sorted((min(shape) for shape in shapes), reverse=True)[: min(thread_count(), _MOST_THREADS)]
        return sum(40 * side**2 + 12000 * side for side in sides)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the baselines of one checkpoint."""
        at, results = snapshot.checkpoint, Measured()
        matrices = (matrix for matrix in snapshot.matrices() if self.options.keeps(matrix.name))
        values = {}
        for label, measured in _each(matrices):
            values[label] = measured
            results.rows += _rows(label, at, self.name, measured)
        for group, has in groups(values, "layers").items():
            members = [value for label, value in values.items() if has(label)]
            means = (
                {feature: _mean([m[feature] for m in members]) for feature in members[0]} if members else {}
            )
            if self.spread and members:
                spread = statistics.pstdev([m["frobenius_norm"].value for m in members])
                means["frobenius_norm_sd"] = Approximate(spread)
            results.rows += _rows(group, at, self.name, means)
        norm = math.sqrt(sum(value[MATRIX_NORM.name].value ** 2 for value in values.values()))
        results.rows += Label("model").rows(at, self.name, {WEIGHT_NORM.name: norm})
        return results


def _rows(label: Label, at: Checkpoint, probe: str, values: Mapping[str, Approximate]) -> list[Row]:
    """Return one row for each feature, its note saying how it was approximated."""
    return [
        row
        for feature, baseline in values.items()
        for row in label.rows(at, probe, {feature: baseline.value}, note=baseline.note)
    ]


def _each(matrices: Iterator[Matrix]) -> Iterator[tuple[Label, dict[str, Approximate]]]:
    """Yield each matrix's baselines; large ones in parallel, one per thread."""
    together = min(thread_count(), _MOST_THREADS)
    waiting: list[Matrix] = []
    for matrix in matrices:
        waiting.append(matrix)
        if len(waiting) == together or not is_large(matrix.values.shape):
            yield from _some(waiting)
            waiting = []
        del matrix  # or it would be held while the next one is read
    yield from _some(waiting)


def _some(matrices: Sequence[Matrix]) -> list[tuple[Label, dict[str, Approximate]]]:
    with one_blas_thread(len(matrices) > 1):
        baselines_found = run_blocks(_one, matrices)
    return [(Label.of(matrix), values) for matrix, values in zip(matrices, baselines_found, strict=True)]


def _one(matrix: Matrix) -> dict[str, Approximate]:
    at, values, name = matrix.checkpoint, matrix.values, matrix.name
    if is_large(values.shape):
        return large_baselines(values, rng=rng(run=at.run, step=at.step, name=f"spectra/{name}"), name=name)
    return {feature: Approximate(value) for feature, value in baselines(values, name=name).items()}


def _mean(values: list[Approximate]) -> Approximate:
    """Return the mean of the defined values; NaN if there are none."""
    defined = [value for value in values if math.isfinite(value.value)]
    if not defined:
        return Approximate(math.nan)
    mean = sum(value.value for value in defined) / len(defined)
    if not any(value.how for value in defined) or mean == 0:
        return Approximate(mean)
    error = math.hypot(*(value.value * value.error for value in defined)) / len(defined) / abs(mean)
    return Approximate(mean, error, "mean of approximations, error about")


def _small_seconds(shape: tuple[int, int]) -> float:
    return 1e-3 + 2e-10 * min(shape) ** 2 * max(shape) + 2e-9 * min(shape) ** 3


def _large_seconds(shape: tuple[int, int]) -> float:
    side, length = min(shape), max(shape)
    return 0.1 + 1.2e-11 * side**2 * length + 8e-8 * side**2 + 2e-9 * side * length
