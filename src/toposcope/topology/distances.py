"""Wasserstein and bottleneck distances between persistence diagrams.

Points may be matched to the diagonal. Essential classes are matched among themselves, in the order of their
births, at the difference of the births; two diagrams with different numbers of them are infinitely far apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.kernels.matching import (
    can_cover,
    distances_between,
    matched_cost,
    monotone_cost,
    savings,
)
from toposcope.topology.validation import check_diagram

GROUNDS = ("l2", "linf")
EXACT_POINTS = 2000
"""The Wasserstein distance is exact if the smaller diagram has at most this many finite bars."""
TOLERANCE = 0.01
"""The relative error allowed above that size."""

# Halvings of the radius before candidates are listed, so that few are left; the result is exact either way.
_HALVINGS = 12

_Split = tuple[np.ndarray, np.ndarray]


def wasserstein(first: Any, second: Any, *, order: int = 1, ground: str = "l2") -> float:
    r"""Return the Wasserstein distance of an order, for an explicit ground distance of the plane.

    .. math:: W_q = \left(\inf_\gamma \sum_x \|x - \gamma(x)\|^q\right)^{1/q}

    over the matchings of the two diagrams with the diagonal added. Exact, except that beyond `EXACT_POINTS`
    bars in both diagrams the relative error may reach `TOLERANCE`. Diagrams with a single birth value each
    (all H0 diagrams) are exact at every size.

    Parameters
    ----------
    first, second : Diagram, or array of shape (n, 2)
        Sublevel or superlevel; lengths in the unit of the filtration.
    order : {1, 2}
        The exponent q.
    ground : {"l2", "linf"}
        The norm of the plane.

    Returns
    -------
    float
        Infinite when the numbers of essential classes differ.

    Raises
    ------
    InputError
        NaN, an infinite birth, or an unknown order or ground.

    References
    ----------
    Cohen-Steiner, Edelsbrunner, Harer and Mileyko, "Lipschitz functions have L_p-stable persistence",
    Found. Comput. Math. 10 (2010).

    Examples
    --------
    >>> round(wasserstein([[0.0, 1.0]], []), 6), wasserstein([[0.0, 1.0]], [], ground="linf")
    (0.707107, 0.5)
    """
    if order not in (1, 2):
        raise InputError(f"order is {order!r}; use 1 or 2")
    if ground not in GROUNDS:
        raise InputError(f"ground is {ground!r}; use one of {', '.join(GROUNDS)}")
    (a, essential_a), (b, essential_b) = _pair(first, second)
    if len(essential_a) != len(essential_b):
        return float("inf")
    # In units of the largest length, so that no power overflows.
    scale = max((float(np.ptp(bars)) for bars in (a, b) if len(bars)), default=0.0) or 1.0
    a, b, moved = a / scale, b / scale, np.abs(essential_a - essential_b) / scale
    if min(len(a), len(b)) > EXACT_POINTS and not (_one_birth(a) and _one_birth(b)):
        total = _by_auction(a, b, order, ground)
    else:
        total = _exact(a, b, order, ground)
    return scale * max(total + float((moved**order).sum()), 0.0) ** (1.0 / order)


def matched_bars(first: Any, second: Any, *, ground: str = "l2") -> tuple[np.ndarray, np.ndarray]:
    """Return the bars of two diagrams that an optimal matching of order 1 pairs with each other.

    Row k of the first array (k, 2) is matched with row k of the second; bars that go to the diagonal and
    essential classes are in neither. Superlevel bars are returned negated. All pairs must fit into memory.
    Unit, source and errors are those of `wasserstein` (2010).

    >>> matched_bars([[0.0, 2.0], [9.0, 9.5]], [[0.1, 2.0]])[0]
    array([[0., 2.]])
    """
    if ground not in GROUNDS:
        raise InputError(f"ground is {ground!r}; use one of {', '.join(GROUNDS)}")
    (a, _), (b, _) = _pair(first, second)
    alone = (_to_diagonal(a, ground), _to_diagonal(b, ground))
    saved = savings(a, b, 1, ground == "linf", *alone)
    rows, columns = linear_sum_assignment(saved)
    order = np.argsort(columns)
    order = order[saved[rows, columns][order] < 0]
    return a[rows[order]], b[columns[order]]


def bottleneck(first: Any, second: Any) -> float:
    r"""Return the bottleneck distance (ground L-infinity) between two diagrams, exactly.

    :math:`\inf_\gamma \sup_x \|x - \gamma(x)\|_\infty`. A radius is enough when the bars of each diagram that
    are too long for the diagonal can be matched into the other (Mendelsohn and Dulmage 1958: then both can
    at once); the least such radius is one of the distances between points or to the diagonal.

    Parameters, unit and errors are those of `wasserstein`; the distance is that of Cohen-Steiner,
    Edelsbrunner and Harer, "Stability of persistence diagrams" (2007).

    >>> bottleneck([[0.0, 1.0]], [])
    0.5
    """
    (a, essential_a), (b, essential_b) = _pair(first, second)
    if len(essential_a) != len(essential_b):
        return float("inf")
    moved = float(np.abs(essential_a - essential_b).max()) if len(essential_a) else 0.0
    half_a, half_b = (a[:, 1] - a[:, 0]) / 2.0, (b[:, 1] - b[:, 0]) / 2.0

    def enough(radius: float) -> bool:
        return bool(can_cover(a[half_a > radius], b, radius) and can_cover(b[half_b > radius], a, radius))

    low, high = 0.0, float(max(half_a.max(initial=0.0), half_b.max(initial=0.0)))
    if enough(moved):
        return moved  # the essential classes decide
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    halves = np.concatenate([half_a, half_b])
    halves = halves[(halves > low) & (halves <= high)]
    radii = np.unique(np.concatenate([halves, distances_between(a, b, low, high)]))
    below, at = -1, len(radii) - 1
    while at - below > 1:
        middle = (at + below) // 2
        below, at = (below, middle) if enough(float(radii[middle])) else (middle, at)
    return max(moved, float(radii[at]) if len(radii) else high)


def _pair(first: Any, second: Any) -> tuple[_Split, _Split]:
    """Check two diagrams and split each; superlevel ones are negated, so that births precede deaths."""
    diagrams = check_diagram(first, name="first"), check_diagram(second, name="second")
    down = [bool((diagram.death < diagram.birth).any()) for diagram in diagrams]
    up = [bool((diagram.death > diagram.birth).any()) for diagram in diagrams]
    if (down[0] and up[1]) or (up[0] and down[1]):
        raise InputError(
            "first and second are a sublevel and a superlevel diagram; compare diagrams of one direction"
        )
    sign = -1.0 if any(down) else 1.0
    return _split(diagrams[0], sign), _split(diagrams[1], sign)


def _split(diagram: Diagram, sign: float) -> _Split:
    """Return the finite bars (n, 2) of positive length, ordered by death, and the births of the others."""
    finite = np.isfinite(diagram.death)
    bars = sign * np.column_stack([diagram.birth[finite], diagram.death[finite]])
    bars = bars[bars[:, 1] > bars[:, 0]]  # a bar without length lies on the diagonal and costs nothing
    return bars[np.argsort(bars[:, 1], kind="stable")], np.sort(sign * diagram.birth[~finite])


def _exact(a: np.ndarray, b: np.ndarray, order: int, ground: str) -> float:
    """Return the smallest total cost."""
    alone = (_to_diagonal(a, ground) ** order, _to_diagonal(b, ground) ** order)
    use_max = ground == "linf"
    if _one_birth(a) and _one_birth(b):
        return float(monotone_cost(a, b, order, use_max, *alone, np.empty(len(b) + 1)))
    # A match that costs more than the diagonal saves nothing: both points then go to the diagonal.
    rows, columns = linear_sum_assignment(savings(a, b, order, use_max, *alone))
    return float(matched_cost(a, b, rows, columns, order, use_max, *alone))


def _by_auction(a: np.ndarray, b: np.ndarray, order: int, ground: str) -> float:
    from gudhi.hera import wasserstein_distance

    norm = np.inf if ground == "linf" else 2.0
    return float(wasserstein_distance(a, b, order=order, internal_p=norm, delta=TOLERANCE)) ** order


def _to_diagonal(bars: np.ndarray, ground: str) -> np.ndarray:
    """Distance of each bar to the diagonal."""
    half = (bars[:, 1] - bars[:, 0]) / 2.0
    return half if ground == "linf" else half * np.sqrt(2.0)


def _one_birth(bars: np.ndarray) -> bool:
    """Whether all bars are born together, as in H0."""
    return len(bars) == 0 or bool((bars[:, 0] == bars[0, 0]).all())
