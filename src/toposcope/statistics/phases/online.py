"""An online detector of bends, for runs in progress."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from toposcope.core.errors import InputError
from toposcope.statistics.alarms.spending import spent_evenly
from toposcope.statistics.phases.bends import LEAST_POINTS, Scan, scan, scans, why_not
from toposcope.statistics.phases.curves import LEAST_SEGMENT, Design, Span, design, edges
from toposcope.statistics.phases.reference import FALSE_ALARMS, Reference, level_of
from toposcope.statistics.phases.simulated import gentle_series, plain_series, unkind_series

SERIES = 400
"""The number of series of each of three kinds; the tests of 51 checkpoints then take half a core-minute."""
MOST_TESTS = 8
"""The number of tests over a run, spread evenly; each spends an equal part of the rate.

After the first, too little is spent for an alarm.
"""
LEAST_GAIN = 2.0
"""A bend with a smaller log likelihood ratio raises no alarm, whatever its p-value.

So most tests of a quiet series need no simulation. The rule takes no alarm away: with 26 to 60
checkpoints at even and at growing steps, no simulated series that raised an alarm had less than 3.5.
"""


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """One decision: the steps so far, the null distribution of the gain, and the p-value that alarms."""

    grid: Design
    known: Reference
    threshold: float

    def alarms(self, scanned: np.ndarray) -> np.ndarray:
        """Return which series (series, 3), scanned by `bends.scans`, raise an alarm."""
        return (self.known.p_values(scanned) <= self.threshold) & (scanned[:, 0] >= LEAST_GAIN)


class OnlineDetector:
    """Watches one growing series for bends beyond a smooth trend, with false alarms in 5% of runs.

    At up to 7 evenly spaced checkpoints, the first soon after the 17th, the best bend so far is tested as in
    `phases.segments`, against 400 series without a bend, 400 with difficult noise and 400 gentle ones,
    simulated at the planned steps. The rate is spent evenly over the tests: after a share f of them, at most
    f x 5% of the simulated series of each kind have raised an alarm, less one standard error. At uneven
    steps, two fifths of the rate are spent, as in the search. Noise whose size falls or clusters raises more
    alarms than planned: in up to 26% of such series at 26 even steps, 14% at 51. After an alarm, its bend
    becomes part of the trend. A series that is too smooth to test raises no alarm.

    Parameters
    ----------
    planned_steps
        The steps at which the run will be measured.
    rate
        Share of runs without a bend that may raise an alarm.

    Raises
    ------
    InputError
        When the rate is so small that no simulated series could raise an alarm.

    Examples
    --------
    >>> steps = np.arange(100, 6100, 100)
    >>> noise = np.random.default_rng(0).standard_normal(60).cumsum() * 0.01
    >>> values = np.where(steps < 2500, 0.0, 3.0 * np.log(steps / 2500)) + noise
    >>> detector = OnlineDetector(steps)
    >>> alarms = [alarm for step, v in zip(steps, values) if (alarm := detector.update(step, v)) is not None]
    >>> bool(alarms) and abs(alarms[0] - 2500) <= 200
    True
    """

    def __init__(self, planned_steps: np.ndarray, *, rate: float = FALSE_ALARMS) -> None:
        planned = np.unique(np.asarray(planned_steps, float))
        self._plan = plan(tuple(planned[planned > 0].tolist()), rate)
        self._steps: list[float] = []
        self._values: list[float] = []
        self._found: tuple[Span, ...] = ()

    def update(self, step: float, value: float) -> float | None:
        """Take one more checkpoint; return the step of the bend if it raises an alarm."""
        if not (step > 0 and np.isfinite(value)) or (self._steps and step <= self._steps[-1]):
            return None
        self._steps.append(float(step))
        self._values.append(float(value))
        if len(self._steps) not in self._plan.counts:
            return None
        grid, changes = design(np.array(self._steps)), np.diff(self._values)
        n = len(changes)
        tested = scan(grid, changes, self._spans(n))
        if tested.gain < LEAST_GAIN or why_not(changes, tested):
            return None
        taken = [at for span in self._spans(n) for at in edges(span, n)]
        new = [at for at in edges(tested.span, n) if all(abs(at - old) >= LEAST_SEGMENT for old in taken)]
        if not new or not self._plan.test(len(self._steps)).alarms(_as_row(tested))[0]:
            return None
        first, end = tested.span
        self._found = (*self._found, (first, 0 if end >= n else end))
        return self._steps[new[0]]

    def _spans(self, n: int) -> tuple[Span, ...]:
        """Return the changes that raised alarms; bends, stored with end 0, end at the last of n changes."""
        return tuple((first, end or n) for first, end in self._found)


def _as_row(tested: Scan) -> np.ndarray:
    return np.array([[tested.gain, tested.persistence, tested.unevenness]])


class PlannedTests:
    """The tests at planned steps. Each is simulated when it is first needed: that takes seconds."""

    def __init__(self, steps: np.ndarray, rate: float) -> None:
        self._steps = steps
        self._spent = _spent(steps, rate) if len(steps) > LEAST_POINTS else {}
        self.counts: tuple[int, ...] = tuple(self._spent)
        """The number of checkpoints at each test."""
        self._made: dict[int, PlannedTest] = {}

    def test(self, count: int) -> PlannedTest:
        """Return the test after `count` checkpoints: its threshold depends on all earlier ones."""
        for seen in self.counts[len(self._made) : self.counts.index(count) + 1]:
            self._made[seen] = self._simulated(seen)
        return self._made[count]

    def _simulated(self, count: int) -> PlannedTest:
        grid = design(self._steps[:count])
        scanned = [scans(grid, changes[:, : count - 1]) for changes in self._sorts]
        reference = Reference.of(*scanned)
        p = [reference.p_values(part) for part in scanned]
        spent = self._spent[count]
        threshold = min(_threshold(*sort, spent) for sort in zip(p, self._quiet, strict=True))
        self._quiet = [still & (mine > threshold) for mine, still in zip(p, self._quiet, strict=True)]
        return PlannedTest(grid, reference, threshold)

    @cached_property
    def _sorts(self) -> list[np.ndarray]:
        """The changes of the simulated series of each kind, (series, n)."""
        kinds = plain_series, unkind_series, gentle_series
        return [np.diff(make(self._steps, SERIES), axis=1) for make in kinds]

    @cached_property
    def _quiet(self) -> list[np.ndarray]:
        """Which of the simulated series of each kind have raised no alarm so far."""
        return [np.ones(len(changes), bool) for changes in self._sorts]


@lru_cache(maxsize=16)
def plan(planned: tuple[float, ...], rate: float) -> PlannedTests:
    """Return the tests at planned steps.

    `rate` is the share of series without a bend that may raise an alarm at even steps.
    """
    return PlannedTests(np.array(planned), rate)


def _spent(steps: np.ndarray, rate: float) -> dict[int, float]:
    """Return the number of checkpoints at each test, and the part of the rate that is spent by then.

    Tests that are too early for an alarm are left out.
    """
    counts = np.unique(np.linspace(LEAST_POINTS + 1, len(steps), MOST_TESTS).round().astype(int))
    whole = rate * level_of(steps) / FALSE_ALARMS
    spent = {int(count): spent_evenly(whole, test, len(counts)) for test, count in enumerate(counts, start=1)}
    if _due(whole, SERIES) < 1:
        raise InputError(
            f"a rate of {rate:g} is too small: among {SERIES} simulated series no alarm could be raised; use "
            f"{FALSE_ALARMS}"
        )
    return {count: part for count, part in spent.items() if _due(part, SERIES) > 0}


def _due(spent: float, series: int) -> int:
    """Return how many of the simulated series may have raised an alarm once a share `spent` is spent.

    One standard error of that count is subtracted, because the series that set a threshold do not show how
    many others would pass it.
    """
    return int(spent * series - np.sqrt(spent * series))


def _threshold(p: np.ndarray, quiet: np.ndarray, spent: float) -> float:
    """Return the p-value up to which alarms are raised, so that a share `spent` of the series raises one."""
    due = _due(spent, len(p)) - int(np.sum(~quiet))
    return float(np.sort(p[quiet])[due - 1]) if due > 0 else 0.0
