"""Vectors of 255 diagrams of 200 bars beside gudhi's representations and persim, on the same grids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.kernels.harness import Case
from toposcope.topology import betti_curve, entropy_curve, landscape, persistence_image, silhouette

DIAGRAMS, BARS, RESOLUTION, PIXELS, BANDWIDTH = 255, 200, 100, 20, 0.1
SPAN = (0.0, 3.0)


def series(n: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    births = random.uniform(0, 1, (n, BARS))
    return [np.column_stack([b, b + random.exponential(0.3, BARS)]) for b in births]


def with_gudhi(name: str, *options: Any) -> Callable[[list[np.ndarray]], object]:
    """Return gudhi's vectoriser on the same grid."""

    def run(diagrams: list[np.ndarray]) -> object:
        from gudhi import representations

        if name == "PersistenceImage":
            span = [0.0, 1.0, 0.0, 3.0]
            made = representations.PersistenceImage(BANDWIDTH, lambda p: p[1], [PIXELS, PIXELS], span)
        else:
            made = getattr(representations, name)(*options, RESOLUTION, list(SPAN))
        return made.fit(diagrams).transform(diagrams)

    return run


def with_ours(vector: Callable[..., np.ndarray], *grids: np.ndarray, **options: Any) -> Callable[..., object]:
    """Return our vectors of all diagrams, one after the other, on these grids."""

    def run(diagrams: list[np.ndarray]) -> object:
        return np.stack([vector(diagram, *grids, **options).ravel() for diagram in diagrams])

    return run


def persim_images(diagrams: list[np.ndarray]) -> object:
    """Return persim's images of the same pixels."""
    import persim

    kernel = {"sigma": BANDWIDTH**2}
    return persim.PersistenceImager((0, 1), (0, 3), 3 / PIXELS, kernel_params=kernel).transform(diagrams)


def cases(quick: bool) -> list[Case]:
    """Return all comparisons, ours first; the quick ones have 25 diagrams."""
    grid, pixels = (
        np.linspace(*SPAN, RESOLUTION),
        (np.linspace(0.0, 1.0, PIXELS), np.linspace(0.0, 3.0, PIXELS)),
    )
    contests: list[tuple[str, Any, Any]] = [
        (
            "images",
            with_ours(persistence_image, *pixels, bandwidth=BANDWIDTH),
            with_gudhi("PersistenceImage"),
        ),
        ("landscapes", with_ours(landscape, grid, levels=5), with_gudhi("Landscape", 5)),
        ("silhouettes", with_ours(silhouette, grid), with_gudhi("Silhouette", lambda p: p[1] - p[0])),
        ("Betti curves", with_ours(betti_curve, grid), with_gudhi("BettiCurve")),
        ("entropy curves", with_ours(entropy_curve, grid), with_gudhi("Entropy", "vector", False)),
    ]
    n = 25 if quick else DIAGRAMS
    make, label = partial(series, n), f"{n} diagrams of {BARS} bars"
    found = []
    for group, ours, theirs in contests:
        found.append(Case(group, label, n, "toposcope", make, ours))
        found.append(Case(group, label, n, "gudhi", make, theirs))
    found.append(Case("images", label, n, "persim", make, persim_images))
    return found
