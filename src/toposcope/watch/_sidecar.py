"""The sidecar: follows a folder that a trainer writes to, and measures each checkpoint without changing it.

One pass is `Sidecar.visit`. Results are in the store before the journal records them, and the journal records
them before a link is removed. So the sidecar can be killed at any time: a new one continues from the journal.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from toposcope.core.errors import InputError, of_full_disk
from toposcope.core.types import Checkpoint
from toposcope.files.labels import step_of, step_of_file
from toposcope.sources.discover import Entry, Source
from toposcope.store import Store, inside
from toposcope.subjects.base import Probe
from toposcope.watch._audits import FolderAudit
from toposcope.watch._retained import Retained, as_stamps, remove, retain
from toposcope.watch.budget import Budget
from toposcope.watch.checked import Checked, UncheckedLog
from toposcope.watch.follow import FolderVisit, Follower, Sighting
from toposcope.watch.growing import GrowingSeries, Measurer, Turn, opened, take_turn
from toposcope.watch.journal import FOLDER, HELD, Event, Journal
from toposcope.watch.losses import CompanionCopy, LossCopy, LossFile, PlanCopy
from toposcope.watch.restarts import RestartLog
from toposcope.watch.resumes import ResumeLog
from toposcope.watch.segments import Segments

_LOOSE, _PACKED = 64, 256
"""The store's files are joined after this many checkpoints; files with this many units stay as they are."""


_MEASURED = {"files", "content", "written", "after", "turn", "tokens", "held"}
"""What an event of a measured checkpoint states, so that a restart continues from it."""


@dataclass(slots=True)
class _Last:
    """The latest checkpoint of a segment, with the copy that is kept for the next one."""

    checkpoint: Checkpoint
    content: str
    held: Retained | None = None


@dataclass(slots=True)
class _State:
    """The state that a restart restores from the journal."""

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
        Takes all results; its folder `watch` has the journal and the links.
    probes
        What is measured; those that read all earlier checkpoints are left to `toposcope weights`.
    budget
        Its share of the machine.
    losses
        A loss history that fills gaps in the checkpoints' own.
    keep_diagrams
        Whether to store the persistence diagrams, too.
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
        self._companions = CompanionCopy(store)
        self._plans = PlanCopy(store)
        self._logs: set[str] = set()
        """Runs for which the log beside their checkpoints was reported."""
        self._audit = FolderAudit(follower, store)
        self._resumes, self._restarts = ResumeLog(self.journal), RestartLog(self.journal)
        self._held_in = store.path / FOLDER / HELD
        self._unseen = UncheckedLog()
        self._settling, self._newest = False, True
        self._loose = 0
        self._state = _State()
        for event in self.journal.read():
            self._replay(event)
        for place in (self._held_in.parent, self._held_in):
            inside.refuse_linked(place)
        self._drop_links()
        self.journal.append("started", folder=str(follower.folder.resolve()), process=os.getpid())

    def visit(self) -> list[Event]:
        """Visit the folder once, measure what is new, and return what happened."""
        folder_visit = self._follower.visit()
        self._settling = folder_visit.settling
        early = self._copy_losses(started=False)
        events = self._tell_waiting(folder_visit)
        events += [
            self.journal.append("vanished", at.run, at.step, why="gone before it was complete")
            for at in folder_visit.vanished
        ]
        ready = [(sighting, self._hold(sighting)) for sighting in folder_visit.ready]
        for number, (sighting, held) in enumerate(ready, 1):
            events += self._take_or_tell(sighting, held, newest=number == len(ready))
        events += early + self._copy_losses()
        self._unseen.faulty = {
            uri: why for uri, why in self._unseen.faulty.items() if uri in folder_visit.complete
        }
        unread = {
            unread_file.place: unread_file.why for unread_file in folder_visit.unread
        } | self.journal.faults
        self._unseen.take(unread, folder_visit.waiting, frozenset(folder_visit.stuck))
        events += [
            self.journal.append("unseen", place=unread_file.place, why=unread_file.why)
            for unread_file in self._unseen.new()
        ]
        events += self._resumes.take(self._audit.visit(folder_visit.complete), self._state.segments)
        self._compact()
        return events

    @property
    def settling(self) -> bool:
        """Whether files were still changing at the latest visit."""
        return self._settling

    @property
    def checked(self) -> Checked:
        """What has been checked so far, and what the latest visit could not read."""
        return Checked.of(self.store, self._unseen.now)

    def _tell_waiting(self, visit: FolderVisit) -> list[Event]:
        """Record why a checkpoint is incomplete, once for each reason, unless it changes or is stuck."""
        new = {
            uri: why
            for uri, why in visit.waiting.items()
            if uri not in visit.stuck and uri not in visit.resting
        }
        changed = {uri: why for uri, why in new.items() if self._unseen.waiting.get(uri) != why}
        self._unseen.waiting = new
        at, name_of = self._follower.awaited, self._follower.name_of
        return [
            self.journal.append("waiting", at[uri].run, at[uri].step, uri=name_of(uri), why=why)
            for uri, why in changed.items()
        ]

    def _hold(self, sighting: Sighting) -> Retained | None:
        """Keep a checkpoint; copy it if its name states no step, because the next one overwrites it."""
        name = sighting.path.name
        stated = step_of(name) if sighting.path.is_dir() else step_of_file(sighting.path.stem)
        return retain(sighting, self._held_in, copy=stated is None)

    def _take_or_tell(self, sighting: Sighting, held: Retained | None, *, newest: bool) -> list[Event]:
        """Measure one checkpoint; an error in it does not affect the others."""
        at = sighting.checkpoint
        if held is None:
            if sighting.path.exists():  # being rewritten: it is reported again later
                self._settling = True
                return []
            if self._state.segments.of(at.run).has(at.step):
                return []  # measured before, and being deleted
            return [self.journal.append("vanished", at.run, at.step, why="gone before it was copied")]
        try:
            self._newest = newest
            events = self._take(sighting, held)
        except Exception as error:
            if of_full_disk(error):
                raise
            held.release()
            self._series.only = None
            return [self._skip(sighting, _line(error) or type(error).__name__)]
        return events

    def _skip(self, sighting: Sighting, why: str) -> Event:
        """Record a checkpoint that cannot be measured: a problem as long as its files exist."""
        at = sighting.checkpoint
        self._unseen.faulty[at.uri] = why
        return self.journal.append("skipped", at.run, at.step, why=why, fault=True, **self._files(sighting))

    def _take(self, sighting: Sighting, held: Retained) -> list[Event]:
        """Measure one kept checkpoint."""
        checkpoint = sighting.checkpoint
        source = self._follower.sources[checkpoint.run]
        entry = Entry(checkpoint, opened(held.path), place=str(held.path))
        self._series.add(checkpoint, source, entry)
        try:
            content = self._series.whole_hash(checkpoint)
        except (InputError, OSError) as error:
            held.release()
            return [self._skip(sighting, _line(error))]
        finally:
            self._series.drop(checkpoint)
        self._unseen.faulty.pop(checkpoint.uri, None)
        at = self._state.segments.name(checkpoint, content=content, written=sighting.written)
        if at is None:
            held.release()
            why = "its weights are already in the store"
            return [
                self.journal.append(
                    "skipped", checkpoint.run, checkpoint.step, why=why, **self._files(sighting)
                )
            ]
        self._series.add(at, source, entry)
        events = self._begin(checkpoint, at)
        events.append(self._measure(sighting, at, held, content))
        return events

    def _begin(self, own_checkpoint: Checkpoint, at: Checkpoint) -> list[Event]:
        """Record a segment that begins with this checkpoint, and the run itself."""
        if at.run in self._state.starts:
            return []
        after = self._state.starts[at.run] = self._state.segments.of(own_checkpoint.run).left_at(
            at.run, at.step
        )
        run = self._series.describe(at)
        self.store.write_runs([dataclasses.replace(run, run=at.run)])
        if at.run == own_checkpoint.run:
            return []
        return [self.journal.append("segment", at.run, at.step, of=own_checkpoint.run, after=after)]

    def _measure(self, sighting: Sighting, at: Checkpoint, held: Retained, content: str) -> Event:
        last = self._state.last.get(at.run)
        before, lost = self._before(at, last, self._follower.sources[sighting.checkpoint.run])
        turn = self._turn(at)
        self._series.only = turn.names
        began = time.perf_counter()
        outcome = self._measurer.measure(
            self._series, at, before, first=last is None, partly=turn.names is not None
        )
        self._series.only = None
        if self._newest and not held.linked:  # no links possible: the next one needs a copy
            held = retain(sighting, self._held_in, copy=True) or held
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
            held=held.noted(self._follower.folder),
            problems=[*lost, *outcome.sentences(), *(f.note for f in outcome.failures)],
            **self._files(sighting),
        )
        self._loose += 1
        self._keep(at, content, held)
        return event

    def _before(
        self, at: Checkpoint, last: _Last | None, source: Source
    ) -> tuple[Checkpoint | None, list[str]]:
        """Return the previous checkpoint if it is unchanged since it was measured; otherwise the reason."""
        if last is None or last.checkpoint.step > at.step:
            return None, []
        before = last.checkpoint
        if last.held is not None and last.held.path.exists():
            self._series.add(before, source, Entry(before, opened(last.held.path), place=str(last.held.path)))
            if last.held.is_whole() or self._holds(before, last.content):
                return before, []
        self._series.drop(before)
        why = "its files were changed or removed before they could be kept"
        return None, [f"not compared with step {before.step:,}: {why}"]

    def _holds(self, at: Checkpoint, content: str) -> bool:
        """Return whether files with other stamps (as after `touch`) hold the same weights."""
        try:
            return self._series.whole_hash(at) == content
        except (InputError, OSError):
            return False

    def _turn(self, at: Checkpoint) -> Turn:
        turn = take_turn(
            self._series.sizes(at), self._budget.bytes_per_step, self._state.turn.get(at.run, "")
        )
        self._state.turn[at.run] = turn.start
        return turn

    def _keep(self, at: Checkpoint, content: str, held: Retained) -> None:
        """Keep the newest checkpoint of a segment for the next one, and release the one before it."""
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
            other = self._state.last[run]  # a segment that the run has left gets no more checkpoints
            self._series.drop(other.checkpoint)
            if other.held is not None:
                other.held.release()
                other.held = None
        self._state.last[at.run] = _Last(at, content, held)

    def _copy_losses(self, *, started: bool = True) -> list[Event]:
        """Copy new rows of the logs; with `started=False`, of new runs only."""
        events = []
        unreadable: dict[str, str] = {}
        for name, source in self._follower.sources.items():
            past = self._state.segments.of(name)
            if len(past) and not started:
                continue  # a rollback is detected when its checkpoint is taken in
            segment = past.newest if len(past) else name
            try:
                history = source.metrics()
            except (InputError, OSError) as error:
                unreadable[name] = _line(error)  # or being written
                continue
            log = self._loss_file
            source_log = "" if log is not None else source.log()
            if log is not None:
                history = log.joined(history, name)
            elif source_log and name not in self._logs:
                self._logs.add(name)
                events.append(self.journal.append("log", name, sentence=f"losses from {source_log}"))
            rows = source.rows() if log is None else log.rows(name)
            replaced = source.replaced() if log is None else log.replaced(name)
            events += self._restarts.take(name, segment, rows, replaced)
            beside = source.companions() if log is None else rows
            self._companions.copy(beside, segment, after=self._state.starts.get(segment, -1))
            span = self._losses.copy(history, segment, after=self._state.starts.get(segment, -1))
            if span is not None:
                events.append(self.journal.append("metrics", segment, first=span[0], last=span[1]))
            if log is not None or source_log:
                self._plans.copy(segment, partial(log.planned, name) if log is not None else source.facts)
        if started:
            self._unseen.losses = unreadable
        return events

    def _compact(self) -> None:
        """Join the store's parts from time to time; the cost does not grow with the run."""
        if self._loose >= _LOOSE:
            self.store.compact(_PACKED)
            self._loose = 0

    def _replay(self, event: Event) -> None:
        """Restore the state from the journal of an earlier process."""
        data = event.data
        if event.kind == "log":
            self._logs.add(event.run)
        if event.kind not in ("measured", "skipped", "waiting", "vanished") or event.step is None:
            return
        uri = self._follower.uri_of(data.get("uri", "."))
        checkpoint = Checkpoint(data.get("of", event.run), event.step, uri=uri)
        if event.kind in ("waiting", "vanished"):
            self._follower.expect(checkpoint, gone=event.kind == "vanished")
            return
        if not data.keys() >= (_MEASURED if event.kind == "measured" else {"files"}):
            return  # what a Monitor measured has no files
        files = as_stamps(data["files"])
        self._follower.restore(checkpoint, files)
        if event.kind == "skipped" and data.get("fault"):
            self._unseen.faulty[checkpoint.uri] = str(data["why"])
        else:
            self._unseen.faulty.pop(checkpoint.uri, None)
        if event.kind == "skipped":
            return
        past = self._state.segments.of(checkpoint.run)
        past.add(event.run, event.step, content=data["content"], written=data["written"])
        self._state.starts[event.run] = data["after"]
        self._state.turn[event.run] = data["turn"]
        at = dataclasses.replace(checkpoint, run=event.run, tokens=data["tokens"])
        last = self._state.last.get(event.run)
        if last is not None and last.checkpoint.step > event.step:
            return
        held = Retained.of(data["held"], self._held_in, self._follower.folder)
        self._state.last[event.run] = _Last(at, data["content"], held)

    def _files(self, sighting: Sighting) -> dict[str, object]:
        return {"uri": self._follower.name_of(sighting.checkpoint.uri), "files": sighting.files}

    def _drop_links(self) -> None:
        """Remove links that a killed process left, except for the latest checkpoint of each segment."""
        in_use = {
            last_taken.held.path.parent
            for last_taken in self._state.last.values()
            if last_taken.held is not None
        }
        for place in self._held_in.glob("*"):
            if place not in in_use:
                remove(self._held_in, place.name)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _base(run: str) -> str:
    return re.sub(r"~\d+$", "", run)
