"""How far a sweep is and how long it has to go, by what its units cost rather than by their number."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from toposcope.core.progress import Outlook
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Outcome

Key = tuple[str, str]
Piece = tuple[str, int, str]
"""A probe's part of a task, by its run and the first of its checkpoints."""

_FEW_TASKS = 4
"""With so many open tasks for each process, or fewer, it counts which process ends which."""
# Seconds assumed for a unit whose kind has not been measured yet.
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

    `together` is how many checkpoints a process measures before it says so; None for a whole task. `start` is
    how many seconds the processes take, about, until the first of them begins.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        each: Mapping[Key, float],
        *,
        jobs: int,
        together: int | None = None,
        start: float = 0.0,
    ) -> None:
        self._each = each
        self._jobs = jobs
        self._together = together
        self._tasks = tasks if together is None else ()
        self._left: dict[Key, int] = {}
        self._pieces: dict[str, int] = {}
        self._open: dict[Piece, int] = {}
        self._begun: set[tuple[str, int]] = set()
        self._at_once = 0
        self._start = start
        for task in tasks:
            self._pieces[task.run] = self._pieces.get(task.run, 0) + 1
            for probe in task.probes:
                key = task.run, probe
                self._left[key] = self._left.get(key, 0) + len(task.indices)
                self._open[task.run, task.indices[0], probe] = len(task.indices)
        self._expected: dict[Key | str, float] = {}
        self._taken: dict[Key | str, float] = {}
        self._began: float | None = None
        self._last = 0.0

    def tell(self, outcome: Outcome) -> None:
        """Learn from finished units."""
        self._last = time.monotonic()
        measured = any(count for count, _, _ in outcome.units.values())
        if self._began is None and (measured or not outcome.units):
            self._began = self._last - sum(seconds for _, _, seconds in outcome.units.values())
        for key, (worked, present, seconds) in outcome.units.items():
            self._left[key] = max(0, self._left.get(key, 0) - worked - present)
            self._count_off(outcome.first, key, worked + present)
            if worked:
                self._at_once = max(self._at_once, worked)
                for known in (key, key[1], ""):
                    self._expected[known] = self._expected.get(known, 0.0) + worked * self._cost(key)
                    self._taken[known] = self._taken.get(known, 0.0) + seconds

    @property
    def outlook(self) -> Outlook:
        """Return the seconds that the units which are left will take, by the clock."""
        slower = self._by_the_clock()
        runs: dict[str, float] = {}
        for (run, probe), count in self._left.items():
            runs[run] = runs.get(run, 0.0) + count * self._cost((run, probe)) * self._rate((run, probe))
        left = sum(runs.values())
        shared = self._shared(runs)
        if self._began is None:
            return Outlook(shared + self._start, under_way=self._start or self._step(), known=False)
        return Outlook(shared * slower, under_way=self._step() * slower, known=self._is_known(left))

    def _count_off(self, first: int | None, key: Key, count: int) -> None:
        """Take units off the piece that they are of, or off the first ones where that is not said."""
        run, probe = key
        if first is not None:
            pieces = [(run, first, probe)]
        else:
            pieces = [piece for piece in self._open if piece[0] == run and piece[2] == probe]
        for piece in pieces:
            off = min(count, self._open.get(piece, 0))
            count -= off
            self._open[piece] = self._open.get(piece, 0) - off
            self._begun.add(piece[:2])
            if self._open[piece] <= 0:
                del self._open[piece]

    def _shared(self, runs: Mapping[str, float]) -> float:
        """Return how long the processes take for what is left: each task is ended by one of them alone."""
        if len(self._open) > _FEW_TASKS * self._jobs * max(1, len({key[1] for key in self._left})):
            longest = (seconds / self._pieces.get(run, 1) for run, seconds in runs.items())
            return max(sum(runs.values()) / self._jobs, *longest)
        tasks: dict[tuple[str, int], float] = {}
        for (run, first, probe), count in self._open.items():
            cost = count * self._cost((run, probe)) * self._rate((run, probe))
            tasks[run, first] = tasks.get((run, first), 0.0) + cost
        loads = [0.0] * self._jobs
        for task in sorted(tasks, key=lambda task: task not in self._begun):
            loads[loads.index(min(loads))] += tasks[task]
        return max(loads)

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
        most = self._at_once or self._together
        steps = (min(count, most) * self._cost(key) * self._rate(key) for key, count in self._left.items())
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
