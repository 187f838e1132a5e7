"""Rollbacks: a run that returns to an earlier checkpoint continues as a new segment."""

from __future__ import annotations

import dataclasses
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from toposcope.core.types import Checkpoint


@dataclass(slots=True)
class Past:
    """The checkpoints of one run that were taken in, 28 bytes each, because a watch may run for years."""

    names: list[str] = field(default_factory=list)
    """The run's segments in the order in which they began."""
    _segment: array[int] = field(default_factory=lambda: array("i"))
    _step: array[int] = field(default_factory=lambda: array("q"))
    _written: array[int] = field(default_factory=lambda: array("q"))
    _content: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self._step)

    @property
    def newest(self) -> str:
        """The segment of the checkpoint that was taken in last."""
        return self.names[self._segment[-1]]

    def add(self, segment: str, step: int, *, content: str, written: int) -> None:
        """Take in a checkpoint of a segment."""
        if segment not in self.names:
            self.names.append(segment)
        self._segment.append(self.names.index(segment))
        self._step.append(step)
        self._written.append(written)
        self._content.append(_digest(content))

    def has(self, step: int) -> bool:
        """Return whether a checkpoint of this step was taken in."""
        return bool(np.any(np.frombuffer(self._step, np.int64) == step)) if len(self) else False

    def holds(self, step: int, content: str) -> bool:
        """Return whether a checkpoint with this step and content was taken in."""
        same = np.frombuffer(self._content, np.uint64) == _digest(content)
        return bool(np.any(same & (np.frombuffer(self._step, np.int64) == step)))

    def segment_at(self, step: int, written: int) -> str | None:
        """Return the segment that a checkpoint written then continues; None if it begins a new one."""
        segment, steps = np.frombuffer(self._segment, np.intc), np.frombuffer(self._step, np.int64)
        times = np.frombuffer(self._written, np.int64)
        before = times <= written
        if not before.any():
            return self.names[segment[0]]
        current = segment[np.argmax(np.where(before, times, -1))]
        return self.names[current] if np.all(step > steps[before & (segment == current)]) else None

    def left_at(self, segment: str, step: int) -> int:
        """Return the last step below `step` of the other segments, -1 without one."""
        of, steps = np.frombuffer(self._segment, np.intc), np.frombuffer(self._step, np.int64)
        own_index = self.names.index(segment) if segment in self.names else -1
        return int(np.max(steps[(of != own_index) & (steps < step)], initial=-1))


@dataclass(slots=True)
class Segments:
    """Gives every checkpoint of a growing run the name of its segment.

    The first segment has the run's name, the next ones are `NAME~2`, `NAME~3`, ... A segment ends when a
    checkpoint arrives that was written later than the last one and whose step is not above it, unless the
    same content was taken in before. A checkpoint that completes late (written before others that were taken
    in) belongs to the segment that was current when it was written.
    """

    past: dict[str, Past] = field(default_factory=dict)

    def of(self, run: str) -> Past:
        """Return the checkpoints of a run that were taken in."""
        return self.past.setdefault(run, Past())

    def name(self, checkpoint: Checkpoint, *, content: str, written: int) -> Checkpoint | None:
        """Return the checkpoint under its segment's name; None when it was taken in already.

        `content` is the hash of its weights, `written` the time of its newest file in nanoseconds.

        >>> segments = Segments()
        >>> names = [(100, "a", 1), (200, "b", 2), (200, "b", 5), (150, "c", 6)]
        >>> found = [segments.name(Checkpoint("r", s), content=c, written=w) for s, c, w in names]
        >>> [None if one is None else one.run for one in found]
        ['r', 'r', None, 'r~2']
        """
        run, past = checkpoint.run, self.of(checkpoint.run)
        if past.holds(checkpoint.step, content):
            return None
        segment = past.segment_at(checkpoint.step, written) if len(past) else run
        segment = segment or f"{run}~{len(past.names) + 1}"
        past.add(segment, checkpoint.step, content=content, written=written)
        return dataclasses.replace(checkpoint, run=segment)


def _digest(content: str) -> int:
    return int.from_bytes(blake2b(content.encode(), digest_size=8).digest())
