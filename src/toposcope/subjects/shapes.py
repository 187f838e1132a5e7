"""The shape of a point cloud of weights or representations: its diagrams and its scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toposcope.core.types import Diagram, Status
from toposcope.subjects.declarations import SHAPE
from toposcope.topology import rips_batch, summaries
from toposcope.topology.summaries import SUMMARIES

FILTRATION = "euclidean"
_FEATURES = tuple(name for name in SUMMARIES if name != "essential")
assert {*_FEATURES} <= {*SHAPE}, "a summary that no probe declares"


@dataclass(frozen=True, slots=True)
class CloudShape:
    """The diagrams of one cloud, and the median distance between its points.

    `draw` is None when the cloud holds every point; `note` says what share of them was drawn.
    """

    draw: int | None
    diagrams: tuple[Diagram, ...]
    median: float
    note: str = ""

    @property
    def status(self) -> Status:
        """Return the status of the numbers; a threshold takes precedence over a subsample."""
        if any(diagram.truncated_at is not None for diagram in self.diagrams):
            return Status.TRUNCATED
        return Status.OK if self.draw is None else Status.SUBSAMPLED

    @property
    def scaled(self) -> dict[str, float]:
        """Return the total persistence of each dimension in units of the median distance."""
        return {
            f"h{diagram.dim}_total_scaled": summaries(diagram)["total"] / self.median
            if self.median > 0
            else math.nan
            for diagram in self.diagrams
        }

    def features(self) -> dict[str, float]:
        """Return every summary of every dimension, and the scaled totals."""
        return diagram_features(self.diagrams) | self.scaled


def diagram_features(diagrams: Iterable[Diagram]) -> dict[str, float]:
    """Return `h0_count`, `h0_total`, ... : the summaries of diagrams, one of each dimension."""
    features: dict[str, float] = {}
    for diagram in diagrams:
        values = summaries(diagram)
        features |= {f"h{diagram.dim}_{name}": values[name] for name in _FEATURES}
    return features


def measure_shapes(
    distances: Sequence[np.ndarray],
    draws: Sequence[int | None],
    *,
    maxdim: int = 1,
    thresh: float | None = None,
    notes: Sequence[str] | None = None,
) -> list[CloudShape]:
    """Return the shape of each cloud, given by its distances (n, n); small ones share the cores."""
    diagrams_of_clouds = rips_batch(list(distances), maxdim=maxdim, metric="precomputed", thresh=thresh)
    notes = [""] * len(distances) if notes is None else notes
    return [
        CloudShape(
            draw,
            tuple(replace(diagram, filtration=FILTRATION) for diagram in diagrams),
            median_distance(cloud),
            note,
        )
        for cloud, draw, note, diagrams in zip(distances, draws, notes, diagrams_of_clouds, strict=True)
    ]


def median_distance(distances: np.ndarray) -> float:
    """Return the median distance between two points; 0 for a single one.

    All entries in order are n zeros, then each of the m pairs twice.

    >>> median_distance(np.array([[0.0, 3.0], [3.0, 0.0]]))
    3.0
    """
    n = len(distances)
    m = n * (n - 1) // 2
    if m == 0:
        return 0.0
    places = [n + 2 * ((m - 1) // 2), n + 2 * (m // 2)]
    ordered = np.partition(distances, places, axis=None)
    return float((ordered[places[0]] + ordered[places[1]]) / 2)
