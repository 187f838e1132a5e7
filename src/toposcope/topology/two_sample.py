"""Do two groups of diagrams, or two clouds, come from one source? A permutation test on distances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.topology.energy import (
    Effect,
    label_effect,
    label_energies,
    label_splits,
    rank_p,
    swap_effect,
    swap_energies,
    swap_splits,
)
from toposcope.topology.exchanged import (
    CLOUD,
    DIAGRAMS,
    DISTANCES,
    OF_DIAGRAMS,
    PLURALS,
    RTD_LITE,
    WASSERSTEIN,
    block_size,
    check_pairs,
    cloud_pair,
    common_kind,
    dealt,
    distances_of_clouds,
    distances_of_diagrams,
    distances_of_points,
)
from toposcope.topology.planning import Planning, label_planning, swap_planning
from toposcope.topology.rtd_lite import swapped_rtd_lite

POWER = 0.8
"""The power of a planned test."""
HALF = 0.5
"""The planned shift, as a share of the one that was estimated."""


@dataclass(frozen=True, slots=True)
class TwoSample:
    """The result of `two_sample`.

    `p` ranks the `statistic`, the energy distance, among `splits` ways to exchange `unit`s ("diagram",
    "cloud", "block" or "row"), of which there are `sizes` in the groups. `exhaustive` says whether these are
    all ways, or random ones, and `least_p` is the smallest p that they allow. `share` is the part of the
    distance between the groups that is not within them, from 0 to 1, and (`low`, `high`) its 95% interval.
    `rows` are the rows of a unit: those of a block, otherwise 1. `planning` has the power, and `values` the
    statistic of every split, the given one first. RTD-Lite of one paired cloud is its own statistic and has
    no `share` and no `planning`.
    """

    p: float
    statistic: float
    splits: int
    exhaustive: bool
    least_p: float
    share: float
    low: float
    high: float
    sizes: tuple[int, int]
    unit: str
    rows: int
    paired: bool
    distance: str
    planning: Planning | None
    values: np.ndarray

    def needed(self, size: float = HALF, power: float = POWER) -> float:
        """Return the rows (or units) that each group needs to find a shift with this power; inf if too many.

        `size` is the shift as a share of the estimated one, up to 1: a fraction of (1 - size) / 2 of the
        members, chosen at random, is on the wrong side.
        """
        return math.nan if self.planning is None else self.rows * self.planning.needed(size, power)

    def needed_interval(self) -> tuple[float, float]:
        """Return `needed` at the upper and at the lower end of the interval of `share`."""
        if self.planning is None or math.isnan(self.low) or not self.share > 0.0:
            return math.nan, math.nan
        ends = (self.high / self.share, self.low / self.share)
        low, high = (self.planning.scaled_to(self.planning.squared * end).needed(HALF, POWER) for end in ends)
        return self.rows * low, self.rows * high

    def needed_for(self, share: float, power: float = POWER) -> float:
        """Return the rows (or units) that find a shift of this `share`, whatever shift these groups show.

        For a shift in the directions in which the members of a group differ from each other.
        """
        if self.planning is None or math.isnan(share):
            return math.nan
        return self.rows * self.planning.along_spread(share).needed(1.0, power)

    def power(self, n: int, size: float = HALF) -> float:
        """Return the share of samples of n rows (or units) a group in which a shift of this size is found."""
        return math.nan if self.planning is None else self.planning.power(n // self.rows, size)

    def detectable(self) -> float:
        """Return the smallest `share` that groups as large as these show in 80%; NaN if there is none.

        For a shift in the directions in which the members of a group differ from each other.
        """
        if self.planning is None or min(self.sizes) < 3:
            return math.nan
        low, high = 0.0, 1.0
        for _ in range(10):  # to .001
            middle = (low + high) / 2.0
            enough = self.planning.along_spread(middle).power(min(self.sizes), 1.0) >= POWER
            low, high = (low, middle) if enough else (middle, high)
        return high if high < 1.0 else math.nan

    def __repr__(self) -> str:
        """Return the p-value, the number of splits and the effect in words."""
        if math.isnan(self.share):
            return f"p = {self.p:.3g} among {self.splits:,} swaps of rows; RTD-Lite is {self.statistic:.4g}"
        how = "all" if self.exhaustive else "random"
        interval = "" if math.isnan(self.low) else f" (95%: {self.low:.0%} to {self.high:.0%})"
        return (
            f"p = {self.p:.3g} among {self.splits:,} {how} splits; {self.share:.0%} of the distance between "
            f"the groups is not within them{interval}"
        )


def two_sample(
    first: Any,
    second: Any,
    *,
    paired: bool = False,
    kind: str | None = None,
    distance: str = WASSERSTEIN,
    metric: str = "euclidean",
    rescale: bool = False,
    block: int | None = None,
    draws: int = 999,
    seed: int = 0,
) -> TwoSample:
    r"""Test whether two groups of diagrams, or two clouds, come from one distribution, by permutation.

    The statistic is the energy distance of the groups A and B (Székely and Rizzo 2013),

    .. math:: E = 2 \overline{D_{AB}} - \overline{D_{AA}} - \overline{D_{BB}}

    with the mean distances of two members. In groups of equal size it orders the splits as the statistic of
    Robinson and Turner (2017) does. Unpaired, the members are dealt anew to groups of the same sizes. Paired,
    the two members of a pair change sides, and distances within a pair are left out. All ways are counted if
    they are at most `draws` + 1, otherwise random ones: :math:`p = (1 + \#\{E_k \ge E\}) / (1 + m)`. If the
    members (paired: the sides of each pair) are exchangeable, the probability of p being at most
    :math:`\alpha` is at most :math:`\alpha`, at every sample size.

    Parameters
    ----------
    first, second : arrays, or lists of them
        Two lists of diagrams (`Diagram` or arrays of shape (n, 2)), of one dimension: the unit is a diagram.
        Two stacks (k, n, d) or lists of clouds: the unit is a cloud. Two clouds of shape (n, d) and (m, e):
        the unit is a block of rows that are dealt at random; tested is whether blocks of so many rows have
        the same diagrams in both clouds, wherever the clouds lie and however they are turned.
    paired : bool
        Whether member i of first belongs to member i of second: the same seed, or row i is the same text.
    kind : {"diagrams", "clouds", "cloud"}, optional
        What first and second are, for clouds in the plane in a list: arrays of two columns are diagrams.
    distance : {"wasserstein", "bottleneck", "landscape", "rtd-lite", "points"}
        Of diagrams: Wasserstein of order 1 with the Euclidean ground distance, bottleneck, or L2 of the
        landscapes. Of clouds, the distances in H0 and H1 are added, each divided by its mean. "rtd-lite"
        compares clouds of the same rows (`rtd_lite`) in lists, or one paired cloud whose rows are swapped.
        "points" compares single rows of two clouds by their distance. With these two the unit of two
        clouds is a row, and where the clouds lie counts.
    metric : {"euclidean", "cosine"}
        The distance of two rows.
    rescale : bool
        Divide the distances within each cloud or block by their mean first: size then has no effect.
    block : int, optional
        Rows of a block: by default the square root of all, or so few that there are 8 blocks.
    draws : int
        Random splits.
    seed : int
        Seed of the blocks and of the random splits.

    Returns
    -------
    TwoSample
        With the effect, its interval (jackknife), and `needed`, `power` and `detectable` for planning.

    Raises
    ------
    InputError
        Fewer than two members in a group, pairs of different numbers, an unknown option or one that does not
        apply, or diagrams with different numbers of essential classes, which are infinitely far apart.

    References
    ----------
    Robinson and Turner, "Hypothesis testing for topological data analysis", J. Appl. Comput. Topology 1
    (2017). Székely and Rizzo, "Energy statistics", J. Statist. Plann. Inference 143 (2013).

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> short, long = ([[[0.0, length * u]] for u in generator.uniform(1, 2, 5)] for length in (1, 5))
    >>> found = two_sample(short, long)
    >>> found.p, found.splits, round(found.share, 2)
    (0.007936507936507936, 252, 0.89)

    The same texts at two checkpoints, rows in one order:

    >>> before = generator.normal(size=(64, 5))
    >>> after = before * [3, 1, 1, 1, 1] + generator.normal(0, 0.1, (64, 5))
    >>> found = two_sample(before, after, paired=True)
    >>> found.p, found.splits, found.sizes, found.unit, found.rows
    (0.0078125, 128, (8, 8), 'block', 8)
    """
    given = common_kind(first, second, kind)
    _check(given, distance, block, draws, paired=paired, rescale=rescale)
    between, unit, rows, sizes = _distances(
        first, second, given, distance, metric, block, seed, paired=paired, rescale=rescale
    )
    scale = float(between.max()) or 1.0
    between = between / scale  # sums neither overflow nor vanish
    splits = swap_splits(sizes[0], draws, seed) if paired else label_splits(sizes, draws, seed)
    if given == CLOUD and distance == RTD_LITE:
        values, scale, planning = swapped_rtd_lite(between, splits.first), 1.0, None
        effect = Effect(float(values[0]), math.nan, math.nan, math.nan)
    elif paired:
        values = swap_energies(between, splits.first)
        effect, planning = swap_effect(between, values), swap_planning(between)
    else:
        values = label_energies(between, splits.first)
        effect, planning = label_effect(between, sizes[0], values), label_planning(between, sizes[0])
    # All splits of two equal groups come twice, with the groups' names exchanged.
    alike = 2 if splits.exhaustive and not paired and sizes[0] == sizes[1] else 1
    return TwoSample(
        rank_p(values), effect.energy * scale, len(values), splits.exhaustive, alike / len(values),
        effect.share, effect.low, effect.high, sizes, unit, rows, paired, distance, planning,
        values * scale,
    )  # fmt: skip


def _check(kind: str, distance: str, block: int | None, draws: int, *, paired: bool, rescale: bool) -> None:
    """Refuse options that do not exist or do not apply."""
    if distance not in DISTANCES[kind]:
        named = ", ".join(DISTANCES[kind])
        raise InputError(
            f"it does not compare {PLURALS[kind]}",
            argument="distance",
            value=distance,
            remedy=f"use one of {named}",
        )
    if draws < 1:
        raise InputError("draw at least one split", argument="draws", value=draws)
    blocks = kind == CLOUD and distance in OF_DIAGRAMS
    if block is not None and not blocks:
        raise InputError(
            "no rows are dealt to blocks here", argument="block", value=block, remedy="leave it out"
        )
    if block is not None and block < 2:
        raise InputError("a block has at least 2 rows", argument="block", value=block)
    if kind == CLOUD and distance == RTD_LITE and not paired:
        raise InputError(
            f"RTD-Lite compares clouds of the same rows; if row i of both is one item, add {option('paired')}"
        )
    if rescale and (kind == DIAGRAMS or distance not in OF_DIAGRAMS):
        raise InputError("it is for diagrams of clouds", argument="rescale", remedy="leave it out")


def _distances(
    first: Any, second: Any, kind: str, distance: str, metric: str, block: int | None, seed: int, *,
    paired: bool, rescale: bool,
) -> tuple[np.ndarray, str, int, tuple[int, int]]:  # fmt: skip
    """Return the distances of all members, the unit, its rows, and the numbers of units."""
    if kind != CLOUD:
        sizes, noun = (len(first), len(second)), kind
        _check_sizes(sizes, noun)
        check_pairs(*sizes, noun, paired=paired)
        members = [*first, *second]
        if kind == DIAGRAMS:
            return distances_of_diagrams(members, distance), "diagram", 1, sizes
        return distances_of_clouds(members, distance, metric, rescale=rescale), "cloud", 1, sizes
    a, b = cloud_pair(first, second, paired=paired)
    if distance not in OF_DIAGRAMS:
        _check_sizes((len(a), len(b)), "rows")
        return distances_of_points(a, b, metric), "row", 1, (len(a), len(b))
    size = block or block_size(min(len(a), len(b)))
    sizes = len(a) // size, len(b) // size
    _check_sizes(sizes, f"blocks of {size} rows")
    blocks = dealt(a, b, size, seed, paired=paired)
    return distances_of_clouds(blocks, distance, metric, rescale=rescale), "block", size, sizes


def _check_sizes(sizes: tuple[int, int], noun: str) -> None:
    if min(sizes) < 2:
        raise InputError(f"first has {sizes[0]} {noun} and second {sizes[1]}; give at least two each")
