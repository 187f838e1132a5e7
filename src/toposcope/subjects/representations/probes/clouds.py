"""One layer's cloud: diagrams of its subsamples and of its null, its spectrum and its dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Checkpoint
from toposcope.kernels.blas import SMALL_PRODUCT, one_blas_thread
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.probes._null import gaussian_twins
from toposcope.subjects.representations.probes.reduce import reduce_cloud
from toposcope.subjects.shapes import FILTRATION, CloudShape, measure_shapes
from toposcope.topology import baselines, mle_dimension, ph_dimension, twonn
from toposcope.topology.clouds import distance_matrix

SPECTRAL_RANGE = (1, 50)
"""The eigenvalues, counted from 1, to which the power law of the spectrum is fitted."""


@dataclass(frozen=True, slots=True)
class LayerCloud:
    """The measurements of one layer: the spectrum before reduction, the shapes and the nulls after it."""

    shapes: tuple[CloudShape, ...]
    nulls: tuple[CloudShape, ...]
    scalars: dict[str, float]
    notes: dict[str, str]
    states: np.ndarray


def measure_layer(
    states: np.ndarray, layer: int, at: Checkpoint, options: RepresentationOptions
) -> LayerCloud:
    """Return the shapes and scalars of one layer's states, float32 of shape (n, width)."""
    with one_blas_thread(2.0 * min(states.shape) * states.size < SMALL_PRODUCT):
        return _measure(states, layer, at, options)


def _measure(states: np.ndarray, layer: int, at: Checkpoint, options: RepresentationOptions) -> LayerCloud:
    reduced = reduce_cloud(states, options.reduction, options.components)
    scalars = {"explained": reduced.explained} | baselines(
        states, alpha_range=SPECTRAL_RANGE, name=f"layer {layer}"
    )
    notes: dict[str, str] = {}
    if options.dimension:
        for name, value, note in _dimensions(reduced.points):
            scalars[name] = value
            notes[name] = note
    draws, clouds = zip(*_draws(reduced.points, layer, at, options), strict=True)
    shapes = measure_shapes([_distances(cloud) for cloud in clouds], draws, maxdim=options.maxdim)
    nulls = _nulls(clouds, layer, at, options)
    return LayerCloud(tuple(shapes), tuple(nulls), scalars, notes, states)


def _nulls(
    clouds: Sequence[np.ndarray], layer: int, at: Checkpoint, options: RepresentationOptions
) -> list[CloudShape]:
    """Return the shapes of the Gaussian twins, which are distributed over the subsamples."""
    distances_by_draw: dict[int, np.ndarray] = {}
    for place, cloud in enumerate(clouds):
        draws = range(options.nulls)[place :: len(clouds)]
        twins = gaussian_twins(cloud, run=at.run, layer=layer, draws=draws)
        distances_by_draw |= dict(zip(draws, map(_distances, twins), strict=True))
    numbers = sorted(distances_by_draw)
    return measure_shapes([distances_by_draw[draw] for draw in numbers], numbers, maxdim=options.maxdim)


def _draws(
    points: np.ndarray, layer: int, at: Checkpoint, options: RepresentationOptions
) -> Iterator[tuple[int | None, np.ndarray]]:
    """Yield the cloud, or its subsamples with their numbers."""
    if len(points) <= options.points:
        yield None, points
        return
    for draw in range(options.draws):
        # The same texts at every checkpoint, so that a draw's series moves with the model alone.
        generator = rng(purpose="texts", run=at.run, layer=layer, draw=draw)
        yield draw, points[np.sort(generator.choice(len(points), options.points, replace=False))]


def _distances(points: np.ndarray) -> np.ndarray:
    return distance_matrix(points, FILTRATION)


def _dimensions(points: np.ndarray) -> Iterator[tuple[str, float, str]]:
    """Yield each estimate with its band; NaN with the reason if the cloud does not allow one."""
    for name, estimate in (
        ("twonn", twonn),
        ("mle_dimension", mle_dimension),
        ("ph_dimension", ph_dimension),
    ):
        try:
            estimated = estimate(points)
            yield name, estimated.value, f"band {estimated.low:.3g} to {estimated.high:.3g}"
        except InputError as error:
            yield name, math.nan, str(error)
