"""What one layer passes to the next: matched diagrams, and linear CKA as the counterpart without topology."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import matched_bars, wasserstein
from toposcope.topology.validation import check_points


@dataclass(frozen=True, slots=True)
class Carried:
    """What survives from one diagram to another in an optimal matching.

    `share` is the share of the first diagram's total persistence in bars that are matched to bars, not to the
    diagonal; `cost` is the matching's total L2 cost (order 1); `pairs` is the number of matched bars.
    """

    share: float
    cost: float
    pairs: int


def carried_over(first: Diagram, second: Diagram) -> Carried:
    """Return how much of the first diagram an optimal matching (order 1, ground L2) carries into the second.

    `share` is NaN when the first diagram has no persistence. Infinite bars are left out.

    >>> bar = Diagram(1, np.array([0.0]), np.array([1.0]))
    >>> carried_over(bar, bar)
    Carried(share=1.0, cost=0.0, pairs=1)
    """
    finite = [_finite_bars(first), _finite_bars(second)]
    matched, _ = matched_bars(*finite)
    total = float((finite[0][:, 1] - finite[0][:, 0]).sum())
    share = float((matched[:, 1] - matched[:, 0]).sum()) / total if total > 0 else math.nan
    return Carried(share, wasserstein(*finite), len(matched))


def _finite_bars(diagram: Diagram) -> np.ndarray:
    finite = np.isfinite(diagram.death)
    return np.column_stack([diagram.birth[finite], diagram.death[finite]]).astype(np.float64)


def linear_cka(X: np.ndarray, Y: np.ndarray, *, debiased: bool = True) -> float:
    r"""Return the linear centred kernel alignment of two representations of the same n points.

    :math:`\mathrm{HSIC}(K, L) / \sqrt{\mathrm{HSIC}(K, K)\,\mathrm{HSIC}(L, L)}` with :math:`K = X X^\top`
    and :math:`L = Y Y^\top`. With `debiased`, the unbiased estimator of HSIC (Song et al. 2012) is used:
    without it, two independent clouds with few points in many dimensions look alike.

    Parameters
    ----------
    X, Y : arrays of shape (n, p) and (n, q)

    Raises
    ------
    InputError
        When the numbers of points differ, or fewer than four are given for the debiased form.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> round(linear_cka(X, 2.0 * X), 6)
    1.0
    """
    X = check_points(X, name="X").astype(np.float64)
    Y = check_points(Y, name="Y").astype(np.float64)
    if len(X) != len(Y):
        raise InputError(f"X has {len(X):,} points and Y {len(Y)}: give representations of the same points")
    if debiased and len(X) < 4:
        raise InputError(f"X has {len(X):,} points: the debiased form needs at least 4; give more")
    K = _gram(X)
    L = _gram(Y)
    dependence = _unbiased_hsic if debiased else _plain_hsic
    scale = np.sqrt(dependence(K, K) * dependence(L, L))
    return float(dependence(K, L) / scale) if scale > 0 else float("nan")


def _gram(points: np.ndarray) -> np.ndarray:
    centred = points - points.mean(axis=0)
    return centred @ centred.T


def _plain_hsic(K: np.ndarray, L: np.ndarray) -> float:
    return float((K * L).sum())


def _unbiased_hsic(K: np.ndarray, L: np.ndarray) -> float:
    n = len(K)
    K, L = K.copy(), L.copy()
    np.fill_diagonal(K, 0.0)
    np.fill_diagonal(L, 0.0)
    cross = K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2.0 * (K.sum(axis=0) @ L.sum(axis=0)) / (n - 2)
    return float(((K * L).sum() + cross) / (n * (n - 3)))
