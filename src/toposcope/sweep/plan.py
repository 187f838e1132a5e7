"""The plan of a sweep: tasks of consecutive checkpoints, and the part of each launcher."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint
from toposcope.subjects.base import Probe, Reads

# Checkpoints of one task: more would leave processes idle at the end. Changes no result.
_MOST_PER_TASK = 16


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a sweep that one of several launchers does: `index` 1..`count`."""

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse a part that does not exist."""
        if not 1 <= self.index <= self.count:
            raise InputError(
                "there is no such part", argument="shard", value=f"{self.index}/{self.count}",
                remedy="use i/n with i from 1 to n",
            )  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard written as `i/n`.

        >>> Shard.parse("2/8")
        Shard(index=2, count=8)
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None:
            raise InputError("not a part", argument="shard", value=text, remedy="use i/n, for example 1/8")
        return cls(int(match[1]), int(match[2]))

    def range(self, total: int) -> range:
        """Return which of `total` consecutive items belong to this shard.

        >>> [list(Shard(i, 3).range(4)) for i in (1, 2, 3)]
        [[0], [1], [2, 3]]
        """
        return range((self.index - 1) * total // self.count, self.index * total // self.count)


@dataclass(frozen=True, slots=True)
class Task:
    """Some checkpoints of a run, by their position in it, and the probes to measure at each of them."""

    run: str
    indices: tuple[int, ...]
    probes: tuple[str, ...]

    @property
    def units(self) -> int:
        """Return how many units of work this is."""
        return len(self.indices) * len(self.probes)


def by_run(checkpoints: Iterable[Checkpoint]) -> dict[str, tuple[Checkpoint, ...]]:
    """Return the checkpoints of every run, in the order of their steps."""
    checkpoints_by_run: dict[str, list[Checkpoint]] = {}
    for checkpoint in checkpoints:
        checkpoints_by_run.setdefault(checkpoint.run, []).append(checkpoint)
    return {
        run: tuple(sorted(values, key=lambda c: c.step)) for run, values in sorted(checkpoints_by_run.items())
    }


def plan(
    runs: Mapping[str, Sequence[Checkpoint]], probes: Sequence[Probe], shard: Shard, *, jobs: int
) -> list[Task]:
    """Return the tasks of a shard.

    Checkpoints are divided into consecutive pieces, so that the previous checkpoint is usually in memory for
    probes that read it. A probe that reads everything up to a step gets its run as one task.
    """
    near = tuple(probe.name for probe in probes if probe.reads != Reads.PREFIX)
    far = tuple(probe.name for probe in probes if probe.reads == Reads.PREFIX)
    places = [(run, index) for run, checkpoints in runs.items() for index in range(len(checkpoints))]
    mine = [places[k] for k in shard.range(len(places))]
    size = max(1, min(_MOST_PER_TASK, len(mine) // (4 * jobs)))
    tasks = []
    names = list(runs)
    if far:
        tasks += [Task(names[k], tuple(range(len(runs[names[k]]))), far) for k in shard.range(len(names))]
    for run in names if near else []:
        indices = [index for name, index in mine if name == run]
        tasks += [Task(run, tuple(indices[k : k + size]), near) for k in range(0, len(indices), size)]
    return tasks
