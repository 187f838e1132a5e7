"""The null distribution of the gain of a change, simulated at the given steps.

There are 1,500 series without a change: walks whose steps are an autoregression of order 1 (coefficient from
0 to .95, more of them large), and walks measured with error (from a tenth of a step to twenty steps, or pure
error). In two thirds the noise falls or grows like a power of the step, with a wave on it, and in half of
these it also jumps once; a third has the tails of Student's t with 4 degrees of freedom. A series is compared
with the nearest fifth in persistence and in unevenness of its sizes (by ranks), so that white noise is
compared with similar noise, and a smooth drift with similarly smooth drifts. p is the share of these with at
least as large a gain; beyond their largest 5% it follows an exponential tail.

The same is done with 1,000 series of difficult noise (sizes that jump after the start, cluster, fall or grow;
steps of one sign; drifts measured with error) and with 1,000 gentle series (power laws and lines with up to
three waves of up to three periods, in noise of .3% to 100% that is white, persistent or wandering; three in
ten are smoothed by a moving mean). The p-value of a change is the largest of the three.
Even steps use the packaged reference with the nearest number of steps; uneven steps have their own 1,000, 700
and 700 series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np

from toposcope.statistics.phases.bends import Scan, scans
from toposcope.statistics.phases.curves import design
from toposcope.statistics.phases.simulated import curves, gentle_series, plain_series, unkind_series

FALSE_ALARMS = 0.05
"""The level at even steps: the share of series without a bend in which one may be found."""
UNEVEN_LEVEL = 0.02
"""The level at uneven steps, where p is too small by a factor of two or more for some kinds of noise."""
PACKAGED = "reference.npz"
"""Made by `python benchmarks/analysis_segments.py --package`."""
COUNTS = (1500, 1000, 1000)
"""The numbers of series with plain noise, with difficult noise, and gentle ones, in packaged references."""
COUNTS_AT_ONCE = (1000, 700, 700)
"""The same for steps without a packaged reference."""
_NEAR = 1.13
"""The largest accepted ratio between a number of steps and that of a packaged reference.

Half of the widest gap between the packaged numbers (20, 25, ... 110, 135)."""
ALIKE = 5
"""A series is compared with one in this many of the simulated series, the most similar ones."""
JUDGED_AT_ONCE = 200
"""The false-alarm rate at steps without a packaged reference is counted over this many series of each of the
`curves`."""
_TAIL = 0.05
"""The share of the largest simulated gains to which the exponential tail is fitted."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The gains of simulated series without a change, `scanned` by `bends.scans` (series, 3)."""

    scanned: np.ndarray
    known: np.ndarray
    """Persistence and unevenness, each sorted: (2, series)."""
    ranks: np.ndarray
    """The rank of every series in these: (2, series)."""
    others: tuple[Reference, ...] = ()
    """The references of difficult noise and of gentle series."""

    @staticmethod
    def of(scanned: np.ndarray, *others: np.ndarray) -> Reference:
        """Return the reference of simulated series, scanned by `bends.scans`, and of the others."""
        sorted_scans = np.sort(scanned[:, 1:].T, axis=1)
        ranks = np.stack([_rank(sorted_scans[i], scanned[:, 1 + i]) for i in range(2)])
        return Reference(scanned, sorted_scans, ranks, tuple(Reference.of(other) for other in others))

    def p_value(self, gain: float, persistence: float, unevenness: float) -> float:
        """Return the p-value of each gain: the largest over all references."""
        return max(
            each_reference.kindly(gain, persistence, unevenness) for each_reference in (self, *self.others)
        )

    def kindly(self, gain: float, persistence: float, unevenness: float) -> float:
        """Return the share of similar series, by persistence and unevenness, that gain as much."""
        distance = np.zeros(len(self.scanned))
        for ranks, sorted_values, value in zip(
            self.ranks, self.known, (persistence, unevenness), strict=True
        ):
            distance += (ranks - np.clip(_rank(sorted_values, value), ranks.min(), ranks.max())) ** 2
        like = self.scanned[np.argpartition(distance, len(distance) // ALIKE)[: len(distance) // ALIKE], 0]
        share = (1.0 + float(np.sum(like >= gain))) / (len(like) + 1.0)
        start = float(np.quantile(like, 1.0 - _TAIL))
        if gain <= start:
            return share
        return _TAIL * float(np.exp(-(gain - start) / np.mean(like[like > start] - start)))

    def of_scan(self, found: Scan) -> float:
        """Return the p-value of a series."""
        return self.p_value(found.gain, found.persistence, found.unevenness)

    def p_values(self, scanned: np.ndarray) -> np.ndarray:
        """Return the p-values of many series, scanned by `bends.scans`."""
        return np.array([self.p_value(*row) for row in scanned])


def level_of(steps: np.ndarray) -> float:
    """Return the significance level of a bend: 5% at even steps, `UNEVEN_LEVEL` at others.

    >>> level_of(np.arange(100.0, 2000.0, 100.0)), level_of(2.0 ** np.arange(20))
    (0.05, 0.02)
    """
    gaps = np.diff(steps)
    return FALSE_ALARMS if np.allclose(gaps, gaps[0], rtol=1e-6) else UNEVEN_LEVEL


def steps_even(steps: Sequence[float]) -> int:
    """Return n if the steps are the first n multiples of one number, else 0: only their ratios matter."""
    n = len(steps)
    return n if n and np.allclose(np.array(steps) / steps[0], np.arange(1, n + 1), rtol=1e-9) else 0


@lru_cache(maxsize=1)
def packaged() -> dict[int, tuple[Reference, float]]:
    """Return the packaged references and false-alarm rates, by the number of even steps."""
    with (files(__package__) / PACKAGED).open("rb") as file, np.load(file) as held:
        return {
            int(name): (
                Reference.of(*np.split(held[name][:-1].astype(float), np.cumsum(COUNTS)[:-1])),
                float(held[name][-1, 0]),
            )
            for name in held.files
        }


def nearest(steps: Sequence[float]) -> tuple[Reference, float] | None:
    """Return the packaged reference and rate for about the same number of even steps; None without one.

    >>> nearest([1.0, 2.0, 4.0]) is None
    True
    """
    n = steps_even(steps)
    if not n:
        return None
    near = min(packaged(), key=lambda size: abs(np.log(size / n)))
    return packaged()[near] if max(near / n, n / near) <= _NEAR else None


def _rank(sorted_values: np.ndarray, values: np.ndarray | float) -> np.ndarray:
    """Return the mid-rank of values among the sorted `sorted_values` ones."""
    return (
        np.searchsorted(sorted_values, values, "left") + np.searchsorted(sorted_values, values, "right")
    ) / 2.0


def reference(steps: np.ndarray) -> Reference:
    """Return the reference for ascending positive `steps` (cached)."""
    return _reference(tuple(float(step) for step in steps))


@lru_cache(maxsize=64)
def _reference(steps: tuple[float, ...]) -> Reference:
    stored_reference = nearest(steps)
    return simulated(np.array(steps)) if stored_reference is None else stored_reference[0]


def simulated(steps: np.ndarray, counts: tuple[int, int, int] = COUNTS_AT_ONCE) -> Reference:
    """Return a newly simulated reference for `steps`."""
    grid = design(steps)
    kinds = zip((plain_series, unkind_series, gentle_series), counts, strict=True)
    return Reference.of(*(scans(grid, np.diff(make(grid.steps, count), axis=1)) for make, count in kinds))


@lru_cache(maxsize=64)
def _false_alarms(steps: tuple[float, ...]) -> float:
    ready = nearest(steps)
    if ready is not None:
        return ready[1]
    grid, null_reference = design(np.array(steps)), _reference(steps)
    return max(
        float(np.mean(null_reference.p_values(scans(grid, np.diff(series, axis=1))) <= level_of(grid.steps)))
        for series in curves(grid.steps, JUDGED_AT_ONCE).values()
    )


def false_alarms(steps: np.ndarray) -> float:
    """Return the largest share of series, over all `curves`, in which a change is found (cached)."""
    return _false_alarms(tuple(float(step) for step in steps))
