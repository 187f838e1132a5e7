"""Finds the odd ones among several runs that should be alike, by comparing their curves.

Each quantity (a loss, a feature) is one curve per run at steps that all runs have. Every curve is reduced to
the medians of at most `BLOCKS` stretches, so that one spike does not make a run odd. With z the differences
over a scale that all runs share,

    T_i = mean_qb (z_i - mean z_others)^2 / ((1 + 1/m) mean_qb var z_others),

where m is the number of others. If a single number described all differences of a run, T_i would follow
Fisher's F(1, m - 1), the square of Student's t for one more value. Curves average over several numbers, so
the tail of T_i is lighter, and the test keeps its level. Several odd runs can hide one another, so the oddest
run is removed and the next one is tested without it, for up to a quarter of the runs. All runs up to the last
one beyond its threshold are odd (generalised extreme studentised deviate: Rosner 1983). These tests share the
level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

BLOCKS = 12
"""The number of stretches of a curve: enough to date a change, with several checkpoints in each."""
FEWEST = 3
"""The fewest other runs for a comparison: with two, one degree of freedom detects nothing."""
MOST_PART = 4
"""At most one run in this many is odd: if more differ, it is unclear which ones are the odd ones."""
LEVEL = 0.05
"""How often a run in a group of healthy runs may be called odd."""
LEAST_SPREAD = 0.3
"""The smallest spread, as a part of a quantity's usual spread: where curves happen to cross, it is near 0."""


@dataclass(frozen=True, slots=True)
class OddRun:
    """A run that is not like the others: its position, its p over all runs, since which step, and where.

    If a second odd run hides the first, both have the p of the second among the healthy ones. `since` is the
    step from which it differs up to the end; None if there is none. `where` lists the quantities that make it
    odd by themselves, farthest first.
    """

    run: int
    p: float
    since: float | None
    where: tuple[str, ...]


def odd_runs(
    curves: Mapping[str, np.ndarray], steps: np.ndarray, *, level: float = LEVEL
) -> tuple[OddRun, ...]:
    """Return the runs that are not like the others, oddest first.

    Parameters
    ----------
    curves
        The values of each quantity, (runs, steps), float64, finite.
    steps
        (steps,), ascending, at which all runs were measured.
    level
        The share of groups of healthy runs in which any run may be called odd.

    Examples
    --------
    >>> g = np.random.default_rng(0)
    >>> steps = np.arange(1, 41)
    >>> loss = 3.0 + 4.0 / steps + 0.02 * g.standard_normal((6, 1))
    >>> odd_runs({"loss": loss}, steps)
    ()
    >>> loss[4, 20:] += 0.5
    >>> found = odd_runs({"loss": loss}, steps)
    >>> [(one.run, one.since, one.where) for one in found]
    [(4, 21.0, ('loss',))]
    """
    z, edges = _scaled(curves, np.asarray(steps, float))
    if z is None or len(z) <= FEWEST:
        return ()
    there = list(range(len(z)))
    taken: list[tuple[int, float]] = []
    passed = 0
    rounds = max(len(z) // MOST_PART, 1)
    for _ in range(rounds):
        if len(there) <= FEWEST:
            break
        chances = [min(1.0, rounds * len(there) * _chance(z, i, there)) for i in there]
        at = int(np.argmin(chances))
        taken.append((there.pop(at), chances[at]))
        passed = len(taken) if chances[at] <= level else passed
    odd = [(run, min(later for _, later in taken[at:passed])) for at, (run, _) in enumerate(taken[:passed])]
    others = [i for i in range(len(z)) if i not in {run for run, _ in odd}]
    return tuple(OddRun(run, p, *_where(z, run, others, list(curves), edges, level)) for run, p in odd)


def _scaled(curves: Mapping[str, np.ndarray], steps: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the curves (runs, quantities, blocks), scaled by the distance between runs; the blocks' steps.

    The unit is the median distance to the median run in each block, because runs differ more early in
    training than at the end. Quantities in which over half of the runs are equal are left out (NaN).
    """
    ends = np.unique(np.linspace(0, len(steps), min(BLOCKS, len(steps)) + 1).astype(int))
    parts = []
    for values in curves.values():
        rows = np.asarray(values, float)
        blocks = np.stack([np.median(rows[:, a:b], axis=1) for a, b in pairwise(ends)], 1)
        deviations = blocks - np.median(blocks, axis=0)
        typical = float(np.median(np.sqrt(np.mean(deviations**2, axis=1))))
        spread = np.hypot(np.median(np.abs(deviations), axis=0), LEAST_SPREAD * typical)
        parts.append(deviations / spread if typical > 0 else np.full_like(deviations, np.nan))
    if not parts or not np.isfinite(parts).any():
        return None, steps[ends[:-1]]
    return np.stack(parts, axis=1), steps[ends[:-1]]


def _chance(z: np.ndarray, run: int, among: list[int]) -> float:
    """Return the p-value of T for one run within `among`, which includes it."""
    from scipy.special import fdtrc

    others = z[[i for i in among if i != run]]
    m = len(others)
    far = np.nanmean((z[run] - others.mean(axis=0)) ** 2) / (1.0 + 1.0 / m)
    near = np.nanmean(others.var(axis=0, ddof=1))
    return float(fdtrc(1, m - 1, far / near)) if near > 0 else 0.0 if far > 0 else 1.0


def _where(
    z: np.ndarray, run: int, others: list[int], names: list[str], steps: np.ndarray, level: float
) -> tuple[float | None, tuple[str, ...]]:
    """Return since when a run differs from the others, and by which quantities."""
    among = [*others, run]
    blocks = [_chance(z[:, :, b : b + 1], run, among) <= level for b in range(z.shape[2])]
    start = len(blocks)
    while start and blocks[start - 1]:
        start -= 1
    alone = [
        (_chance(z[:, q : q + 1], run, among), name)
        for q, name in enumerate(names)
        if np.isfinite(z[:, q]).all()
    ]
    since = float(steps[start]) if start < len(blocks) else None
    return since, tuple(name for p, name in sorted(alone) if p <= level)
