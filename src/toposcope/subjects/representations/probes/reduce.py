"""From hidden states to the cloud that is measured: principal components, a random projection, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng

Reduction = Literal["pca", "random", "none"]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A cloud of shape (n, components) and the share of the variance that it keeps."""

    points: np.ndarray
    explained: float


def reduce_cloud(states: np.ndarray, reduction: Reduction, components: int) -> Reduced:
    r"""Return the cloud in fewer dimensions.

    "pca" projects the centred states onto the leading right singular vectors (exactly; the sign of each is
    fixed by its largest entry). "random" multiplies by a Gaussian matrix of variance 1/components, the same
    for every checkpoint of one width. "none" only centres. `explained` is the kept share of the total
    variance; for "random", the ratio of the projected to the original variance.

    Parameters
    ----------
    states : array of shape (n, width), float32
    reduction : "pca", "random" or "none"
    components : int
        At most min(n, width) for "pca"; a larger number keeps everything.

    Raises
    ------
    InputError
        When `components` is not positive or `reduction` is unknown.

    Examples
    --------
    >>> line = np.outer(np.arange(5.0), np.ones(3)).astype(np.float32)
    >>> reduced = reduce_cloud(line, "pca", 1)
    >>> reduced.points.shape, round(reduced.explained, 6)
    ((5, 1), 1.0)
    """
    if components < 1:
        raise InputError("it must be at least 1", argument="components", value=components)
    centred = states.astype(np.float64) - states.mean(axis=0, dtype=np.float64)
    total = float((centred**2).sum())
    if reduction == "none":
        return Reduced(centred, 1.0)
    if reduction == "random":
        width = centred.shape[1]
        matrix = rng(purpose="random projection", width=width, components=components)
        points = centred @ (matrix.standard_normal((width, components)) / np.sqrt(components))
    elif reduction == "pca":
        points = _principal(centred, components)
    else:
        raise InputError("unknown", argument="reduction", value=reduction, remedy="use pca, random or none")
    return Reduced(points, float((points**2).sum()) / total if total > 0 else float("nan"))


def _principal(centred: np.ndarray, components: int) -> np.ndarray:
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:components]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    return centred @ (axes * signs[:, None]).T
