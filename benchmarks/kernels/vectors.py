"""Vectors of 255 diagrams of 200 bars beside gudhi's representations and persim, on the same grids."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from case import Case

from toposcope.topology import vectors
from toposcope.topology.transformers import (
    BettiCurves,
    EntropyCurves,
    Landscapes,
    PersistenceImages,
    Silhouettes,
)

DIAGRAMS, BARS, RESOLUTION, PIXELS, BANDWIDTH = 255, 200, 100, 20, 0.1


def series() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    births = random.uniform(0, 1, (DIAGRAMS, BARS))
    return [np.column_stack([b, b + random.exponential(0.3, BARS)]) for b in births]


def ours(transformer: Callable[..., object], **options: object) -> Callable[[], object]:
    diagrams = series()
    fitted = transformer(**options).fit(diagrams)  # type: ignore[attr-defined]
    fitted.transform(diagrams[:2])
    return functools.partial(fitted.transform, diagrams)


def with_gudhi(name: str, *options: object) -> Callable[[], object]:
    from gudhi import representations

    diagrams = series()
    if name == "PersistenceImage":
        span = [0.0, 1.0, 0.0, 3.0]
        made = representations.PersistenceImage(BANDWIDTH, lambda p: p[1], [PIXELS, PIXELS], span)
    else:
        grid = vectors.common_grid(diagrams, RESOLUTION)
        made = getattr(representations, name)(*options, RESOLUTION, [grid[0], grid[-1]])
    made.fit(diagrams)
    return functools.partial(made.transform, diagrams)


def persim_images() -> Callable[[], object]:
    import persim

    diagrams = series()
    imager = persim.PersistenceImager((0, 1), (0, 3), 1 / PIXELS, kernel_params={"sigma": BANDWIDTH**2})
    return lambda: imager.transform(diagrams)


def cases() -> list[Case]:
    """Return all comparisons, ours first."""
    span = {"birth_range": (0.0, 1.0), "length_range": (0.0, 3.0)}
    pairs = [
        ("images", PersistenceImages, {"bandwidth": BANDWIDTH, "resolution": PIXELS} | span, ("PersistenceImage",)),
        ("landscapes", Landscapes, {"levels": 5}, ("Landscape", 5)),
        ("silhouettes", Silhouettes, {}, ("Silhouette", lambda p: p[1] - p[0])),
        ("Betti curves", BettiCurves, {}, ("BettiCurve",)),
        ("entropy curves", EntropyCurves, {}, ("Entropy", "vector", False)),
    ]  # fmt: skip
    found = []
    for name, transformer, options, theirs in pairs:
        task = f"{name} of {DIAGRAMS} diagrams"
        found.append(Case(task, BARS, "toposcope", functools.partial(ours, transformer, **options)))
        found.append(Case(task, BARS, "gudhi", functools.partial(with_gudhi, *theirs)))
    found.append(Case(f"images of {DIAGRAMS} diagrams", BARS, "persim", persim_images))
    return found
