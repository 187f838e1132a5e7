"""Wasserstein and bottleneck distances between persistence diagrams."""

from __future__ import annotations

import numpy as np

from toposcope.errors import InputError
from toposcope.topology.gate import check_diagram
from toposcope.types import Diagram

GROUNDS = ("l2", "linf")


def wasserstein(first: Diagram, second: Diagram, *, order: int = 1, ground: str = "l2") -> float:
    r"""Return the Wasserstein distance between two diagrams, exactly.

    Points may be matched to the diagonal. Infinite bars are matched among themselves by their births.

    >>> one, none = Diagram(1, np.array([0.0]), np.array([1.0])), Diagram(1, np.zeros(0), np.zeros(0))
    >>> round(wasserstein(one, none), 6), wasserstein(one, none, ground="linf")
    (0.707107, 0.5)
    """
    from scipy.optimize import linear_sum_assignment

    if order not in (1, 2):
        raise InputError(f"order is {order!r}; use 1 or 2")
    if ground not in GROUNDS:
        raise InputError(f"ground is {ground!r}; use one of {', '.join(GROUNDS)}")
    a, essential_a = _split(first)
    b, essential_b = _split(second)
    if len(essential_a) != len(essential_b):
        return float("inf")
    total = float((np.abs(essential_a - essential_b) ** order).sum())
    diagonal_a, diagonal_b = _to_diagonal(a, ground) ** order, _to_diagonal(b, ground) ** order
    total += float(diagonal_a.sum() + diagonal_b.sum())
    if len(a) and len(b):
        step = np.abs(a[:, None, :] - b[None, :, :])
        cost = step.max(axis=2) if ground == "linf" else np.hypot(step[..., 0], step[..., 1])
        # Matching i to j instead of both to the diagonal changes the total by this much, or not at all.
        gain = np.minimum(cost**order - diagonal_a[:, None] - diagonal_b[None, :], 0.0)
        total += float(gain[linear_sum_assignment(gain)].sum())
    return max(total, 0.0) ** (1.0 / order)


def bottleneck(first: Diagram, second: Diagram) -> float:
    """Return the bottleneck distance (ground L-infinity) between two diagrams, exactly.

    >>> one, none = Diagram(1, np.array([0.0]), np.array([1.0])), Diagram(1, np.zeros(0), np.zeros(0))
    >>> bottleneck(one, none)
    0.5
    """
    from gudhi import bottleneck_distance

    a, essential_a = _split(first)
    b, essential_b = _split(second)
    if len(essential_a) != len(essential_b):
        return float("inf")
    apart = float(np.abs(essential_a - essential_b).max()) if len(essential_a) else 0.0
    return max(apart, float(bottleneck_distance(a, b, 0.0)))


def _split(diagram: Diagram) -> tuple[np.ndarray, np.ndarray]:
    """Finite bars as (n, 2) with birth <= death, and the sorted births of the infinite ones."""
    diagram = check_diagram(diagram)
    finite = np.isfinite(diagram.death)
    bars = np.column_stack([diagram.birth[finite], diagram.death[finite]]).astype(np.float64)
    return np.sort(bars, axis=1), np.sort(diagram.birth[~finite].astype(np.float64))


def _to_diagonal(bars: np.ndarray, ground: str) -> np.ndarray:
    """Distance of each bar to the diagonal."""
    half = (bars[:, 1] - bars[:, 0]) / 2.0
    return half if ground == "linf" else half * np.sqrt(2.0)
