"""Persistence images and landscapes of a run's diagrams, as columns of a feature table.

Bars are divided by the diagram's longest one, so no range has to be chosen and none can leak from later
steps; the length itself goes into one more column, its logarithm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from toposcope.core.types import Scope
from toposcope.subjects.weights.features import RIPS

IMAGE_BINS = 6
LANDSCAPE_POINTS = 12
LANDSCAPE_LAYERS = 3
_BLUR = 0.12
"""Bins of an image, points and layers of a landscape, and the image's blur in shares of the range."""


def image_columns(pairs: np.ndarray, bins: int = IMAGE_BINS) -> np.ndarray:
    """Return the image (bins**2,) on births and persistences in [0, 1], births first, of bars (n, 2).

    Its bumps have the height 1 times the persistence: not the normal density's.

    >>> image = image_columns(np.array([[0.0, 1.0]]), bins=3)
    >>> image.shape, int(image.argmax())
    ((9,), 2)
    """
    from toposcope.topology.vectors import persistence_image

    centres = (np.arange(bins) + 0.5) / bins
    image = persistence_image(pairs, centres, centres, bandwidth=_BLUR)
    return image.T.ravel() * (2.0 * np.pi * _BLUR**2)


def landscape_columns(
    pairs: np.ndarray, points: int = LANDSCAPE_POINTS, levels: int = LANDSCAPE_LAYERS
) -> np.ndarray:
    """Return lambda_1..lambda_levels on a grid of [0, 1], shape (levels * points,), of bars (n, 2).

    >>> landscape_columns(np.array([[0.0, 1.0]]), points=3, levels=1).tolist()
    [0.0, 0.5, 0.0]
    """
    from toposcope.topology.vectors import landscape

    return landscape(pairs, np.linspace(0.0, 1.0, points), levels).ravel()


VECTORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "image": image_columns,
    "landscape": landscape_columns,
}


def vector_table(diagrams: pd.DataFrame, kind: str, *, scope: str = Scope.POOLED) -> pd.DataFrame:
    """Return one row per (run, step) with the columns `kind`_0, `kind`_1, .. of all dimensions side by side.

    `diagrams` has the store's columns (run, step, probe, scope, draw, dim, birth, death); only the Rips
    diagrams of this `scope` are used, draws are averaged, essential and empty classes left out.
    """
    rows = diagrams[(diagrams["probe"] == RIPS) & (diagrams["scope"] == scope)]
    if rows.empty:
        return pd.DataFrame(columns=["run", "step"])
    vectorise = VECTORS[kind]
    records = []
    for run, step, dim, birth, death in rows[["run", "step", "dim", "birth", "death"]].itertuples(
        index=False
    ):
        b, d = np.asarray(birth, float), np.asarray(death, float)
        finite = np.isfinite(b) & np.isfinite(d) & (d > b)
        longest = float((d - b)[finite].max()) if finite.any() else 1.0
        top = float(d[finite].max()) if finite.any() else 1.0
        pairs = np.column_stack([b[finite], d[finite]]) / top
        values = np.r_[vectorise(pairs), np.log(longest)]
        columns = {f"{kind}_h{dim}_{i}": value for i, value in enumerate(values)}
        records.append({"run": run, "step": step, **columns})
    frame = pd.DataFrame(records)
    # vectors of kept diagrams: these are no rows with a value and a status, and every one of them counts
    return frame.groupby(["run", "step"], as_index=False).mean()
