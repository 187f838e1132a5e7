"""Rollbacks: a run that goes back to an earlier checkpoint goes on as a new segment of its own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from toposcope.types import Checkpoint


@dataclass(frozen=True, slots=True)
class Seen:
    """A checkpoint that was taken in: under which name, with which content, written when."""

    run: str
    step: int
    content: str
    written: int


@dataclass(slots=True)
class Segments:
    """Gives every checkpoint of a growing run the name of its segment.

    The first segment has the run's own name, the next ones `NAME~2`, `NAME~3`, ... A segment ends when a
    checkpoint comes whose step is not above the last one's and which was written later, unless it is one that
    was taken in already, with the same content. A checkpoint that completes late (written before others that
    were taken in) belongs to the segment that was current when it was written.
    """

    seen: dict[str, list[Seen]] = field(default_factory=dict)

    def name(self, checkpoint: Checkpoint, *, content: str, written: int) -> Checkpoint | None:
        """Return the checkpoint under its segment's name; None when it was taken in already.

        `content` is the hash of its weights and `written` when its newest file was changed, in nanoseconds.

        >>> segments = Segments()
        >>> names = [(100, "a", 1), (200, "b", 2), (200, "b", 5), (150, "c", 6)]
        >>> found = [segments.name(Checkpoint("r", s), content=c, written=w) for s, c, w in names]
        >>> [None if one is None else one.run for one in found]
        ['r', 'r', None, 'r~2']
        """
        past = self.seen.setdefault(checkpoint.run, [])
        if any(one.step == checkpoint.step and one.content == content for one in past):
            return None
        segment = self._segment(checkpoint, written)
        past.append(Seen(segment, checkpoint.step, content, written))
        return dataclasses.replace(checkpoint, run=segment)

    def _segment(self, checkpoint: Checkpoint, written: int) -> str:
        past = self.seen[checkpoint.run]
        if not past:
            return checkpoint.run
        before = [one for one in past if one.written <= written]
        if not before:
            return past[0].run
        current = max(before, key=lambda one: one.written).run
        if all(checkpoint.step > one.step for one in before if one.run == current):
            return current
        number = len({one.run for one in past}) + 1
        return f"{checkpoint.run}~{number}"
