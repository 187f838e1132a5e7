"""The data of `benchmarks.two_sample`: equal pairs of six unkind kinds, and six shifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator], Any]
Cloud = Callable[[int, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Equal:
    """Two groups of one law: `draw` gives them, `paired` says how they are tested, with which distances."""

    draw: Draw
    paired: bool
    distances: tuple[str, ...]
    kind: str | None = None


OF_DIAGRAMS = ("wasserstein", "bottleneck", "landscape")
OF_CLOUD = (*OF_DIAGRAMS, "points")


def heavy(g: np.random.Generator) -> Any:
    return g.standard_t(1.2, (96, 3)), g.standard_t(1.2, (40, 3))


def clustered(n: int, g: np.random.Generator) -> np.ndarray:
    centres = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0], [4, 4, 20]])
    return centres[g.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])] + g.standard_normal((n, 3))


def correlated(g: np.random.Generator) -> Any:
    """Rows of both clouds that are nearly the same; a fifth of them are far outside."""
    same = g.standard_normal((48, 8)) * np.where(g.random((48, 1)) < 0.2, 8.0, 1.0)
    return same + 0.2 * g.standard_t(2.0, (48, 8)), same + 0.2 * g.standard_t(2.0, (48, 8))


def tiny_bars(g: np.random.Generator, longest: float = 1.0) -> np.ndarray:
    """Return a diagram of 10 to 40 tiny bars and one that is longer."""
    births = np.append(g.uniform(0, 1, g.integers(10, 41)), 0.5)
    lengths = g.exponential(0.01, len(births))
    lengths[-1] = longest * g.uniform(0.2, 0.6)
    return np.column_stack([births, births + lengths])


def grid(g: np.random.Generator) -> Any:
    first, second = g.integers(0, 3, (2, 64, 2)).astype(float)
    return first, np.where(g.random((64, 1)) < 0.5, first, second)


def one_scale_a_cloud(g: np.random.Generator) -> Any:
    """Return two groups of nine clouds of 6 to 30 rows; the rows of a cloud have a common random scale."""
    return [
        [g.lognormal(0, 1) * g.standard_normal((g.integers(6, 31), 3)) for _ in range(9)] for _ in range(2)
    ]


EQUAL = {
    "heavy tails, 96 and 40 rows": Equal(heavy, False, OF_CLOUD),
    "four unequal clusters, 100 and 33 rows": Equal(
        lambda g: (clustered(100, g), clustered(33, g)), False, OF_CLOUD
    ),
    "pairs of nearly equal rows with outliers": Equal(correlated, True, (*OF_CLOUD, "rtd-lite")),
    "many tiny bars, 8 and 13 diagrams": Equal(
        lambda g: [[tiny_bars(g) for _ in range(n)] for n in (8, 13)], False, OF_DIAGRAMS
    ),
    "pairs of a grid of 9 points": Equal(grid, True, (*OF_CLOUD, "rtd-lite")),
    "9 and 9 clouds, a scale each": Equal(one_scale_a_cloud, False, OF_DIAGRAMS, "clouds"),
}


def series(g: np.random.Generator) -> Any:
    """Return two series of one law whose consecutive rows are alike (r = .9)."""
    noise, rows = g.standard_normal((2, 64, 3)), np.zeros((2, 64, 3))
    rows[:, 0] = noise[:, 0]
    for at in range(1, 64):
        rows[:, at] = 0.9 * rows[:, at - 1] + np.sqrt(1 - 0.81) * noise[:, at]
    return rows


DEPENDENT = "rows that follow each other (r = .9)"
LIMIT = {DEPENDENT: Equal(series, False, OF_CLOUD)}
"""What the test does not admit: the rate is measured, and not counted with the six."""


def ring(n: int, g: np.random.Generator, noise: float = 0.2) -> np.ndarray:
    angle = g.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + noise * g.standard_normal((n, 2))


def rings(n: int, g: np.random.Generator) -> np.ndarray:
    return ring(n, g) * g.choice([0.5, 1.3], (n, 1))


def clusters_tighten(n: int, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    centres = 4.0 * np.eye(4)[g.integers(0, 4, n)]
    within = g.standard_normal((n, 4))
    return centres + within, centres + 0.8 * within + 0.1 * g.standard_normal((n, 4))


def ring_fills(n: int, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    angle, noise = g.uniform(0, 2 * np.pi, n), g.standard_normal((2, n, 2))
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return circle + 0.2 * noise[0], circle + 0.3 * noise[0] + 0.05 * noise[1]


def flattens(n: int, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rows = g.standard_t(4.0, (n, 6))
    return rows, rows * [1, 1, 1, 1, 0.6, 0.6] + 0.1 * g.standard_normal((n, 6))


@dataclass(frozen=True)
class Shift:
    """Two clouds that differ, of n rows each; paired ones share their rows. Diagrams are drawn singly."""

    draw: Callable[[int, np.random.Generator], Any]
    paired: bool
    diagrams: bool = False


SHIFTS = {
    "one ring and two": Shift(lambda n, g: (ring(n, g), rings(n, g)), False),
    "a long ellipsoid and a ball": Shift(
        lambda n, g: (g.standard_normal((n, 4)) * [2.2, 0.7, 0.7, 0.7], g.standard_normal((n, 4))), False
    ),
    "one bar of thirty is longer by a half": Shift(
        lambda n, g: [[tiny_bars(g, longest) for _ in range(n)] for longest in (1.0, 1.5)], False, True
    ),
    "clusters that tighten": Shift(clusters_tighten, True),
    "a ring that fills": Shift(ring_fills, True),
    "heavy tails that flatten": Shift(flattens, True),
}
