"""What a two-sample test exchanges (diagrams, clouds, blocks of rows, or rows), and their distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Diagram
from toposcope.core.wording import option
from toposcope.topology.clouds import distance_matrix
from toposcope.topology.distances import bottleneck, wasserstein
from toposcope.topology.rips import rips_batch
from toposcope.topology.rtd_lite import rtd_lite_matrix
from toposcope.topology.validation import check_diagram, check_points
from toposcope.topology.vectors import common_grid, landscape

DIAGRAMS, CLOUDS, CLOUD = "diagrams", "clouds", "cloud"
KINDS = (DIAGRAMS, CLOUDS, CLOUD)
WASSERSTEIN, BOTTLENECK, LANDSCAPE, RTD_LITE, POINTS = (
    "wasserstein", "bottleneck", "landscape", "rtd-lite", "points",
)  # fmt: skip
OF_DIAGRAMS = (WASSERSTEIN, BOTTLENECK, LANDSCAPE)
DISTANCES = {
    DIAGRAMS: OF_DIAGRAMS,
    CLOUDS: (*OF_DIAGRAMS, RTD_LITE),
    CLOUD: (*OF_DIAGRAMS, POINTS, RTD_LITE),
}
"""The distances that each kind of input admits."""
PLURALS = {DIAGRAMS: "groups of diagrams", CLOUDS: "groups of clouds", CLOUD: "two clouds"}
_SINGLY = {DIAGRAMS: "several diagrams", CLOUDS: "several clouds", CLOUD: "one cloud"}
BLOCKS = 8
"""The least number of blocks where the rows allow it: 2^7 ways to swap them, so p can be .0078."""


def kind_of(values: Any, name: str) -> str:
    """Return what an argument is: "diagrams", "clouds" or one "cloud".

    A 2-D array is one cloud, and a 3-D array a stack of clouds. Of a list, `Diagram` objects and arrays of
    two columns are diagrams, arrays of another width are clouds.

    >>> kind_of(np.zeros((5, 2)), "A"), kind_of([np.zeros((5, 2))], "A"), kind_of([np.zeros((5, 3))], "A")
    ('cloud', 'diagrams', 'clouds')
    """
    dimensions = getattr(values, "ndim", None)
    if dimensions is None and isinstance(values, Sequence) and not isinstance(values, str):
        if not len(values):
            raise InputError(f"{name} is empty; give at least two diagrams, or one cloud")
        shapes = [(0, 2) if isinstance(value, Diagram) else _shape(value) for value in values]
        if all(len(shape) == 1 and shape != (0,) for shape in shapes):
            return CLOUD
        if all(shape == (0,) or (len(shape) == 2 and shape[1] == 2) for shape in shapes):
            return DIAGRAMS
        if all(len(shape) == 2 for shape in shapes):
            return CLOUDS
    if dimensions in (2, 3):
        return CLOUD if dimensions == 2 else CLOUDS
    raise InputError(
        f"{name} is neither a cloud nor a list of diagrams or clouds; give an (n, d) array, a list of "
        "diagrams, or a list of (n, d) arrays"
    )


def common_kind(
    first: Any, second: Any, kind: str | None = None, names: tuple[str, str] = ("first", "second")
) -> str:
    """Return what both arguments are, unless `kind` says it; refuse two of different kinds."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind is {kind!r}; use one of {', '.join(KINDS)}")
    kinds = [kind or kind_of(values, name) for values, name in zip((first, second), names, strict=True)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{names[0]} is {_SINGLY[kinds[0]]} and {names[1]} {_SINGLY[kinds[1]]}; give two of one kind"
        )
    return kinds[0]


def _shape(values: Any) -> tuple[int, ...]:
    shape = getattr(values, "shape", None)
    try:
        return tuple(np.shape(values) if shape is None else shape)
    except ValueError:  # ragged: its reader names the fault
        return (len(values), 0)


def distances_of_diagrams(diagrams: Sequence[Any], distance: str) -> np.ndarray:
    """Return all distances (n, n) of diagrams of one dimension; that of landscapes is their L2 distance."""
    checked = [check_diagram(diagram, name=f"diagram {at}") for at, diagram in enumerate(diagrams)]
    dims = {diagram.dim for diagram in checked}
    if len(dims) > 1:
        raise InputError(f"the diagrams have dimensions {sorted(dims)}; compare those of one dimension")
    if distance == LANDSCAPE:
        return _of_landscapes(checked)
    measure: Callable[[Any, Any], float] = wasserstein if distance == WASSERSTEIN else bottleneck
    out = np.zeros((len(checked), len(checked)))
    for i, j in combinations(range(len(checked)), 2):
        out[i, j] = out[j, i] = measure(checked[i], checked[j])
        if not np.isfinite(out[i, j]):
            raise InputError(
                f"diagrams {i} and {j} have different numbers of essential classes and are infinitely far "
                "apart; drop the bars that never die"
            )
    return out


def _of_landscapes(diagrams: Sequence[Diagram]) -> np.ndarray:
    if not any(np.isfinite(diagram.death).any() for diagram in diagrams):
        return np.zeros((len(diagrams), len(diagrams)))
    grid = common_grid(diagrams)
    heights = np.stack([landscape(diagram, grid).ravel() for diagram in diagrams])
    return distance_matrix(heights) * math.sqrt(float(grid[1] - grid[0]))


def distances_of_clouds(clouds: Sequence[Any], distance: str, metric: str, *, rescale: bool) -> np.ndarray:
    """Return all distances (n, n) of clouds; those of H0 and H1 count alike, each divided by its mean.

    With `rescale`, the distances within each cloud are divided by their mean first.
    """
    if distance == RTD_LITE:
        return rtd_lite_matrix(clouds, metric=metric)
    within = [distance_matrix(cloud, metric, name=f"cloud {at}") for at, cloud in enumerate(clouds)]
    if rescale:
        within = [distances / (distances.mean() or 1.0) for distances in within]
    total = np.zeros((len(clouds), len(clouds)))
    for diagrams in zip(*rips_batch(within, metric="precomputed"), strict=True):
        between = distances_of_diagrams(diagrams, distance)
        if (mean := float(between.mean())) > 0.0:
            total += between / mean
    return total


def distances_of_points(first: np.ndarray, second: np.ndarray, metric: str) -> np.ndarray:
    """Return all distances of the rows of two clouds of the same columns."""
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"first has {first.shape[1]:,} columns and second {second.shape[1]:,}; points are compared in "
            f"the same coordinates: use {option('distance', 'wasserstein')}, which needs none"
        )
    return distance_matrix(np.concatenate([first, second]), metric)


def cloud_pair(
    first: Any, second: Any, *, paired: bool, names: tuple[str, str] = ("first", "second")
) -> tuple[np.ndarray, np.ndarray]:
    """Return two checked clouds; paired ones have equally many rows."""
    a, b = check_points(first, name=names[0]), check_points(second, name=names[1])
    for points, name in zip((a, b), names, strict=True):
        if len(points) == 1:
            raise InputError(f"{name} has one row; give at least 4 of each cloud")
    check_pairs(len(a), len(b), "rows", paired=paired, names=names)
    return a, b


def check_pairs(
    a: int, b: int, noun: str, *, paired: bool, names: tuple[str, str] = ("first", "second")
) -> None:
    """Refuse pairs of groups of different sizes."""
    if paired and a != b:
        raise InputError(
            f"{names[0]} has {a:,} {noun} and {names[1]} {b:,}, which cannot be pairs; give equally many, or "
            f"leave {option('paired')} out"
        )


def block_size(rows: int) -> int:
    """Return the rows of a block: about the square root of all, and fewer where that gives under 8 blocks.

    >>> block_size(1000), block_size(32), block_size(8)
    (31, 4, 2)
    """
    return max(2, min(math.isqrt(rows), rows // BLOCKS))


def dealt(first: np.ndarray, second: np.ndarray, size: int, seed: int, *, paired: bool) -> list[np.ndarray]:
    """Return the blocks of both clouds, those of the first before the others; rows are dealt at random.

    Rows that fill no block are left out. Paired clouds are dealt alike.
    """
    blocks = []
    for place, points in enumerate((first, second)):
        order = rng(purpose="blocks", seed=seed, cloud=0 if paired else place).permutation(len(points))
        blocks += [points[order[at : at + size]] for at in range(0, len(points) - size + 1, size)]
    return blocks
