"""Do two groups of diagrams come from the same source? A permutation test on their distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.topology.distances import bottleneck, wasserstein
from toposcope.topology.validation import check_diagram

_DISTANCES: dict[str, Callable[[Any, Any], float]] = {"wasserstein": wasserstein, "bottleneck": bottleneck}


@dataclass(frozen=True, slots=True)
class TwoSample:
    """The result of `two_sample`: `p`, the `statistic`, and the number of `splits` among which it ranks.

    `exhaustive` says whether these are all splits into groups of these sizes, or random splits.
    """

    p: float
    statistic: float
    splits: int
    exhaustive: bool

    def __repr__(self) -> str:
        """Return the p-value, the number of splits and the statistic in words."""
        how = "all" if self.exhaustive else "random"
        return (
            f"p = {self.p:.3g} among {self.splits:,} {how} splits; mean distance within {self.statistic:.4g}"
        )


def two_sample(
    first: Sequence[Any],
    second: Sequence[Any],
    *,
    distance: str = "wasserstein",
    draws: int = 999,
    seed: int = 0,
) -> TwoSample:
    r"""Test whether two groups of diagrams come from one distribution, by permuting them among the groups.

    The statistic is the mean distance within the groups, with equal weight for each (Robinson and Turner
    2017, exponent 1):

    .. math:: T = \frac{1}{2} \sum_{g=1}^{2} \binom{n_g}{2}^{-1} \sum_{i<j \in g} W(D_i, D_j)

    It is small if the groups differ. With m random splits, :math:`p = (1 + \#\{T_k \le T\}) / (1 + m)`; if
    there are at most `draws` + 1 splits in all, every split is counted. For exchangeable diagrams, the
    probability of p being at most :math:`\alpha` is at most :math:`\alpha`, at every sample size.

    Parameters
    ----------
    first, second : sequence of Diagram, or of arrays of shape (n, 2)
        At least two each, of one dimension.
    distance : {"wasserstein", "bottleneck"}
        Wasserstein is that of order 1 with the Euclidean ground distance.
    draws : int
        Random splits.
    seed : int
        Seed of the random splits.

    Returns
    -------
    TwoSample

    Raises
    ------
    InputError
        Fewer than two diagrams in a group, an unknown distance, or diagrams with different numbers of
        essential classes, which are infinitely far apart.

    References
    ----------
    Robinson and Turner, "Hypothesis testing for topological data analysis", J. Appl. Comput. Topology 1
    (2017).

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> short, long = ([[[0.0, length * u]] for u in generator.uniform(1, 2, 5)] for length in (1, 5))
    >>> two_sample(short, long).p, two_sample(short, long).splits
    (0.007936507936507936, 252)
    """
    if distance not in _DISTANCES:
        raise InputError(f"distance is {distance!r}; use one of {', '.join(_DISTANCES)}")
    if draws < 1:
        raise InputError(f"draws is {draws}; draw at least one split")
    sizes = len(first), len(second)
    if min(sizes) < 2:
        raise InputError(f"first has {sizes[0]} diagrams and second {sizes[1]}; give at least two each")
    between = _matrix([*first, *second], _DISTANCES[distance])
    n, number = sum(sizes), math.comb(sum(sizes), sizes[0])
    exhaustive = number <= draws + 1
    if exhaustive:
        splits = np.zeros((number, n), bool)
        for row, chosen in zip(splits, combinations(range(n), sizes[0]), strict=True):
            row[list(chosen)] = True
    else:
        generator = rng(purpose="two sample", seed=seed)
        splits = np.zeros((draws + 1, n), bool)
        splits[:, : sizes[0]] = True
        splits[1:] = generator.permuted(splits[1:], axis=1)
    within = _within(between, splits, sizes)
    # The first split, among all or among random ones, is the given one; values equal up to rounding tie.
    below = within <= within[0] * (1.0 + 1e-12)
    return TwoSample(float(below.mean()), float(within[0]), len(splits), exhaustive)


def _matrix(diagrams: Sequence[Any], distance: Callable[[Any, Any], float]) -> np.ndarray:
    """Return all distances (n, n)."""
    checked = [check_diagram(one, name=f"diagram {at}") for at, one in enumerate(diagrams)]
    dims = {one.dim for one in checked}
    if len(dims) > 1:
        raise InputError(f"the diagrams have dimensions {sorted(dims)}; compare those of one dimension")
    out = np.zeros((len(checked), len(checked)))
    for i, j in combinations(range(len(checked)), 2):
        out[i, j] = out[j, i] = distance(checked[i], checked[j])
        if not np.isfinite(out[i, j]):
            raise InputError(
                f"diagrams {i} and {j} have different numbers of essential classes and are infinitely far "
                "apart; drop the bars that never die"
            )
    return out


def _within(between: np.ndarray, splits: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """Return the mean distance within the groups for every split (k, n)."""
    total = np.zeros(len(splits))
    for group, size in zip((splits, ~splits), sizes, strict=True):
        chosen = group.astype(float)
        total += np.einsum("ki,ij,kj->k", chosen, between, chosen, optimize=True) / (size * (size - 1))
    return total / 2.0
