"""How many members a two-sample test needs: its power, from the shift and the spread that a pilot shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from toposcope.core.seeding import rng
from toposcope.topology.energy import cross_differences, label_energies

LEVEL = 0.05
_DRAWS = 4000
"""Simulated samples of each size: a power of .8 then has a standard error of .006."""
_MOST = 1_000_000
"""Larger samples are not looked for."""
_DEALS = 20
"""Ways to deal unpaired members to pairs; more hardly change the power."""
_LEAST = {True: 6, False: 4}
"""The fewest members of a group (paired, or not) for a p-value of .05: 1/32 of 6 pairs, 2/70 of 4 + 4."""


@dataclass(frozen=True, slots=True)
class Planning:
    """The shift between two groups and the spread within them, in the axes of the spread.

    Distances are taken as squared distances of vectors. `spread` (k,) are the variances of a member (of a
    pair's difference, if paired), `shift` (k,) the squared shifts along the same axes, `beside` the squared
    shift outside them. `across` is the mean distance of two members of different groups. An axis of negative
    `spread` belongs to distances that are not Euclidean.
    """

    spread: np.ndarray
    shift: np.ndarray
    beside: float
    across: float
    paired: bool

    @property
    def squared(self) -> float:
        """The squared shift, half the energy distance; 0 where the pilot shows none."""
        return float((np.sign(self.spread) * self.shift).sum() + self.beside)

    def power(self, n: int, size: float = 1.0) -> float:
        """Return the share of samples with n members a group that find a shift of this relative size."""
        if n < _LEAST[self.paired]:
            return 0.0
        return self._power(n, size, self._normal())

    def needed(self, size: float = 0.5, power: float = 0.8) -> float:
        """Return the fewest members a group that find a shift of this relative size; inf if too many."""
        if self.squared <= 0.0 or not size > 0.0:
            return math.inf
        normal = self._normal()
        low, high = _LEAST[self.paired] - 1, _LEAST[self.paired]
        while self._power(high, size, normal) < power:
            low, high = high, 2 * high
            if high > _MOST:
                return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._power(middle, size, normal) >= power else (middle, high)
        return float(high)

    def scaled_to(self, squared: float) -> Planning:
        """Return the same with a shift in the same direction, of another squared length."""
        factor = max(squared, 0.0) / self.squared if self.squared > 0.0 else 0.0
        return replace(self, shift=self.shift * factor, beside=self.beside * factor)

    def along_spread(self, share: float) -> Planning:
        """Return the same with a shift that is this share of the distance across, along the spread."""
        spread = np.maximum(self.spread, 0.0)
        return replace(self, shift=spread, beside=float(not spread.any())).scaled_to(share * self.across)

    def _normal(self) -> np.ndarray:
        """Return normal draws for every axis of the spread, one beside them, and one along the shift."""
        axes = len(self.spread) + 2
        return rng(purpose="power", axes=axes).standard_normal((_DRAWS, axes))

    def _power(self, n: int, size: float, normal: np.ndarray) -> float:
        """Return the power from simulated means: around the shift, against those of permutations."""
        # The mean of n differences of pairs, or the difference of two means of n members.
        times = (1.0 if self.paired else 2.0) / n
        # Members on the wrong side add the shift to the spread: all of it by swaps, a quarter by labels.
        more = times * (1.0 if self.paired else 0.25)
        sign = np.append(np.sign(self.spread), 1.0)
        shift = np.sqrt(np.append(self.shift, self.beside))
        noise = np.sqrt(times * np.append(np.abs(self.spread), 0.0)) * normal[:, :-1]
        along = np.outer(normal[:, -1], shift)
        null = (noise + math.sqrt(more) * along) ** 2 @ sign
        means = (noise + math.sqrt(more * (1.0 - size**2)) * along + size * shift) ** 2 @ sign
        # The statistic leaves out the squares of single members, whose mean differs between the two.
        trace = times * float(self.spread.sum()) + more * self.squared
        alone = trace - more * size**2 * self.squared
        return float((means - alone >= np.quantile(null - trace, 1.0 - LEVEL)).mean())


def label_planning(between: np.ndarray, a: int) -> Planning:
    """Return the planning of two unpaired groups, the first of them with `a` members."""
    n = len(between)
    first = np.arange(n) < a
    rows = between.mean(axis=1)
    gram = (rows[:, None] + rows[None, :] - between - between.mean()) / 2.0
    same = first[:, None] == first[None, :]
    centre = np.eye(n) - np.where(same, np.where(first, 1.0 / a, 1.0 / (n - a)), 0.0)
    values = np.linalg.eigvalsh(centre @ gram @ centre) / max(n - 2, 1)
    # The difference of two members dealt to a pair has the shift as its mean, and twice the spread.
    generator, pairs, dealt = rng(purpose="pairs for planning", first=a, all=n), min(a, n - a), []
    for _ in range(_DEALS):
        order = np.concatenate([generator.permutation(a)[:pairs], a + generator.permutation(n - a)[:pairs]])
        dealt.append(_moments(cross_differences(between[np.ix_(order, order)]) / 2.0))
    _, along, scatter = np.mean(dealt, axis=0) / [1.0, 2.0, 4.0]
    squared = float(label_energies(between, first[None])[0]) / 2.0
    return _planning(values, squared, along, scatter, float(between[:a, a:].mean()), paired=False)


def swap_planning(between: np.ndarray) -> Planning:
    """Return the planning of n pairs."""
    gram = cross_differences(between) / 2.0
    n = len(gram)
    across = float((between[:n, n:].sum() - np.trace(between[:n, n:])) / (n * (n - 1)))
    centre = np.eye(n) - 1.0 / n
    values = np.linalg.eigvalsh(centre @ gram @ centre) / (n - 1)
    return _planning(values, *_moments(gram), across, paired=True)


def _moments(gram: np.ndarray) -> tuple[float, float, float]:
    """Return the squared shift, the spread along it times the squared shift, and the sum of squared spreads.

    `gram` (n, n) are the inner products of the differences of n pairs. Each is a mean over products of
    different pairs, so it has no bias, whatever the number of dimensions; NaN of fewer than four pairs.
    """
    n = len(gram)
    if n < 4:
        return float(gram.sum() - np.trace(gram)) / (n * (n - 1)), math.nan, math.nan
    apart = gram - np.diag(np.diag(gram))
    total, rows, squares = apart.sum(), (apart.sum(axis=1) ** 2).sum(), (apart**2).sum()
    two = n * (n - 1)
    chained = (rows - squares) / (two * (n - 2))
    fourth = (total**2 - 4.0 * rows + 2.0 * squares) / (two * (n - 2) * (n - 3))
    return total / two, chained - fourth, squares / two - 2.0 * chained + fourth


def _planning(
    values: np.ndarray, squared: float, along: float, scatter: float, across: float, *, paired: bool
) -> Planning:
    """Return the planning of a spread with these eigenvalues, of a shift along one axis.

    Eigenvalues of few members are too unequal: they are scaled to the right sum of squares, `scatter`. Of
    the shift's direction, its spread alone is known.
    """
    values = values[np.abs(values) > 1e-9 * max(np.abs(values).max(initial=0.0), np.finfo(float).tiny)]
    squares = float((values**2).sum())
    if math.isnan(scatter):
        scatter, along = squares, squared * float(values.max(initial=0.0))
    # The least sum of squares that so many eigenvalues can have.
    scatter = max(scatter, squares / max(len(values), 1))
    shift = max(squared, 0.0)
    own = min(max(along / shift, 0.0), math.sqrt(scatter)) if shift > 0.0 else 0.0
    if not own > 0.0:
        others = values * math.sqrt(scatter / squares) if squares > 0.0 else values
        return Planning(others, np.zeros(len(others)), shift, across, paired)
    others = np.delete(values, np.argmin(np.abs(values - own)))
    squares = float((others**2).sum())
    others = others * math.sqrt(max(scatter - own**2, 0.0) / squares) if squares > 0.0 else others
    return Planning(np.append(others, own), np.append(0.0 * others, shift), 0.0, across, paired)
