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

The mean over a whole curve hides what is short or has no level of its own. So three numbers of each run have
a part of the level each (`SHARES`): how far its end bends away from the others, how noisy its end is, and how
many spikes it has.
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
WHOLE, END, NOISE, SPIKES = "whole", "end", "noise", "spikes"
SHARES = {WHOLE: 0.6, END: 0.28, NOISE: 0.06, SPIKES: 0.06}
"""The part of the level that each test gets: what differs all along is the most usual, then the end."""
LAST, BEFORE = 0.15, 0.45
"""The end is this last share of the steps; it is held against the steps from the last `BEFORE` share on."""
_TRIMMED = 0.4
"""The share of the largest changes from step to step that the noise leaves out: a spike is two, and the
end of a short log may have two spikes."""
_FEWEST_CHANGES = 8
"""The fewest changes at the end for a measure of its noise."""
_SPIKE, _SMOOTHED = 8.0, 9
"""A spike is so many standard deviations above the running median of so many values."""
_NOISIER = 1.5
"""Noise counts that is more than so many times that of the others: seeds of one recipe may differ in it."""
_LEAST_BEND = 0.1
"""The smallest spread of a bend, as a part of the usual spread of the curves: seeds that are nearer to one
another than this set nobody apart."""


@dataclass(frozen=True, slots=True)
class OddRun:
    """A run that is not like the others: its position, its p over all runs, since which step, and where.

    If a second odd run hides the first, both have the p of the second among the healthy ones. `since` is the
    step from which it differs up to the end; None if there is none. `where` lists the quantities that make it
    odd by themselves, farthest first. `by` is the test of `SHARES` with the least p.
    """

    run: int
    p: float
    since: float | None
    where: tuple[str, ...]
    by: str = WHOLE


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
    steps = np.asarray(steps, float)
    z, edges = _scaled(curves, steps)
    if z is None or len(z) <= FEWEST:
        return ()
    tests = _Tests.of({name: np.asarray(rows, float) for name, rows in curves.items()}, steps)
    there = list(range(len(z)))
    taken: list[tuple[int, float, str]] = []
    passed = 0
    rounds = max(len(z) // MOST_PART, 1)
    for _ in range(rounds):
        if len(there) <= FEWEST:
            break
        chances = [_least(z, tests, i, there) for i in there]
        at = int(np.argmin([p for p, _ in chances]))
        p, by = min(1.0, rounds * len(there) * chances[at][0]), chances[at][1]
        taken.append((there.pop(at), p, by))
        passed = len(taken) if p <= level else passed
    odd = [(run, min(later for _, later, _ in taken[at:passed]), by)
           for at, (run, _, by) in enumerate(taken[:passed])]  # fmt: skip
    others = [i for i in range(len(z)) if i not in {run for run, _, _ in odd}]
    return tuple(
        OddRun(run, p, *_where(z, run, others, list(curves), edges, level), by) for run, p, by in odd
    )


@dataclass(frozen=True, slots=True)
class _Tests:
    """What each run has of the tests beside that of the whole curve.

    `bend` (runs, quantities, 1) is in units of the spread between runs. `noise` has the mean squares of the
    changes at the end, (runs, quantities), of `changes` changes. `spikes` (runs,) counts.
    """

    bend: np.ndarray
    noise: np.ndarray
    changes: int
    spikes: np.ndarray

    @classmethod
    def of(cls, curves: Mapping[str, np.ndarray], steps: np.ndarray) -> _Tests:
        """Measure every run in every quantity; what has too few steps is left out."""
        span = steps[-1] - steps[0]
        last, before = (int(np.searchsorted(steps, steps[-1] - part * span)) for part in (LAST, BEFORE))
        changes = len(steps) - last - 1
        bends, noise = [], []
        none = np.empty((len(next(iter(curves.values()))), 0))
        for rows in curves.values():
            off = rows - np.median(rows, axis=0)
            usual = float(np.median(np.sqrt(np.mean(off**2, axis=1))))
            if not usual > 0:
                continue
            if len(steps) - last >= FEWEST and last - before >= FEWEST:
                bend = np.median(off[:, last:], axis=1) - np.median(off[:, before:last], axis=1)
                bends.append(_in_spreads(bend, _LEAST_BEND * usual))
            if changes >= _FEWEST_CHANGES:
                squares = np.sort(np.diff(off[:, last:], axis=1) ** 2, axis=1)
                noise.append(squares[:, : int((1 - _TRIMMED) * changes)].mean(axis=1))
        return cls(
            (np.stack(bends, axis=1) if bends else none)[:, :, None],
            np.stack(noise, axis=1) if noise else none,
            changes,
            _events(np.any([_spikes(rows) for rows in curves.values()], axis=0)),
        )


def _least(z: np.ndarray, tests: _Tests, run: int, among: list[int]) -> tuple[float, str]:
    """Return the least p of a run's tests, each divided by its share of the level, and which test that is."""
    chances = {WHOLE: _chance(z, run, among)}
    if tests.bend.shape[1]:
        chances[END] = _chance(tests.bend, run, among, least=1.0)
    chances[NOISE] = _noisier(tests.noise, tests.changes, run, among)
    chances[SPIKES] = _more_spikes(tests.spikes, run, among)
    p, by = min((p / SHARES[name], name) for name, p in chances.items())
    return min(p, 1.0), by


def _noisier(noise: np.ndarray, changes: int, run: int, among: list[int]) -> float:
    """Return the p of a run's noise against `_NOISIER` times that of the others, by Fisher's F.

    Changes share a value with the next one, and the largest are left out: half of them count as independent.
    The p is corrected for the number of quantities.
    """
    from scipy.special import fdtrc

    theirs = noise[[i for i in among if i != run]].mean(axis=0)
    if not noise.shape[1] or not (theirs > 0).all():
        return 1.0
    free = changes / 2
    p = fdtrc(free, free * (len(among) - 1), noise[run] / theirs / _NOISIER**2)
    return float(min(1.0, p.min() * len(theirs)))


def _in_spreads(values: np.ndarray, least: float) -> np.ndarray:
    """Return values about their median, in units of `least` or of their robust spread if that is larger."""
    off = values - np.median(values)
    return off / max(1.4826 * float(np.median(np.abs(off))), least)


def _spikes(rows: np.ndarray) -> np.ndarray:
    """Return where a run is far above its running median, and the others are not: (runs, steps)."""
    if rows.shape[1] < 2 * _SMOOTHED:
        return np.zeros(rows.shape, dtype=bool)
    rows = rows - np.median(rows, axis=0)  # what all runs do is no spike
    padded = np.pad(rows, ((0, 0), (_SMOOTHED // 2, _SMOOTHED // 2)), mode="edge")
    off = rows - np.median(np.lib.stride_tricks.sliding_window_view(padded, _SMOOTHED, axis=1), axis=2)
    size = 1.4826 * float(np.median(np.abs(off)))
    return off > _SPIKE * size if size > 0 else np.zeros(off.shape, dtype=bool)


def _events(marked: np.ndarray) -> np.ndarray:
    """Return the number of stretches that are marked in each run."""
    return marked[:, 0] + (np.diff(marked.astype(int), axis=1) > 0).sum(axis=1)


def _more_spikes(spikes: np.ndarray, run: int, among: list[int]) -> float:
    """Return the p of so many of all spikes in one run, if each is in any run with the same chance."""
    from scipy.special import bdtrc

    own_spikes, total = int(spikes[run]), int(spikes[among].sum())
    return float(bdtrc(own_spikes - 1, total, 1 / len(among))) if own_spikes > 1 else 1.0


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


def _chance(z: np.ndarray, run: int, among: list[int], least: float = 0.0) -> float:
    """Return the p-value of T for one run within `among`, which includes it; `least` bounds the variance."""
    from scipy.special import fdtrc

    others = z[[i for i in among if i != run]]
    m = len(others)
    far = np.nanmean((z[run] - others.mean(axis=0)) ** 2) / (1.0 + 1.0 / m)
    near = max(float(np.nanmean(others.var(axis=0, ddof=1))), least)
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
