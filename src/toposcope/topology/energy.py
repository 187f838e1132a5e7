"""The energy distance of two groups, from the distances of their members: permutations, effect, planning.

Groups are unpaired (labels are permuted) or paired (the two members of a pair change sides). Distances that
are not Euclidean, such as those of diagrams, are admitted: the levels hold for any symmetric function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from toposcope.core.distributions import student_quantile
from toposcope.core.seeding import rng

_TIE = 1e-12
"""Values that differ by less tie, where the largest distance is 1: rounding must not decide."""


@dataclass(frozen=True, slots=True)
class Splits:
    """Ways to deal the members into two groups, the given one first; `exhaustive` if these are all.

    `first` (k, n) says for each way which members are in the first group; of pairs, which keep their sides.
    """

    first: np.ndarray
    exhaustive: bool


def label_splits(sizes: tuple[int, int], draws: int, seed: int) -> Splits:
    """Return all splits into groups of these sizes if there are at most draws + 1, else random ones.

    >>> len(label_splits((3, 2), 99, 0).first), len(label_splits((30, 20), 99, 0).first)
    (10, 100)
    """
    n, number = sum(sizes), math.comb(sum(sizes), sizes[0])
    if number <= draws + 1:
        splits = np.zeros((number, n), bool)
        for row, chosen in zip(splits, combinations(range(n), sizes[0]), strict=True):
            row[list(chosen)] = True
        return Splits(splits, True)
    splits = np.zeros((draws + 1, n), bool)
    splits[:, : sizes[0]] = True
    splits[1:] = rng(purpose="two sample", seed=seed).permuted(splits[1:], axis=1)
    return Splits(splits, False)


def swap_splits(pairs: int, draws: int, seed: int) -> Splits:
    """Return which pairs keep their sides: all 2^(pairs - 1) ways if at most draws + 1, else random ones.

    The first pair always keeps its side: if all pairs change sides, only the names of the groups do.

    >>> swap_splits(3, 99, 0).first.sum(axis=1), len(swap_splits(30, 99, 0).first)
    (array([3, 2, 2, 1]), 100)
    """
    if pairs <= 60 and 2 ** (pairs - 1) <= draws + 1:
        ways = np.arange(2 ** (pairs - 1))
        kept = (ways[:, None] >> np.arange(pairs - 1)) % 2 == 0
        return Splits(np.column_stack([np.ones(len(ways), bool), kept]), True)
    kept = rng(purpose="swaps", seed=seed).random((draws + 1, pairs)) < 0.5
    kept[0] = True
    return Splits(kept, False)


def label_energies(between: np.ndarray, first: np.ndarray) -> np.ndarray:
    r"""Return the energy distance of every split, from the distances (n, n) and the splits (k, n).

    :math:`2 \overline{D_{AB}} - \overline{D_{AA}} - \overline{D_{BB}}`, means over pairs of two members.
    """
    chosen = first.astype(float)
    a = int(first[0].sum())
    b = len(between) - a
    within = np.einsum("ki,ki->k", chosen @ between, chosen)
    across = chosen @ between.sum(axis=1) - within
    rest = between.sum() - within - 2.0 * across
    return 2.0 * across / (a * b) - within / (a * (a - 1)) - rest / (b * (b - 1))


def swap_energies(between: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the energy distance of every way to swap pairs; row i and row n + i of `between` are a pair.

    Distances within a pair are left out: no swap changes them.
    """
    crossed = cross_differences(between)
    np.fill_diagonal(crossed, 0.0)
    n, signs = len(crossed), np.where(kept, 1.0, -1.0)
    return np.asarray(np.einsum("ki,ki->k", signs @ crossed, signs) / (n * (n - 1)))


def cross_differences(between: np.ndarray) -> np.ndarray:
    """Return D(a_i, b_j) + D(b_i, a_j) - D(a_i, a_j) - D(b_i, b_j), shape (n, n), for n pairs.

    It is twice the inner product of the differences of pair i and pair j; a swapped pair changes its sign.
    """
    n = len(between) // 2
    across = between[:n, n:]
    return across + across.T - between[:n, :n] - between[n:, n:]


def rank_p(values: np.ndarray) -> float:
    """Return the share of the splits whose statistic reaches that of the first one; distances are below 1."""
    return float((values >= values[0] - _TIE).mean())


@dataclass(frozen=True, slots=True)
class Effect:
    """The share of the distance between two groups that is not within them, with its 95% interval.

    `energy` is the energy distance, `across` the mean distance of two members of different groups.
    """

    energy: float
    across: float
    low: float
    high: float

    @property
    def share(self) -> float:
        """The energy distance over twice the mean distance across: 0 for equal groups, at most 1."""
        if math.isnan(self.across):
            return math.nan
        return _share(self.energy, self.across)


def label_effect(between: np.ndarray, a: int, energies: np.ndarray) -> Effect:
    """Return the effect of two groups, the first of them with `a` members.

    `energies` are those of the splits: their spread is the least error that the interval assumes.
    """
    b = len(between) - a
    sums = between[:, :a].sum(axis=1), between[:, a:].sum(axis=1)
    aa, ab, bb = sums[0][:a].sum(), sums[1][:a].sum(), sums[1][a:].sum()

    def parts(
        aa: np.ndarray, ab: np.ndarray, bb: np.ndarray, a: int, b: int
    ) -> tuple[np.ndarray, np.ndarray]:
        across = ab / (a * b)
        return 2.0 * across - aa / (a * (a - 1)) - bb / (b * (b - 1)), across

    energy, across = parts(aa, ab, bb, a, b)
    if min(a, b) < 3:
        return Effect(float(energy), float(across), math.nan, math.nan)
    one_less = (
        parts(aa - 2.0 * sums[0][:a], ab - sums[1][:a], bb, a - 1, b),
        parts(aa, ab - sums[0][a:], bb - 2.0 * sums[1][a:], a, b - 1),
    )
    variance = sum(
        _jackknife(np.array([_share(e, c) for e, c in zip(*group, strict=True)])) for group in one_less
    )
    return _with_interval(float(energy), float(across), variance, energies, min(a, b) - 1)


def swap_effect(between: np.ndarray, energies: np.ndarray) -> Effect:
    """Return the effect of n pairs; `energies` are those of the swaps, as in `label_effect`."""
    crossed = cross_differences(between)
    n = len(crossed)
    across = (between[:n, n:] + between[:n, n:].T) / 2.0
    for square in (crossed, across):
        np.fill_diagonal(square, 0.0)
    pairs, rest = n * (n - 1), (n - 1) * (n - 2)
    energy, mean = crossed.sum() / pairs, across.sum() / pairs
    if n < 3:
        return Effect(float(energy), float(mean), math.nan, math.nan)
    energies = (crossed.sum() - 2.0 * crossed.sum(axis=1)) / rest
    means = (across.sum() - 2.0 * across.sum(axis=1)) / rest
    shares = np.array([_share(e, c) for e, c in zip(energies, means, strict=True)])
    return _with_interval(float(energy), float(mean), _jackknife(shares), energies, n - 1)


def _share(energy: float, across: float) -> float:
    return float(energy / (2.0 * across)) if across > 0 else 0.0


def _jackknife(values: np.ndarray) -> float:
    """Return the variance of a statistic from its values with one member left out."""
    return float((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum())


def _with_interval(
    energy: float, across: float, variance: float, energies: np.ndarray, degrees: int
) -> Effect:
    """Return the effect with the 95% interval of Student's t.

    The variance is that of the jackknife or of the splits, if that is larger: near 0, where the energy is
    no longer a mean of independent terms, the jackknife alone is too small. The square root of the share,
    the length of the shift, is nearly normal: unless it may be 0, the lower end is taken there, and the
    upper end on the wider scale.
    """
    share = _share(energy, across)
    variance = max(variance, _share(float(energies.std()), across) ** 2)
    half = float(student_quantile(0.975, degrees)) * math.sqrt(variance)
    low, high = 0.0, share + half
    if share > half / 2.0:  # on the scale of the length, 0 is outside the interval
        length = math.sqrt(share)
        low, high = (length - half / length / 2.0) ** 2, max(high, (length + half / length / 2.0) ** 2)
    return Effect(energy, across, low, min(max(high, 0.0), 1.0))
