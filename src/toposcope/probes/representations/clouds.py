"""One layer's cloud: its diagrams under replicated subsamples, its spectrum and its dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toposcope.errors import InputError
from toposcope.probes.representations.options import RepresentationOptions
from toposcope.probes.representations.reduce import reduce_cloud
from toposcope.seeding import rng
from toposcope.topology import baselines, mle_dimension, ph_dimension, rips, summaries, twonn
from toposcope.topology.rips import distance_matrix
from toposcope.types import Checkpoint, Diagram, Status

FILTRATION = "euclidean"
_SPECTRAL_RANGE = (1, 50)


@dataclass(frozen=True, slots=True)
class Shape:
    """The diagrams of one draw of a cloud; `draw` is None when it holds every point."""

    draw: int | None
    diagrams: tuple[Diagram, ...]
    median: float

    @property
    def status(self) -> Status:
        """Say whether points were left out."""
        return Status.OK if self.draw is None else Status.SUBSAMPLED

    def features(self) -> dict[str, float]:
        """Return every summary of every dimension, and the totals in units of the median distance."""
        found: dict[str, float] = {}
        for diagram in self.diagrams:
            values = summaries(diagram)
            del values["essential"]
            found |= {f"h{diagram.dim}_{name}": value for name, value in values.items()}
            scaled = values["total"] / self.median if self.median > 0 else math.nan
            found[f"h{diagram.dim}_total_scaled"] = scaled
        return found


@dataclass(frozen=True, slots=True)
class LayerCloud:
    """What is kept of one layer: the unreduced cloud's spectrum, the reduced cloud's shapes."""

    shapes: tuple[Shape, ...]
    scalars: dict[str, float]
    notes: dict[str, str]
    states: np.ndarray


def measure_layer(
    states: np.ndarray, layer: int, at: Checkpoint, options: RepresentationOptions
) -> LayerCloud:
    """Return the shapes and scalars of one layer's states, float32 of shape (n, width)."""
    reduced = reduce_cloud(states, options.reduction, options.components)
    scalars = {"explained": reduced.explained} | baselines(
        states, alpha_range=_SPECTRAL_RANGE, name=f"layer {layer}"
    )
    notes: dict[str, str] = {}
    if options.dimension:
        for name, value, note in _dimensions(reduced.points):
            scalars[name] = value
            notes[name] = note
    shapes = tuple(_shapes(reduced.points, layer, at, options))
    return LayerCloud(shapes, scalars, notes, states)


def _shapes(
    points: np.ndarray, layer: int, at: Checkpoint, options: RepresentationOptions
) -> Iterator[Shape]:
    if len(points) <= options.points:
        yield _shape(points, None, options.maxdim)
        return
    for draw in range(options.draws):
        # The same texts at every checkpoint, so that a draw's series moves with the model alone.
        generator = rng(purpose="texts", run=at.run, layer=layer, draw=draw)
        chosen = np.sort(generator.choice(len(points), options.points, replace=False))
        yield _shape(points[chosen], draw, options.maxdim)


def _shape(points: np.ndarray, draw: int | None, maxdim: int) -> Shape:
    distances = distance_matrix(points, FILTRATION)
    diagrams = rips(distances, maxdim=maxdim, metric="precomputed")
    n = len(points)
    median = float(np.median(distances[np.triu_indices(n, 1)])) if n > 1 else 0.0
    return Shape(draw, tuple(replace(diagram, filtration=FILTRATION) for diagram in diagrams), median)


def _dimensions(points: np.ndarray) -> Iterator[tuple[str, float, str]]:
    """Yield each estimate with its interval; nan, with the reason, where the cloud does not allow one."""
    for name, estimate in (
        ("twonn", twonn),
        ("mle_dimension", mle_dimension),
        ("ph_dimension", ph_dimension),
    ):
        try:
            found = estimate(points)
            yield name, found.value, f"95% interval {found.low:.3g} to {found.high:.3g}"
        except InputError as error:
            yield name, math.nan, str(error)
