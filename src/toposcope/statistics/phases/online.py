"""An online detector of bends, for runs in progress."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toposcope.statistics.phases.bends import LEAST_POINTS, scan, scans, why_not
from toposcope.statistics.phases.curves import LEAST_SEGMENT, Design, Span, design, edges
from toposcope.statistics.phases.reference import FALSE_ALARMS, Reference, level_of
from toposcope.statistics.phases.simulated import gentle_series, plain_series, unkind_series

SERIES = 400
"""The number of series of each of three kinds; eight looks at 51 checkpoints then take half a core-minute."""
MOST_LOOKS = 8
"""The number of tests over a run, spread evenly; each spends an equal part of the rate."""


@dataclass(frozen=True, slots=True)
class PlannedLook:
    """One decision: the steps so far, the null distribution of the gain, and the p-value that alarms."""

    grid: Design
    known: Reference
    threshold: float


class OnlineDetector:
    """Watches one growing series for bends beyond a smooth trend, with false alarms in 5% of runs.

    From the 17th checkpoint on, at up to 8 evenly spaced checkpoints, the best bend so far is tested as in
    `phases.segments`, against 400 series without a bend, 400 with difficult noise and 400 gentle ones,
    simulated at the planned steps. The rate is spent evenly over the looks: after a share f of them, at most
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
        self._looks = plan(tuple(planned[planned > 0].tolist()), rate)
        self._steps: list[float] = []
        self._values: list[float] = []
        self._found: tuple[Span, ...] = ()

    def update(self, step: float, value: float) -> float | None:
        """Take one more checkpoint; return the step of the bend if it raises an alarm."""
        if not (step > 0 and np.isfinite(value)) or (self._steps and step <= self._steps[-1]):
            return None
        self._steps.append(float(step))
        self._values.append(float(value))
        look = self._looks.get(len(self._steps))
        if look is None:
            return None
        steps, values = np.array(self._steps), np.array(self._values)
        grid = look.grid if np.array_equal(look.grid.steps, steps) else design(steps)
        n, tested = len(grid.clock), scan(grid, np.diff(values), self._spans(len(grid.clock)))
        if why_not(np.diff(values), tested):
            return None
        taken = [at for span in self._spans(n) for at in edges(span, n)]
        new = [at for at in edges(tested.span, n) if all(abs(at - old) >= LEAST_SEGMENT for old in taken)]
        if not new or look.known.of_scan(tested) > look.threshold:
            return None
        first, end = tested.span
        self._found = (*self._found, (first, 0 if end >= n else end))
        return self._steps[new[0]]

    def _spans(self, n: int) -> tuple[Span, ...]:
        """Return the changes that raised alarms; bends, stored with end 0, end at the last of n changes."""
        return tuple((first, end or n) for first, end in self._found)


@lru_cache(maxsize=16)
def plan(planned: tuple[float, ...], rate: float) -> dict[int, PlannedLook]:
    """Return the looks at planned steps, by the number of checkpoints seen.

    `rate` is the share of series without a bend that may raise an alarm at even steps.
    """
    steps = np.array(planned)
    if len(steps) <= LEAST_POINTS:
        return {}
    rate *= level_of(steps) / FALSE_ALARMS
    counts = np.unique(np.linspace(LEAST_POINTS + 1, len(steps), MOST_LOOKS).round().astype(int))
    sorts = [np.diff(make(steps, SERIES), axis=1) for make in (plain_series, unkind_series, gentle_series)]
    quiet, looks = [np.ones(len(changes), bool) for changes in sorts], {}
    for looked, count in enumerate(counts.tolist(), start=1):
        grid = design(steps[:count])
        scanned = [scans(grid, changes[:, : count - 1]) for changes in sorts]
        known = Reference.of(*scanned)
        p = [known.p_values(part) for part in scanned]
        spent = rate * looked / len(counts)
        threshold = min(_threshold(*sort, spent) for sort in zip(p, quiet, strict=True))
        quiet = [still & (mine > threshold) for mine, still in zip(p, quiet, strict=True)]
        looks[count] = PlannedLook(grid, known, threshold)
    return looks


def _threshold(p: np.ndarray, quiet: np.ndarray, spent: float) -> float:
    """Return the p-value below which alarms are raised, so that a share `spent` of the series has raised one.

    One standard error of that count is subtracted, because the series that set a threshold do not show how
    many others would pass it.
    """
    due = int(spent * len(p) - np.sqrt(spent * len(p))) - int(np.sum(~quiet))
    return float(np.sort(p[quiet])[due - 1]) if due > 0 else 0.0
