"""The store behind the page: read in the background and kept in memory, with versions."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from toposcope.core.groups import sizes
from toposcope.store import parts
from toposcope.store.schema import METRICS
from toposcope.watch.first_line import beside_passed, events_of
from toposcope.watch.journal import Event, named_later
from toposcope.watch.loss_health import alarm_key
from toposcope.watch.page.diagrams import StoredDiagrams
from toposcope.watch.page.traces import LiveTrace, Measure, Traces
from toposcope.watch.resumes import latest_answers
from toposcope.watch.session import LiveStore

if TYPE_CHECKING:
    from collections.abc import Hashable

_SMALL = ("runs", "catalogue", "audit")


@dataclass(frozen=True, slots=True)
class ShownAlarm:
    """An alarm from the journal, with the culprits that were named for it then or later."""

    run: str
    step: int | None
    at: float
    test: str
    sentence: str
    last_good: int | None
    culprits: tuple[Mapping[str, Any], ...]
    next: str = ""
    """What to do, in one clause."""
    quiet: str = ""
    """The sentence that no change exceeds its noise, if none does."""
    passed: int | None = None
    """The step of the log at which it passed; None if it has not."""
    others: tuple[str, ...] = ()
    """What further alarms of the same event say, with their steps."""


def one_block(event: Sequence[ShownAlarm]) -> ShownAlarm:
    """Return the alarms of one event, the plainest first, as one, from its first step.

    The way back is that of the plainest alarm, as what to do next says it; others know it less well.
    """
    first = event[0]
    steps = [alarm.step for alarm in event if alarm.step is not None]
    goods = [alarm.last_good for alarm in event if alarm.last_good is not None]
    others = tuple(
        f"{alarm.sentence}" + ("" if alarm.step in (None, min(steps)) else f" (step {alarm.step:,})")
        for alarm in event[1:]
    )
    return replace(
        first,
        step=min(steps, default=None),
        last_good=min(goods, default=None) if first.last_good is None else first.last_good,
        culprits=next((alarm.culprits for alarm in event if alarm.culprits), ()),
        quiet=next((alarm.quiet for alarm in event if alarm.quiet), ""),
        others=others,
    )


@dataclass
class Live:
    """What the page knows about a store. `visit` reads what is new; everything else only reads from memory.

    `version` starts at the start time in milliseconds, so that the numbers of two servers never coincide, and
    rises with every visit that found something. Readers hold `lock` while they read traces.
    """

    path: Path
    traces: Traces = field(default_factory=Traces)
    version: int = field(default_factory=lambda: int(time.time() * 1000))
    ready: bool = False
    trouble: str = ""

    def __post_init__(self) -> None:
        self.first = self.version
        self.live = LiveStore(self.path)
        self.lock = threading.RLock()
        self.diagrams = StoredDiagrams(self.live.store.path)
        self.events: list[Event] = []
        """The alarms and notices."""
        self.lost: deque[Event] = deque(maxlen=20)
        """The latest checkpoints that disappeared or were skipped."""
        self.runs, self.catalogue, self.audit = pd.DataFrame(), pd.DataFrame(), pd.DataFrame()
        self.faults: list[str] = []
        """What the audit found wrong, a sentence each; remarks are left out."""
        self.audited: float | None = None
        """When the checkpoints were last audited, in seconds since 1970."""
        self.unseen: dict[str, str] = {}
        """What the watch cannot check, by place, and why."""
        self.resume: dict[str, Event] = {}
        """The latest answer to whether a run can be resumed, by the run's name in its folder."""
        self.folder = ""
        """The folder that a watch follows."""
        self.changed: dict[str, int] = {}
        """For each kind of news, the version in which it last changed."""
        self._number = 0
        self._marks: dict[str, Hashable] = {}
        self._files: dict[str, Hashable] = {}

    def visit(self) -> set[str]:
        """Read what is new, and return which kinds there were: points, events, runs, audit, diagrams."""
        changed = set()
        for name in _SMALL:
            if self._moved(name, self.path / name):
                setattr(self, name, getattr(self.live.store, name)())
                changed.add(name)
        if "audit" in changed:
            self.faults = [str(finding) for finding in self.live.store.audited() if not finding.is_remark]
            times = [at for path in (self.path / "audit").glob("[!.]*.parquet") if (at := _mark(path))]
            self.audited = max((at[0] / 1e9 for at in times), default=None)
        if self._moved("metrics", self.path / "metrics") | self._touched():
            changed |= {"points"} if self._metrics() else set()
        features = self._moved("features", self.path / "features")
        if features | self._moved("journal", self.live.journal.path):
            changed |= self._appended()
        if self._moved("diagrams", self.path / "diagrams"):
            self.diagrams.visit()
            changed.add("diagrams")
        if changed:
            self.changed |= dict.fromkeys(changed, self.version + 1)
            self.version += 1
        self.ready = True
        return changed

    def raised(self) -> list[Event]:
        """Return the alarms of the journal, the latest last."""
        return [event for event in self.events if event.kind == "alarm"]

    def alarms(self, raised: Sequence[Event] | None = None, passed: Sequence[Event] = ()) -> list[ShownAlarm]:
        """Return events of alarms as they are shown, the latest first; by default of all that were raised.

        An alarm that has `passed` is told with the open event that it belongs to, else after all of these.
        """
        later = {
            (event.run, test, event.step): event
            for event in self.events
            if (test := named_later(event)) is not None
        }
        return [
            one_block([self._shown(alarm, later) for alarm in event])
            for event in beside_passed(events_of(self.raised() if raised is None else raised), passed)[::-1]
        ]

    def _shown(self, event: Event, later: Mapping[Any, Event]) -> ShownAlarm:
        """Return an alarm with the culprits that were named for it then or `later`."""
        key = alarm_key(event)
        naming = event if event.data.get("culprits") else later.get(key, event)
        culprits = tuple(c for c in naming.data.get("culprits") or () if isinstance(c, Mapping))
        sentence = str(event.data.get("sentence", ""))
        good = naming.data.get("last_good")
        more = str(event.data.get("next", "")), str(event.data.get("quiet", "")), event.data.get("passed")
        return ShownAlarm(event.run, event.step, event.at, key[1], sentence, good, culprits, *more)

    def groups(self) -> dict[str, tuple[int, str]]:
        """Return the number and name of each run's group: seeds of the same size form a group."""
        known_runs = self.runs if len(self.runs) else pd.DataFrame(columns=["run", "family", "parameters"])
        names = {run for runs in self.traces.by_measure.values() for run in runs} - set(known_runs["run"])
        more = pd.DataFrame({"run": sorted(names), "family": "", "parameters": 0})
        table = pd.concat([known_runs[["run", "family", "parameters"]], more], ignore_index=True)
        return {
            run: (i, size.label)
            for i, size in enumerate(sizes(table.fillna({"family": ""})))
            for run in size.runs
        }

    def logged(self, column: str) -> dict[str, LiveTrace]:
        """Return the traces of a column of the metrics, by run."""
        return self.traces.by_measure.get(Measure("metrics", "", "model", "", column).key, {})

    def _moved(self, name: str, path: Path) -> bool:
        """Return whether a folder or file has changed since the last visit."""
        try:
            at = path.stat()
            mark: Hashable = (at.st_mtime_ns, at.st_size, at.st_ino)
        except FileNotFoundError:
            mark = None
        before, self._marks[name] = self._marks.get(name), mark
        return before != mark

    def _touched(self) -> bool:
        """Return whether a file of the metrics has changed: a rename may keep the folder's time."""
        marks = {path.name: _mark(path) for path in (self.path / "metrics").glob("[!.]*.parquet")}
        return any(self._files.get(name) != mark for name, mark in marks.items())

    def _metrics(self) -> bool:
        changed = False
        for path in sorted((self.path / "metrics").glob("[!.]*.parquet")):
            mark = _mark(path)
            if mark is None or self._files.get(path.name) == mark:
                continue
            part = parts.Part(path, path.name, "metrics", pack=True)
            try:
                table = parts.read([part], METRICS).to_pandas()
            except FileNotFoundError:  # being replaced: the next visit reads it
                continue
            self._files[path.name] = mark
            with self.lock:
                changed |= self.traces.take_metrics(table, self.version + 1)
        return changed

    def _appended(self) -> set[str]:
        new = self.live.snapshot(self._number, metrics=False)
        self._number = new.number
        with self.lock:
            points = self.traces.take_features(new.features, self.version + 1)
            self.events += [event for event in new.events if event.kind in ("alarm", "notice")]
            self.resume |= latest_answers(new.events)
            self.lost.extend(event for event in new.events if event.kind in ("vanished", "skipped"))
            for event in new.events:
                self.folder = str(event.data.get("folder") or self.folder)
                self._see(event)
        return ({"points"} if points else set()) | ({"events"} if new.events else set())

    def _see(self, event: Event) -> None:
        """Update what cannot be read; a new watch reports it again."""
        if event.kind == "started":
            self.unseen.clear()
        elif event.kind == "unseen":
            place, why = str(event.data.get("place", "")), str(event.data.get("why", ""))
            self.unseen.pop(place, None)
            if why:
                self.unseen[place] = why


def points_of(trace: LiveTrace, chosen: np.ndarray, *, banded: bool = False) -> dict[str, list[float | None]]:
    """Return chosen points of a trace as plain lists; values that are not finite become None, a gap."""
    points: dict[str, list[float | None]] = {
        "x": trace.step[chosen].tolist(), "y": plain(trace.value[chosen]),
    }  # fmt: skip
    if banded:
        points |= {"low": plain(trace.low[chosen]), "high": plain(trace.high[chosen])}
    return points


def plain(values: np.ndarray) -> list[float | None]:
    """Return values with six significant digits, more than a screen can resolve."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        at = path.stat()
    except FileNotFoundError:
        return None
    return at.st_mtime_ns, at.st_size, at.st_ino
