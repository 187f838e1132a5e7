"""Whether one of two recipes is better, from seeds of each: at the end, before it, and with how many seeds.

A run's value at a step is the mean of its losses over the stretch before it. If both recipes are the same,
their runs are exchangeable and share one standard deviation. Then Student's t with the pooled one keeps its
level with two seeds as well as with twenty. Welch's test has too little power with two against two, and too
many false alarms with two against ten. If the two variances differ (Fisher's F at 5%), or one side has twice
as many seeds, both tests are made and the larger p counts.

Before the end, the test is made at the shares `INTERIM` of the run: a group-sequential test. The level spent
up to the share f is 0.05 f^1.5. Each test gets the increment, and the increments sum to 5%. So the level
holds for any dependence of a run's losses between the tests (Bonferroni over a spending function).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import special

from toposcope.core.distributions import student_quantile, student_two_sided

LEVEL = 0.05
"""How often one of two sets of runs of the same recipe may be called better: at the end, and before it."""
POWER = 0.8
"""The usual power, for which the number of seeds is stated."""
STRETCH = 0.1
"""The final losses are averaged over this share of the steps: several losses, all from the end."""
STRETCH_ON_THE_WAY = 0.4
"""Before the end, losses are averaged over this share of the steps so far. This, `INTERIM` and `SPENDING`
were set on half of parameter_golf's folders of seeds (benchmarks.compare_runs): of the settings with at least
the power of Welch's test on final losses, these find a difference from the start in the fewest steps."""
FEWEST = 3
"""The fewest losses of a stretch; logs may have only twenty in all."""
LOPSIDED = 2.0
"""If one side has this many times as many seeds, and the other side is noisier, Student's t is wrong: with
six seeds against two that scatter three times as much, it has 23% false positives."""
LEAST_FREE = 2
"""The fewest degrees of freedom of an interim test: with one, losses of four decimals tie too often."""
INTERIM = (0.4, 0.7, 1.0)
"""The shares of the run at which interim tests are made."""
SPENDING = 1.5
"""Exponent of the share in the level spent so far: 1 spends early, 3 late."""
SPREAD_LEVEL, EFFECT_LEVEL = 0.01, 0.02
"""The errors of the limits of seeds. They are below 5% because losses of seeds are skewed: with 95% limits of
normal seeds, the range from 3 + 3 skewed ones held the truth in 80 to 91% (simulated 2026-11-27, 400 groups
of each kind; tests/compare/test_compare_runs.py)."""
MOST_SEEDS = 1000
"""The largest number of seeds that is stated."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two means, second minus first, with its 95% interval and its p-value.

    `sd` is the pooled standard deviation of a single run with `degrees` of freedom (Welch's where `welch`).
    """

    value: float
    low: float
    high: float
    p: float
    sd: float
    degrees: float
    welch: bool = False


@dataclass(frozen=True, slots=True)
class InterimTest:
    """One interim test: its step, the difference there, and the p below which it passes."""

    step: float
    difference: Difference
    threshold: float

    @property
    def passed(self) -> bool:
        """Whether one recipe is called better here."""
        return self.difference.p <= self.threshold


@dataclass(frozen=True, slots=True)
class SeedsNeeded:
    """Seeds of each recipe that find a difference in 80% of cases; None if over `MOST_SEEDS`.

    `low` and `high` follow from the 99% interval of the standard deviation, if the true difference is that
    which was found. `at_least` are needed whatever it is (98%); there is no such upper limit, because it may
    be 0. It is None where the difference was shown.
    """

    difference: float
    seeds: int | None
    low: int | None
    high: int | None
    at_least: int | None = None


def thresholds() -> tuple[float, ...]:
    """Return the p below which the test at each share in `INTERIM` passes; they sum to the level.

    >>> [round(p, 4) for p in thresholds()]
    [0.0126, 0.0166, 0.0207]
    """
    spent = [LEVEL * part**SPENDING for part in (0.0, *INTERIM)]
    return tuple(after - before for before, after in pairwise(spent))


def stretch_means(steps: np.ndarray, losses: np.ndarray, at: float, part: float = STRETCH) -> np.ndarray:
    """Return each run's mean loss over the stretch that ends at a step.

    Parameters
    ----------
    steps
        (steps,), ascending; at least one is not above `at`.
    losses
        (runs, steps), finite.
    at
        The step.
    part
        The length of the stretch, as a share of the steps up to `at`.

    Examples
    --------
    >>> steps = np.arange(1, 101)
    >>> stretch_means(steps, np.stack([steps, 2 * steps]).astype(float), 100)
    array([ 95.5, 191. ])
    """
    end = max(int(np.searchsorted(steps, at, side="right")), 1)
    start = int(np.searchsorted(steps, (1.0 - part) * at, side="right"))
    start = max(min(start, end - FEWEST), 0)
    return np.asarray(losses[:, start:end].mean(axis=1))


def difference(first: np.ndarray, second: np.ndarray, beside: Sequence[np.ndarray] = ()) -> Difference | None:
    """Test whether two sets of runs have the same mean; None if the noise between runs is unknown.

    Parameters
    ----------
    first, second
        (k,) and (m,): a value of each run.
    beside
        Values of other runs, an array for each recipe; only their spread counts.

    Examples
    --------
    >>> found = difference(np.array([2.0, 2.1, 2.2]), np.array([1.6, 1.7, 1.8]))
    >>> round(found.value, 3), round(found.p, 4), found.degrees
    (-0.4, 0.008, 4.0)
    >>> difference(np.array([2.0]), np.array([1.6])) is None
    True
    """
    groups = [np.asarray(group, float) for group in (first, second, *beside)]
    squares = [float(((group - group.mean()) ** 2).sum()) for group in groups]
    free = [len(group) - 1 for group in groups]
    degrees = float(sum(free))
    if degrees < 1:
        return None
    sd = math.sqrt(sum(squares) / degrees)
    value = float(groups[1].mean() - groups[0].mean())
    error = sd * math.sqrt(1.0 / len(groups[0]) + 1.0 / len(groups[1]))
    student = _tested(value, error, degrees, sd, welch=False)
    if beside or min(free) < 1 or not (_unequal(squares, free) or _lopsided(groups)):
        return student
    parts = [s / f / (f + 1) for s, f in zip(squares, free, strict=True)]
    if not sum(parts) > 0:
        return student
    freedom = sum(parts) ** 2 / sum(v**2 / f for v, f in zip(parts, free, strict=True))
    welch = _tested(value, math.sqrt(sum(parts)), freedom, sd, welch=True)
    return max(student, welch, key=lambda test: test.p)


def _tested(value: float, error: float, degrees: float, sd: float, *, welch: bool) -> Difference:
    half = float(student_quantile(1.0 - LEVEL / 2, degrees)) * error
    p = 1.0 if value == 0 else 0.0 if error == 0 else float(student_two_sided(value / error, degrees))
    return Difference(value, value - half, value + half, p, sd, degrees, welch)


def _lopsided(groups: Sequence[np.ndarray]) -> bool:
    counts = [len(group) for group in groups]
    return max(counts) >= LOPSIDED * min(counts)


def _unequal(squares: Sequence[float], free: Sequence[int]) -> bool:
    """Return whether two variances differ by Fisher's F at 5%, two-sided."""
    if min(squares) <= 0:
        return max(squares) > 0
    ratio = (squares[0] / free[0]) / (squares[1] / free[1])
    above = float(special.fdtrc(free[0], free[1], ratio))
    return 2 * min(above, 1 - above) <= LEVEL


def interim_tests(
    steps: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    horizon: float,
    beside: Sequence[tuple[np.ndarray, np.ndarray]] = (),
) -> tuple[InterimTest, ...]:
    """Make interim tests at each share that all runs have reached, with the level spent over the tests.

    Parameters
    ----------
    steps
        (steps,), ascending, that all runs have.
    first, second
        (k, steps) and (m, steps): losses, finite.
    horizon
        The step at which the runs end.
    beside
        Steps and losses (runs, steps) of other runs of one recipe; only their spread counts.

    Examples
    --------
    >>> g = np.random.default_rng(0)
    >>> steps = np.arange(1, 101)
    >>> losses = 3.0 + 4.0 / steps + 0.01 * g.standard_normal((8, 1)) + 0.01 * g.standard_normal((8, 100))
    >>> [one.passed for one in interim_tests(steps, losses[:4], losses[4:], 100)]
    [False, False, False]
    >>> [one.passed for one in interim_tests(steps, losses[:4], losses[4:] - 0.1, 100)]
    [True, True, True]
    """
    looks: list[InterimTest] = []
    unspent = 0.0
    for part, share in zip(INTERIM, thresholds(), strict=True):
        unspent += share
        at = part * horizon
        reached = steps[-1] >= at or math.isclose(steps[-1], at)
        if not reached or int((steps <= at).sum()) < FEWEST:
            continue
        others = [stretch_means(s, y, at, STRETCH_ON_THE_WAY) for s, y in beside if len(s) and s[-1] >= at]
        left, other = (stretch_means(steps, values, at, STRETCH_ON_THE_WAY) for values in (first, second))
        test = difference(left, other, others)
        if test is not None and test.degrees >= LEAST_FREE:
            looks.append(InterimTest(float(steps[steps <= at][-1]), test, unspent))
            unspent = 0.0
    return tuple(looks)


def power(effect: float, k: int, m: int, degrees: float) -> float:
    """Return how often a two-sided test at 5% finds a true difference of `effect` standard deviations.

    >>> round(power(1.0, 17, 17, 32), 3)
    0.807
    """
    if effect == 0:
        return LEVEL
    critical = float(student_quantile(1.0 - LEVEL / 2, degrees))
    shift = abs(effect) / math.sqrt(1.0 / k + 1.0 / m)
    probability = 1.0 - float(special.nctdtr(degrees, shift, critical))
    return probability if math.isfinite(probability) else 1.0


def seeds_needed(
    size: float, sd: float, degrees: float, counts: tuple[int, int] | None = None
) -> SeedsNeeded:
    """Return how many seeds of each recipe find a difference of `size` in 80% of such comparisons.

    `counts` are the seeds of each that were compared; with them a difference that they do not show gets the
    fewest seeds that its true size, which may be larger or smaller, can need.

    >>> seeds_needed(1.0, 1.0, 10.0, (6, 6))
    SeedsNeeded(difference=1.0, seeds=17, low=8, high=74, at_least=3)
    """
    ends = [
        math.sqrt(degrees / float(special.chdtri(degrees, p)))
        for p in (SPREAD_LEVEL / 2, 1 - SPREAD_LEVEL / 2)
    ]
    seeds, low, high = (_fewest(abs(size) / (sd * factor) if sd > 0 else math.inf) for factor in (1.0, *ends))
    largest = None if counts is None or not sd > 0 else _largest_effect(abs(size) / sd, degrees, counts)
    return SeedsNeeded(abs(size), seeds, low, high, None if largest is None else _fewest(largest))


def _largest_effect(detected: float, degrees: float, counts: tuple[int, int]) -> float | None:
    """Return the largest true effect that leaves one as small as that found in 2% of those not shown.

    Only differences that are not shown are asked for, so the others do not count. None if it was shown.
    """
    per_effect = 1 / math.sqrt(1.0 / counts[0] + 1.0 / counts[1])
    critical, t = float(student_quantile(1.0 - LEVEL / 2, degrees)), detected * per_effect
    if t >= critical:
        return None

    def below(limit: float, effect: float) -> float:
        shift = effect * per_effect
        ends = (float(special.nctdtr(degrees, shift, at)) for at in (limit, -limit))
        return next(ends) - next(ends)

    low, high = detected, detected + 40.0 / per_effect
    for _ in range(50):
        middle = (low + high) / 2
        all_smaller = below(critical, middle)
        possible = all_smaller > 1e-12 and below(t, middle) >= EFFECT_LEVEL * all_smaller
        low, high = (middle, high) if possible else (low, middle)
    return high


def _fewest(effect: float) -> int | None:
    """Return the fewest seeds of each that find an effect in 80% of cases; None if over `MOST_SEEDS`."""
    low, high = 1, MOST_SEEDS
    if not effect > 0 or power(effect, high, high, 2.0 * high - 2.0) < POWER:
        return None
    if math.isinf(effect):
        return 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(effect, middle, middle, 2.0 * middle - 2.0) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high


def smallest_found(sd: float, degrees: float, k: int, m: int) -> float:
    """Return the smallest difference that this number of seeds finds in 80% of such comparisons.

    >>> round(smallest_found(1.0, 32.0, 17, 17), 2)
    0.99
    """
    low, high = 0.0, 1.0
    while power(high, k, m, degrees) < POWER:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, k, m, degrees) >= POWER else (middle, high)
    return high * sd
