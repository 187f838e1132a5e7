"""The journal of a watch: an append-only file with one JSON object per event.

It is `STORE/watch/events.jsonl`. A process that is killed while it writes leaves at most one incomplete line:
readers skip it, and the next writer begins a new line after it.
"""

from __future__ import annotations

import bisect
import errno
import json
import math
import os
import time
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toposcope.store import inside
from toposcope.watch._event_shape import is_event

FOLDER = "watch"
"""The folder of a store that holds its journal, and the links to the trainer's files."""

HELD = "held"
"""The folder in it that has the links, or copies."""

KINDS = (
    "started", "measured", "waiting", "unseen", "vanished", "skipped", "segment", "metrics", "alarm",
    "notice", "look", "log", "settings", "resume", "restart",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    `number` orders events, also relative to the store's write numbers: it is nanoseconds since 1970, forced
    to increase. `kind` is one of `KINDS`; `data` holds the details.
    """

    number: int
    kind: str
    run: str = ""
    step: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> float:
        """When it happened, in seconds since 1970."""
        return self.number / 1e9

    @property
    def place(self) -> str:
        """Where it happened, in words: the run, and the step if there is one."""
        return self.run if self.step is None else f"{self.run} step {self.step:,}"

    def line(self) -> str:
        """Return the event as one line of strict JSON; numbers that are not finite become null."""
        content = {
            "number": self.number,
            "kind": self.kind,
            "run": self.run,
            "step": self.step,
            "data": _plain(self.data),
        }
        return json.dumps(content, allow_nan=False, separators=(",", ":")) + "\n"


class Journal:
    """A journal file; any number of processes may read it, and one appends to it.

    >>> import tempfile
    >>> journal = Journal(Path(tempfile.mkdtemp()) / "events.jsonl")
    >>> _ = journal.append("measured", "a", 100, seconds=0.5)
    >>> [(event.kind, event.run, event.step, event.data) for event in journal.read()]
    [('measured', 'a', 100, {'seconds': 0.5})]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0
        self._sealed = False
        self._numbers, self._starts = array("q"), array("q")
        self._offset = 0
        self.left_out = 0
        """Lines that are no events; one that a kill left incomplete does not count."""
        self.lost = False
        """Whether an earlier watch kept checkpoints in the store, and its journal is gone."""

    @classmethod
    def of(cls, store: Path) -> Journal:
        """Return the journal of a store."""
        journal = cls(store / FOLDER / "events.jsonl")
        held = store / FOLDER / HELD  # a watch begins its journal before it keeps a checkpoint
        journal.lost = not journal.path.exists() and held.is_dir() and any(held.iterdir())
        return journal

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with the journal, by its path: it is lost, or has lines that are no events."""
        if self.lost:
            return {str(self.path): "the journal of an earlier watch is gone, and its alarms with it"}
        if self.left_out:
            many = "1 line is no event" if self.left_out == 1 else f"{self.left_out:,} lines are no events"
            return {str(self.path): f"{many} and left out, with any alarm there; remove what does not belong"}
        return {}

    def append(self, kind: str, run: str = "", step: int | None = None, **data: Any) -> Event:
        """Write one event, in one write, and return it.

        Raises
        ------
        ValueError
            When `kind` is none of `KINDS`.
        """
        if kind not in KINDS:
            raise ValueError(f"event kind {kind!r} is unknown; use one of {', '.join(KINDS)}")
        if not self._sealed:
            self._seal()
        self._last = max(self._last + 1, time.time_ns())
        event = Event(self._last, kind, run, step, data)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        line = event.line().encode()
        self._sealed = False
        try:
            if os.write(handle, line) < len(line):  # the next writer ends the incomplete line
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(handle)
        self._sealed = True
        return event

    def read(self, since: int = 0) -> list[Event]:
        """Return the events with a number above `since`; incomplete lines and other content are skipped."""
        self._index()
        first = bisect.bisect_right(self._numbers, since)
        return self.tail(self._starts[first])[0] if first < len(self._starts) else []

    def _index(self) -> None:
        """Store the offsets of the new events; the journal itself is not kept in memory."""
        if self.path.exists() and self.path.stat().st_size < self._offset:  # replaced by another journal
            self._numbers, self._starts, self._offset, self.left_out = array("q"), array("q"), 0, 0
        for line in self._lines(self._offset):
            event = _parsed(line)
            if event is not None:
                self._numbers.append(event.number)
                self._starts.append(self._offset)
            elif line.strip() and not _is_torn(line):
                self.left_out += 1
            self._offset += len(line)

    def _lines(self, offset: int) -> list[bytes]:
        """Return the complete lines from a byte offset on."""
        try:
            content = inside.after(self.path, offset)
        except FileNotFoundError:
            return []
        return content[: content.rfind(b"\n") + 1].splitlines(keepends=True)

    def tail(self, offset: int) -> tuple[list[Event], int]:
        """Return the events from a byte offset on, and the offset after the last complete line."""
        lines = self._lines(offset)
        events = [event for line in lines if (event := _parsed(line)) is not None]
        return events, offset + sum(map(len, lines))

    def _seal(self) -> None:
        """End a line that a killed writer left incomplete, and find the highest number so far."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        events, end = self.tail(0)
        self._last = max((event.number for event in events), default=0)
        if self.path.exists() and self.path.stat().st_size > end:
            with self.path.open("ab") as file:
                file.write(b"\n")
        self._sealed = True


def named_later(notice: Event) -> str | None:
    """Return the test of the alarm whose culprits a notice names; None if it names none."""
    if notice.kind != "notice" or not notice.data.get("culprits"):
        return None
    return str(notice.data.get("alarm", ""))


def alarms_of(stores: Iterable[Path]) -> dict[str, list[tuple[str, float]]]:
    """Return the alarms in the journals of stores: for each run, the tests that raised one and the steps.

    Of several alarms of one test in one run, the first counts.

    >>> import tempfile
    >>> store = Path(tempfile.mkdtemp())
    >>> for step in (200, 300):
    ...     _ = Journal.of(store).append("alarm", "a", step, test="loss spike")
    >>> alarms_of([store])
    {'a': [('loss spike', 200.0)]}
    """
    steps_by_run: dict[str, dict[str, float]] = {}
    for store in stores:
        for event in Journal.of(store).read():
            if event.kind == "alarm" and event.step is not None:
                test, step = str(event.data.get("test", "alarm")), float(event.step)
                of_run = steps_by_run.setdefault(event.run, {})
                of_run[test] = min(step, of_run.get(test, step))
    return {run: list(tests.items()) for run, tests in steps_by_run.items()}


def _parsed(line: bytes) -> Event | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None  # torn by a kill, or nested without end
    if not is_event(content):
        return None
    return Event(content["number"], content["kind"], content["run"], content["step"], content["data"])


def _is_torn(line: bytes) -> bool:
    """Return whether a line is the beginning of an event, as a kill leaves it."""
    begin = b'{"number":'
    try:
        json.loads(line)
    except ValueError:
        return line.startswith(begin) or begin.startswith(line.rstrip())
    except RecursionError:
        pass
    return False


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
