"""How far a sweep is and how long it has to go, by what its units cost rather than by their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Outcome

Key = tuple[str, str]
_GUESS = 1e-3


class Pace:
    """Weighs units by their expected seconds, and corrects these by what each probe has taken so far.

    A probe that has been measured goes on at its own rate; one that has not at the rate of the others.
    Units that the store had weigh nothing.
    """

    def __init__(self, tasks: Sequence[Task], each: Mapping[Key, float], *, jobs: int) -> None:
        self._each = each
        self._jobs = jobs
        self._left: dict[Key, int] = {}
        for task in tasks:
            for probe in task.probes:
                key = task.run, probe
                self._left[key] = self._left.get(key, 0) + len(task.indices)
        self._expected: dict[str, float] = {}
        self._taken: dict[str, float] = {}

    def tell(self, outcome: Outcome) -> None:
        """Learn from finished units."""
        for key, (worked, present, seconds) in outcome.units.items():
            self._left[key] = max(0, self._left.get(key, 0) - worked - present)
            if worked:
                probe = key[1]
                self._expected[probe] = self._expected.get(probe, 0.0) + worked * self._cost(key)
                self._taken[probe] = self._taken.get(probe, 0.0) + seconds

    @property
    def done(self) -> float:
        """Return the seconds that the finished units took, shared by the processes."""
        return sum(self._taken.values()) / self._jobs

    @property
    def left(self) -> float:
        """Return the seconds that the other units will take."""
        whole = sum(self._expected.values())
        overall = sum(self._taken.values()) / whole if whole > 0 else 1.0
        total = 0.0
        for key, count in self._left.items():
            expected = self._expected.get(key[1], 0.0)
            rate = self._taken[key[1]] / expected if expected > 0 else overall
            total += count * self._cost(key) * rate
        return total / self._jobs

    def _cost(self, key: Key) -> float:
        return max(self._each.get(key, _GUESS), 1e-9)
