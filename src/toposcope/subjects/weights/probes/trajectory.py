"""The training trajectory as a point cloud: one point for each checkpoint up to now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.threads import run_blocks
from toposcope.core.types import Feature, Matrix, Scope, Status
from toposcope.kernels.sketch import COORDINATES, sign_codes, signed_sums
from toposcope.subjects.base import Measured, Probe, Reads
from toposcope.subjects.labels import Label
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.features import OF_TRAJECTORY, TRAJECTORY
from toposcope.subjects.weights.options import WeightOptions
from toposcope.topology import ph_dimension, rips, summaries

EXACT = 1 << 17
"""Models of up to this many weights are points as they are; larger ones are sketched."""

_MOST_POINTS = 200
"""The largest number of checkpoints in a trajectory, chosen evenly: distances grow with its square."""
_FEWEST_FOR_DIMENSION = 20
"""The fewest points for a persistent-homology dimension."""
_BLOCK = 1 << 20
_TOGETHER = 16
"""Entries of a block, and blocks that are summed in parallel; these change only memory and speed."""


@dataclass(frozen=True)
class Trajectory(Probe):
    """H0, H1 and PH dimension of the cloud of checkpoints up to each step, and the step's length.

    A point is the vector of all matrices. Above 131,072 weights it is replaced by a count sketch of 4096
    coordinates (each weight is added, with a random sign, to a random coordinate): squared distances keep
    their mean, with a relative standard deviation of at most sqrt(2/4096) = 2.2%; the note says so. Paths of
    more than 200 checkpoints are thinned evenly (status `subsampled`), and checkpoints that cannot be
    read are left out, with a note. The PH dimension needs 20 points.
    """

    options: WeightOptions
    name: str = TRAJECTORY
    version: ClassVar[int] = 2
    features: tuple[Feature, ...] = field(default=OF_TRAJECTORY, repr=False)
    reads = Reads.PREFIX

    def expected_seconds(self, shapes: Sequence[tuple[int, int]]) -> float:
        """Return a rough cost on one core: a pass over the weights and the shape of the path so far."""
        return 0.05 + 2e-9 * sum(rows * columns for rows, columns in shapes)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the shape of the run's path up to one checkpoint."""
        _point(snapshot, self.options)  # raises when this very checkpoint cannot be read
        if _non_finite(snapshot, self.options):
            return Measured()
        path = [earlier for earlier in snapshot.prefix if _is_point(earlier, self.options)]
        notes = (
            [f"count sketch of {COORDINATES} coordinates"] if _point(snapshot, self.options).sketched else []
        )
        if len(path) <= snapshot.index:
            notes.append(f"{snapshot.index + 1 - len(path)} unreadable checkpoints left out")
        squares = _square_distances(path, self.options)
        chosen = _evenly(len(path))
        values = _shape(_coordinates(squares[np.ix_(chosen, chosen)]))
        if len(path) > 1:
            values["trajectory_step_length"] = math.sqrt(squares[-1, -2])
        status = Status.SUBSAMPLED if len(chosen) < len(path) else Status.OK
        rows = Label("model", scope=Scope.TRAJECTORY).rows(
            snapshot.checkpoint,
            self.name,
            values,
            filtration="euclidean",
            status=status,
            note="; ".join(notes),
        )
        return Measured(rows=rows)


def _shape(points: np.ndarray) -> dict[str, float]:
    h0, h1 = rips(points, maxdim=1)
    values = {
        "trajectory_h0_total": summaries(h0)["total"],
        "trajectory_h1_total": summaries(h1)["total"],
    }
    if len(points) >= _FEWEST_FOR_DIMENSION:
        values["trajectory_ph_dimension"] = _dimension(points)
    return values


def _dimension(points: np.ndarray) -> float:
    """Return the PH dimension; NaN if the run did not move."""
    try:
        value = ph_dimension(points, name="trajectory").value
    except InputError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _evenly(n: int) -> np.ndarray:
    """Return the indices of at most 200 checkpoints, including the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).round().astype(np.int64))


def _coordinates(squares: np.ndarray) -> np.ndarray:
    """Return points with these squared distances, in at most as many dimensions as there are points."""
    gram = (squares[:, :1] + squares[:1, :] - squares) / 2.0
    values, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _square_distances(path: list[Snapshot], options: WeightOptions) -> np.ndarray:
    """Return squared distances between the points of a path; each pair is computed once per run."""
    size = path[-1].index + 1
    squares = np.zeros((size, size))
    for snapshot in path:
        squares[snapshot.index, : snapshot.index] = snapshot.remember_for_run(
            ("distances", options.without),
            lambda snapshot=snapshot: _to_earlier(snapshot, options),  # type: ignore[misc]
        )
    chosen = [snapshot.index for snapshot in path]
    return (squares + squares.T)[np.ix_(chosen, chosen)]


def _to_earlier(snapshot: Snapshot, options: WeightOptions) -> np.ndarray:
    """Return the squared distance to each earlier checkpoint, 0 for one that cannot be read."""
    row = np.zeros(snapshot.index)
    here = _point(snapshot, options).values
    for other in snapshot.prefix[:-1]:
        if _is_point(other, options):
            step = np.subtract(here, _point(other, options).values, dtype=np.float64)  # no overflow
            row[other.index] = np.einsum("i,i", step, step)
    return row


@dataclass(frozen=True, slots=True)
class _Point:
    """A checkpoint as a vector: its weights, or a sketch of them."""

    values: np.ndarray
    size: int

    @property
    def sketched(self) -> bool:
        return self.size > EXACT


def _is_point(snapshot: Snapshot, options: WeightOptions) -> bool:
    """Return whether a checkpoint can be read; if so, its point is cached."""

    def readable() -> bool:
        try:
            _point(snapshot, options)
        except (InputError, OSError):
            return False
        return not _non_finite(snapshot, options)

    return snapshot.remember_for_run(("readable", options.without), readable)


def _non_finite(snapshot: Snapshot, options: WeightOptions) -> bool:
    """Return whether a matrix of the point is not finite, so that the point is left out of the path."""
    return any(options.keeps(non_finite.name) for non_finite in snapshot.non_finite)


def _point(snapshot: Snapshot, options: WeightOptions) -> _Point:
    def compute() -> _Point:
        sketch, exact, size = np.zeros(COORDINATES), [], 0
        for matrix in snapshot.matrices():
            if options.keeps(matrix.name):
                size += matrix.values.size
                if size <= EXACT:
                    exact.append(matrix.values.astype(np.float32).ravel())
                _add_to_sketch(sketch, matrix)
        point = _Point(np.concatenate(exact) if exact and size <= EXACT else sketch, size)
        if not np.isfinite(point.values).all():  # by overflow: non-finite matrices are left out before
            raise InputError(
                f"step {snapshot.checkpoint.step:,} has weights that are not finite; leave it out"
            )
        return point

    point = snapshot.remember_for_run(("point", options.without), compute)
    first = snapshot.prefix[0]
    whole = first is not snapshot and not _non_finite(snapshot, options) and _is_point(first, options)
    if whole and _point(first, options).size != point.size:
        raise InputError(
            f"step {snapshot.checkpoint.step:,} has {point.size:,} weights, but the first step of the run "
            f"has {_point(first, options).size:,}; the two cannot be compared: leave the step out"
        )
    return point


def _add_to_sketch(sketch: np.ndarray, matrix: Matrix) -> None:
    """Add each weight, with a random sign, to a random coordinate; both depend only on the name."""
    flat = matrix.values.reshape(-1)

    def of_block(block: int) -> np.ndarray:
        part = flat[block * _BLOCK : (block + 1) * _BLOCK]
        codes = sign_codes(rng(name=f"trajectory/{matrix.name}", draw=block), part.size)
        return signed_sums(part if part.itemsize > 4 else part.astype(np.float32), codes, COORDINATES)

    blocks = range(-(-flat.size // _BLOCK))
    for start in range(0, len(blocks), _TOGETHER):  # in order, so that threads change no bit of the sum
        for part in run_blocks(of_block, blocks[start : start + _TOGETHER]):
            sketch += part
