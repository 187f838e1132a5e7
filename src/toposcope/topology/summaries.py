"""Numbers that summarise one persistence diagram."""

from __future__ import annotations

import numpy as np

from toposcope.core.types import Diagram
from toposcope.topology.units import binary_exponent, scaled
from toposcope.topology.validation import check_diagram

SUMMARIES = (
    "count",
    "essential",
    "total",
    "total_sq",
    "max",
    "mean",
    "std",
    "entropy",
    "entropy_normalized",
)
"""The keys of `summaries`, in order."""


def lifetimes(diagram: Diagram) -> np.ndarray:
    """Return the lengths |death - birth| of the finite bars, in the unit of the filtration.

    Essential classes (death at +inf or -inf) are left out.

    >>> lifetimes(Diagram(0, np.array([0.0, 0.0]), np.array([2.0, np.inf])))
    array([2.])
    """
    checked = check_diagram(diagram)
    finite = np.isfinite(checked.death)
    return np.abs(checked.death[finite] - checked.birth[finite])


def persistent_entropy(diagram: Diagram) -> float:
    r"""Return :math:`-\sum p_i \ln p_i` in nats, with :math:`p_i` the share of bar i in the total length.

    Bars of length zero add nothing. A diagram without bars of positive length has entropy 0. It has no unit
    of length: a scaled cloud has the same entropy (Chintakunta et al. 2015).

    >>> bars = Diagram(1, np.zeros(4), np.ones(4))
    >>> bool(np.isclose(persistent_entropy(bars), np.log(4)))
    True
    """
    lengths = lifetimes(diagram)
    positive = lengths[lengths > 0]
    if len(positive) == 0:
        return 0.0
    share = positive / positive.max()  # the maximum first: a sum of huge lengths must not overflow
    share /= share.sum()
    share = share[share > 0]  # a share below the smallest float has p ln p = 0
    return float(max(0.0, -(share * np.log(share)).sum()))


def summaries(diagram: Diagram) -> dict[str, float]:
    r"""Return the scalar summaries of a diagram, over its finite bars.

    With lengths :math:`l_i = |d_i - b_i|`: ``count`` (including bars of length zero), ``essential`` (classes
    that never die, left out of everything else), ``total`` :math:`\sum l_i`, ``total_sq``
    :math:`\sum l_i^2`, ``max``, ``mean``, ``std`` (population), ``entropy`` in nats and
    ``entropy_normalized`` = entropy / ln(count), which is 0 with fewer than two bars. Lengths are in the
    unit of the filtration. An empty diagram gives 0 everywhere. A sum beyond the largest float is infinite.
    Total persistence is that of Cohen-Steiner et al. (2010).

    >>> values = summaries(Diagram(0, np.zeros(3), np.array([1.0, 3.0, np.inf])))
    >>> values["count"], values["essential"], values["total"], values["total_sq"], values["std"]
    (2.0, 1.0, 4.0, 10.0, 1.0)
    """
    lengths = lifetimes(diagram)
    count = len(lengths)
    entropy = persistent_entropy(diagram)
    exponent = binary_exponent(lengths)
    unit = scaled(lengths, -exponent)
    return {
        "count": float(count),
        "essential": float(len(diagram) - count),
        "total": _back(unit.sum(), exponent),
        "total_sq": _back((unit**2).sum(), 2 * exponent),
        "max": float(lengths.max()) if count else 0.0,
        "mean": _back(unit.mean(), exponent) if count else 0.0,
        "std": _back(unit.std(), exponent) if count else 0.0,
        "entropy": entropy,
        "entropy_normalized": entropy / float(np.log(count)) if count > 1 else 0.0,
    }


def _back(value: float, exponent: int) -> float:
    return float(scaled(np.array(value), exponent))
