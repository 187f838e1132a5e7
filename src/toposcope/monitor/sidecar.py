"""The sidecar: follows a folder that a trainer writes and measures each checkpoint; touches no file of it.

One pass is `Sidecar.look`. What it did is in the store before it is in the journal, and in the journal
before a link is removed, so that it may be killed at any moment: a new one goes on from the journal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toposcope.errors import InputError
from toposcope.monitor.audits import FolderAudit
from toposcope.monitor.follow import Follower, Sighting
from toposcope.monitor.growing import GrowingSeries, Measurer, Turn, opened, take_turn
from toposcope.monitor.hold import Held, hold
from toposcope.monitor.journal import FOLDER, Event, Journal
from toposcope.monitor.losses import LossCopy, LossFile
from toposcope.monitor.segments import Segments
from toposcope.probes.base import Probe
from toposcope.sources.discover import Entry, Source
from toposcope.store import Store
from toposcope.types import Checkpoint

_LOOSE, _PACKED = 64, 256
"""Checkpoints after which the store's files are joined, and units of a file that is then left alone."""
_SETTLING = re.compile(r"changed less than")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a sidecar may take: a share of one core, and bytes of weights at each step (None: all)."""

    cpu_share: float = 0.25
    bytes_per_step: int | None = None

    def __post_init__(self) -> None:
        """Refuse a budget that nothing could keep."""
        if not 0 < self.cpu_share <= 1:
            raise InputError(f"cpu-share is {self.cpu_share:g}; give a share of one core above 0, at most 1")
        if self.bytes_per_step is not None and self.bytes_per_step < 1:
            raise InputError(f"bytes per step is {self.bytes_per_step}; give at least 1")

    def pause(self, used: float, spent: float, every: float) -> float:
        """Return how long to sleep after `used` seconds of CPU in `spent` seconds of time.

        >>> Budget(cpu_share=0.1).pause(2.0, 3.0, every=5.0)
        17.0
        """
        return max(every, used / self.cpu_share - spent)


@dataclass(slots=True)
class _Last:
    """The latest checkpoint of a segment, with what is held of it for the next one."""

    checkpoint: Checkpoint
    held: Held | None = None


@dataclass(slots=True)
class _State:
    """What a restart brings back from the journal."""

    segments: Segments = field(default_factory=Segments)
    last: dict[str, _Last] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    """Segment -> the step after which its loss history begins."""
    turn: dict[str, str] = field(default_factory=dict)


class Sidecar:
    """Follows one folder into one store.

    Parameters
    ----------
    follower
        Finds complete checkpoints.
    store
        Where everything goes; its folder `watch` has the journal and the links.
    probes
        What is measured; those that read all earlier checkpoints are left to `toposcope weights`.
    budget
        What it may take of the machine.
    losses
        A loss history that the checkpoints' own is filled in from.
    keep_diagrams
        Whether the persistence diagrams go into the store, too.
    """

    def __init__(
        self,
        follower: Follower,
        store: Store,
        probes: Sequence[Probe],
        *,
        budget: Budget | None = None,
        split: str = "table",
        losses: LossFile | None = None,
        keep_diagrams: bool = False,
    ) -> None:
        self.store, self.journal = store, Journal.of(store.path)
        self._loss_file = losses
        self._follower, self._budget = follower, budget or Budget()
        self._series, self._measurer = (
            GrowingSeries(split=split),
            Measurer(store, probes, keep_diagrams=keep_diagrams),
        )
        self._losses = LossCopy(store)
        self._audit = FolderAudit(follower, store)
        self._held_in = store.path / FOLDER / "held"
        self._waiting: dict[str, str] = {}
        self._settling = False
        self._loose = 0
        self._state = _State()
        for event in self.journal.read():
            self._replay(event)
        self._drop_links()
        self.journal.append("started", folder=str(follower.folder.resolve()), process=os.getpid())

    def look(self) -> list[Event]:
        """Look once, measure what is new, and return what happened."""
        found = self._follower.look()
        early = self._copy_losses(begun=False)
        events = self._tell_waiting(found.waiting)
        events += [
            self.journal.append("vanished", at.run, at.step, why="gone before it was complete")
            for at in found.vanished
        ]
        for sighting, held in [(sighting, hold(sighting, self._held_in)) for sighting in found.ready]:
            at = sighting.checkpoint
            if held is None and self._state.segments.of(at.run).has(at.step):
                continue  # measured before, and being deleted
            if held is None:
                events.append(self.journal.append("vanished", at.run, at.step, why="gone before it was held"))
            else:
                events += self._take(sighting, held)
        events += early + self._copy_losses()
        self._audit.look(found.complete)
        self._compact()
        return events

    @property
    def settling(self) -> bool:
        """Whether the latest look saw a checkpoint whose files had not rested yet."""
        return self._settling

    def _tell_waiting(self, waiting: dict[str, str]) -> list[Event]:
        """Record why a checkpoint is not complete, once for each reason; settling ones go without."""
        new = {uri: why for uri, why in waiting.items() if not _SETTLING.match(why)}
        self._settling = len(new) < len(waiting)
        changed = {uri: why for uri, why in new.items() if self._waiting.get(uri) != why}
        self._waiting = new
        return [self.journal.append("waiting", uri=uri, why=why) for uri, why in changed.items()]

    def _take(self, sighting: Sighting, held: Held) -> list[Event]:
        """Measure one checkpoint that is held."""
        own = sighting.checkpoint
        source = self._follower.sources[own.run]
        entry = Entry(own, opened(held.path))
        self._series.add(own, source, entry)
        try:
            content = self._series.whole_hash(own)
        except (InputError, OSError) as error:
            held.release()
            return [self.journal.append("skipped", own.run, own.step, why=_line(error), **_files(sighting))]
        finally:
            self._series.drop(own)
        at = self._state.segments.name(own, content=content, written=sighting.written)
        if at is None:
            held.release()
            why = "its weights are in the store already"
            return [self.journal.append("skipped", own.run, own.step, why=why, **_files(sighting))]
        self._series.add(at, source, entry)
        events = self._begin(own, at)
        events.append(self._measure(sighting, at, held, content))
        return events

    def _begin(self, own: Checkpoint, at: Checkpoint) -> list[Event]:
        """Record a segment that begins with this checkpoint, and the run itself."""
        if at.run in self._state.starts:
            return []
        after = self._state.starts[at.run] = self._state.segments.of(own.run).left_at(at.run, at.step)
        run = self._series.describe(at)
        self.store.write_runs([dataclasses.replace(run, run=at.run)])
        if at.run == own.run:
            return []
        return [self.journal.append("segment", at.run, at.step, of=own.run, after=after)]

    def _measure(self, sighting: Sighting, at: Checkpoint, held: Held, content: str) -> Event:
        last = self._state.last.get(at.run)
        before = self._before(at, last, self._follower.sources[sighting.checkpoint.run])
        turn = self._turn(at)
        self._series.only = turn.names
        began = time.perf_counter()
        outcome = self._measurer.measure(
            self._series, at, before, first=last is None, partly=turn.names is not None
        )
        self._series.only = None
        event = self.journal.append(
            "measured",
            at.run,
            at.step,
            of=sighting.checkpoint.run,
            tokens=at.tokens,
            content=content,
            written=sighting.written,
            units=outcome.done,
            seconds=round(time.perf_counter() - began, 3),
            sampled=turn.names,
            unread=self._series.unread(at),
            turn=turn.start,
            after=self._state.starts[at.run],
            held=str(held.path) if held.linked else None,
            problems=[*outcome.told(), *(f.note for f in outcome.failures)],
            **_files(sighting),
        )
        self._loose += 1
        self._keep(at, held)
        return event

    def _before(self, at: Checkpoint, last: _Last | None, source: Source) -> Checkpoint | None:
        """Return the checkpoint before this one, if what was held of it is still there."""
        if last is None or last.checkpoint.step > at.step:
            return None
        before = last.checkpoint
        if before not in self._series and last.held is not None and last.held.path.exists():
            self._series.add(before, source, Entry(before, opened(last.held.path)))  # after a restart
        return before if before in self._series else None

    def _turn(self, at: Checkpoint) -> Turn:
        turn = take_turn(
            self._series.sizes(at), self._budget.bytes_per_step, self._state.turn.get(at.run, "")
        )
        self._state.turn[at.run] = turn.start
        return turn

    def _keep(self, at: Checkpoint, held: Held) -> None:
        """Keep the newest checkpoint of a segment for the next one, and let the one before it go."""
        last = self._state.last.get(at.run)
        if last is not None and last.checkpoint.step > at.step:
            self._series.drop(at)
            held.release()
            return
        if last is not None:
            self._series.drop(last.checkpoint)
            if last.held is not None:
                last.held.release()
        for run in [run for run in self._state.last if run != at.run and _base(run) == _base(at.run)]:
            other = self._state.last[run]  # a segment that the run has left gets no further checkpoint
            self._series.drop(other.checkpoint)
            if other.held is not None:
                other.held.release()
                other.held = None
        self._state.last[at.run] = _Last(at, held)

    def _copy_losses(self, *, begun: bool = True) -> list[Event]:
        """Copy what the logs have new; first, before what lies there is measured, of new runs alone."""
        events = []
        for name, source in self._follower.sources.items():
            past = self._state.segments.of(name)
            if len(past) and not begun:
                continue  # a rollback is known when its checkpoint is taken in
            segment = past.newest if len(past) else name
            try:
                history = source.metrics()
            except (InputError, OSError):
                continue  # being written
            if self._loss_file is not None:
                history = self._loss_file.joined(history, name)
            span = self._losses.copy(history, segment, after=self._state.starts.get(segment, -1))
            if span is not None:
                events.append(self.journal.append("metrics", segment, first=span[0], last=span[1]))
        return events

    def _compact(self) -> None:
        """Join the store's parts now and then; what that costs does not grow with the run."""
        if self._loose >= _LOOSE:
            self.store.compact(_PACKED)
            self._loose = 0

    def _replay(self, event: Event) -> None:
        """Take back in what an earlier process did."""
        data = event.data
        if event.kind not in ("measured", "skipped") or event.step is None:
            return
        own = Checkpoint(str(data.get("of", event.run)), event.step, uri=data["uri"])
        files = tuple((str(a), int(b), int(c), int(d)) for a, b, c, d in data["files"])
        self._follower.restore(own, files)
        if event.kind == "skipped":
            return
        past = self._state.segments.of(own.run)
        past.add(event.run, event.step, content=data["content"], written=data["written"])
        self._state.starts[event.run] = data["after"]
        self._state.turn[event.run] = data["turn"]
        at = dataclasses.replace(own, run=event.run, tokens=data["tokens"])
        last = self._state.last.get(event.run)
        if last is not None and last.checkpoint.step > event.step:
            return
        held = Held(Path(data["held"]), linked=True) if data["held"] else None
        self._state.last[event.run] = _Last(at, held)

    def _drop_links(self) -> None:
        """Remove links that a killed process left, but for the latest checkpoint of each segment."""
        kept = {str(one.held.path) for one in self._state.last.values() if one.held is not None}
        for place in self._held_in.glob("*/*"):
            if str(place) not in kept:
                Held(place, linked=True).release()


@contextlib.contextmanager
def alone(store: Path) -> Iterator[None]:
    """Be the only sidecar of a store; the system gives the place back however the process ends.

    Raises
    ------
    InputError
        When another process watches into this store.
    """
    folder = store / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            f"{store}: another process watches into it; end that one, or choose another --out"
        ) from None
    try:
        yield
    finally:
        os.close(handle)


def _files(sighting: Sighting) -> dict[str, object]:
    return {"uri": sighting.checkpoint.uri, "files": sighting.files}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _base(run: str) -> str:
    return re.sub(r"~\d+$", "", run)
