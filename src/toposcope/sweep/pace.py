"""How far a sweep is and how long it has to go, by what its units cost rather than by their number."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from toposcope.progress import Outlook
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Outcome

Key = tuple[str, str]
_GUESS = 1e-3
_FEW = 4
"""After how many steps the clock counts as much as the units' own seconds."""
_ENOUGH_SECONDS, _ENOUGH_SHARE = 10.0, 0.02
"""What must have been measured before a time left is said: the first units load kernels, too."""


class Pace:
    """Weighs units by their expected seconds, and corrects these by what they have taken so far.

    A probe that has been measured in a run goes on there at its own rate, elsewhere at its rate over all
    runs; one that has not at the rate of the others. What passes beside the units, and how many processes
    there really are, is learnt from the clock. Units that the store had weigh nothing.

    `together` is how many checkpoints a process measures before it says so; None for a whole task.
    """

    def __init__(
        self, tasks: Sequence[Task], each: Mapping[Key, float], *, jobs: int, together: int | None = None
    ) -> None:
        self._each = each
        self._jobs = jobs
        self._together = together
        self._tasks = tasks if together is None else ()
        self._left: dict[Key, int] = {}
        for task in tasks:
            for probe in task.probes:
                key = task.run, probe
                self._left[key] = self._left.get(key, 0) + len(task.indices)
        self._expected: dict[Key | str, float] = {}
        self._taken: dict[Key | str, float] = {}
        self._began: float | None = None
        self._last = 0.0

    def tell(self, outcome: Outcome) -> None:
        """Learn from finished units."""
        self._last = time.monotonic()
        for key, (worked, present, seconds) in outcome.units.items():
            self._left[key] = max(0, self._left.get(key, 0) - worked - present)
            if worked:
                if self._began is None:
                    self._began = self._last - seconds
                for known in (key, key[1], ""):
                    self._expected[known] = self._expected.get(known, 0.0) + worked * self._cost(key)
                    self._taken[known] = self._taken.get(known, 0.0) + seconds

    @property
    def outlook(self) -> Outlook:
        """Return the seconds that the finished units took and that the others will take, by the clock."""
        slower = self._by_the_clock()
        left = sum(count * self._cost(key) * self._rate(key) for key, count in self._left.items())
        return Outlook(
            self._taken.get("", 0.0) / self._jobs * slower,
            left / self._jobs * slower,
            under_way=self._step() * slower,
            known=self._is_known(left),
        )

    def _is_known(self, left: float) -> bool:
        taken = self._taken.get("", 0.0)
        return taken >= min(_ENOUGH_SECONDS * self._jobs, _ENOUGH_SHARE * (taken + left)) and taken > 0

    def _by_the_clock(self) -> float:
        """Return how much longer the units take than their own seconds, shared by the processes, say."""
        if self._began is None:
            return 1.0
        doubt = _FEW * self._step()
        return (self._last - self._began + doubt) / max(self._taken.get("", 0.0) / self._jobs + doubt, 1e-9)

    def _step(self) -> float:
        """Return the most seconds that the clock shows between two counts of one process."""
        if self._together is None:
            return max((self._whole(task) for task in self._tasks), default=0.0)
        steps = (
            min(count, self._together) * self._cost(key) * self._rate(key)
            for key, count in self._left.items()
        )
        return max(steps, default=0.0)

    def _whole(self, task: Task) -> float:
        keys = [(task.run, probe) for probe in task.probes]
        return len(task.indices) * sum(self._cost(key) * self._rate(key) for key in keys)

    def _rate(self, key: Key) -> float:
        """Return what units take in units of what was expected of them."""
        for known in (key, key[1], ""):
            if self._expected.get(known, 0.0) > 0:
                return self._taken[known] / self._expected[known]
        return 1.0

    def _cost(self, key: Key) -> float:
        return max(self._each.get(key, _GUESS), 1e-9)
