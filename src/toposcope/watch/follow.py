"""Finds the checkpoints in a folder that another program writes, each as soon as it is complete.

A checkpoint is not yet complete when its first file appears, or when a tracker file changes. It counts as
complete if all of these hold:

1. its tracker file has reached its step; one with a file per rank waits `lag` seconds for a tracker to
   appear, since those trainers write one;
2. it has as many files of every kind as all earlier complete checkpoints of its run, or nothing has arrived
   for `patience` seconds, `lag` for files of ranks;
3. names, sizes and times of its files have not changed for `rest` seconds, and its name does not mark a file
   that is being written;
4. its reader opens it: index and shards, archive directory and header agree with the sizes, and the files of
   a distributed checkpoint are as long as its `.metadata` says.

The follower waits for an incomplete checkpoint. Once its files are old, the checkpoint is *stuck*: it is
reported by name as a problem, and still measured if it is completed later. Every omitted file is reported.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint
from toposcope.files.blobs import open_location
from toposcope.files.labels import step_of, step_of_file
from toposcope.sources.discover import Entry, Source, Unread, discover
from toposcope.sources.unseen import UnseenWeights
from toposcope.watch.files import (
    Stamp,
    changed_at,
    is_unfinished,
    kinds_of,
    short_of,
    stamps,
    tracker_step,
    weights_alone,
)

__all__ = ["LAG", "FolderVisit", "Follower", "Sighting", "kinds_of", "stamps", "tracker_step"]

RANKED = ("mp_rank_#", "layer_#-model_#", "checkpoint_metadata.json")
"""How file names begin if the trainer writes a tracker file last (Megatron-LM, DeepSpeed, nanotron)."""

LAG = 600.0
"""How many seconds a rank may lag behind the others; after this time an incomplete checkpoint is stuck.

torch.distributed gives up on a rank of a group by NCCL after so long."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One checkpoint on the disk: its identity, and the stamps of its files."""

    checkpoint: Checkpoint
    files: tuple[Stamp, ...]

    @property
    def path(self) -> Path:
        """The checkpoint's file or folder."""
        return Path(self.checkpoint.uri)

    @property
    def bytes(self) -> int:
        """The total size of its files."""
        return sum(size for _, size, _, _ in self.files)

    @property
    def written(self) -> int:
        """When its newest file was last changed, in nanoseconds."""
        return max((at for _, _, at, _ in self.files), default=0)


@dataclass(slots=True)
class FolderVisit:
    """The result of one visit of the folder: complete checkpoints by run and step, and incomplete ones."""

    ready: list[Sighting] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    """Checkpoint -> why it is not complete yet."""
    complete: set[str] = field(default_factory=set)
    """Every complete checkpoint in the folder, reported now or before."""
    vanished: list[Checkpoint] = field(default_factory=list)
    """Checkpoints seen at an earlier visit that are gone without ever being complete."""
    stuck: set[str] = field(default_factory=set)
    """The checkpoints in `waiting` whose files are old."""
    resting: set[str] = field(default_factory=set)
    """The checkpoints in `waiting` whose files changed within the last `rest` seconds."""
    unread: list[Unread] = field(default_factory=list)
    """Files and folders that cannot be read, and why."""
    settling: bool = False
    """Whether some files changed recently, so that one more visit after `rest` seconds will find more."""


class Follower:
    """Scans a folder repeatedly; every complete checkpoint is reported once per version of its files.

    Parameters
    ----------
    folder
        Anything local that `toposcope.open_series` opens; it may be empty or absent at first.
    rest
        How many seconds the files must stay unchanged.
    patience
        Seconds after which an unchanged checkpoint counts although it lacks kinds of files that others have.
    lag
        The same for files of ranks; also the age of its files at which an incomplete checkpoint is stuck.
    clock
        Seconds from any start, never going back.
    now
        Seconds since 1970; the age of files is computed from it.
    logs
        Whether runs without losses of their own take those of the training logs beside them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rest: float = 5.0,
        patience: float = 60.0,
        lag: float = LAG,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        logs: bool = True,
    ) -> None:
        if rest < 0 or patience < rest:
            raise InputError(
                f"it must be at least 0, and at most the patience ({patience:g} s)",
                argument="rest",
                value=rest,
            )
        self.folder = folder
        self._rest, self._patience, self._lag = rest, patience, max(lag, rest)
        self._clock, self._now = clock, now
        self._logs = logs
        self._since: dict[str, tuple[tuple[Stamp, ...], float]] = {}
        self._reported: dict[str, Sighting] = {}
        self._open: dict[str, Checkpoint] = {}
        self._odd: dict[Unread, float] = {}
        self._kinds: dict[str, Counter[str]] = {}
        self.sources: dict[str, Source] = {}
        """The runs of the latest visit, by name."""
        self.copies: tuple[Source, ...] = ()
        """The weights of the latest visit beside checkpoints whose names state no step."""

    def name_of(self, uri: str) -> str:
        """Return a place in the folder as its path from there: a journal outlives the shell's folder."""
        return os.path.relpath(uri, self.folder)

    def uri_of(self, name: str) -> str:
        """Return the place that `name_of` named."""
        return os.path.normpath(self.folder / name)

    def restore(self, checkpoint: Checkpoint, files: tuple[Stamp, ...]) -> None:
        """Mark a checkpoint as reported, with the files that it had then; used after a restart."""
        self._report(checkpoint, files, FolderVisit())
        self.expect(checkpoint, gone=True)

    def expect(self, checkpoint: Checkpoint, *, gone: bool = False) -> None:
        """Mark a checkpoint as waited for, or no longer, under any name; used after a restart."""
        at = (checkpoint.run, checkpoint.step)
        self._open = {
            uri: sighting for uri, sighting in self._open.items() if (sighting.run, sighting.step) != at
        }
        if not gone:
            self._open[checkpoint.uri] = checkpoint

    @property
    def awaited(self) -> Mapping[str, Checkpoint]:
        """The awaited checkpoints, by place."""
        return self._open

    def visit(self) -> FolderVisit:
        """List the folder once; return new checkpoints, incomplete ones, and what cannot be read."""
        seen = FolderVisit()
        present: dict[str, Checkpoint] = {}
        for entry in self._entries(seen):
            checkpoint = entry.checkpoint
            present[checkpoint.uri] = checkpoint
            files = _files(checkpoint)
            reported = self._reported.get(checkpoint.uri)
            if reported is not None and files == reported.files:
                seen.complete.add(checkpoint.uri)
                continue
            why = self._why_not(entry, files, seen)
            if why is None:
                self._report(checkpoint, files, seen)
                seen.complete.add(checkpoint.uri)
            else:
                self._open[checkpoint.uri] = checkpoint
                seen.waiting[checkpoint.uri] = why
                if checkpoint.uri not in seen.resting and self._is_stuck(checkpoint, files):
                    seen.stuck.add(checkpoint.uri)
        self._let_go(present, seen)
        # By step: the files present at one moment are one series, in whatever order they were copied.
        seen.ready.sort(key=lambda sighting: (sighting.checkpoint.run, sighting.checkpoint.step))
        return seen

    def rested_copies(self) -> dict[Sighting, Source]:
        """Return the weights without a step beside checkpoints that no one writes now."""
        seen = {
            Sighting(
                rested_copy.entries[0].checkpoint, _files(rested_copy.entries[0].checkpoint)
            ): rested_copy
            for rested_copy in self.copies
        }
        return {
            at: rested_copy
            for at, rested_copy in seen.items()
            if self._now() - at.written / 1e9 >= self._rest
        }

    def _let_go(self, present: dict[str, Checkpoint], visit: FolderVisit) -> None:
        """Forget vanished files; a checkpoint that was never complete is lost, unless it was renamed."""
        here = {(at.run, at.step) for at in present.values()}
        for uri, at in [(uri, at) for uri, at in self._open.items() if uri not in present]:
            if os.path.lexists(uri):
                continue  # its folder cannot be read, which is reported
            del self._open[uri]
            left, _ = self._since.pop(uri, ((), 0.0))
            # rotation deletes measured checkpoints file by file
            before = self._reported.get(uri)
            rotated = before and (before.checkpoint.step == at.step or set(left) <= set(before.files))
            if not rotated and (at.run, at.step) not in here and self.folder.exists():
                visit.vanished.append(at)
        for uri in self._reported.keys() - present.keys() if present else ():
            if not os.path.lexists(uri):
                del self._reported[uri]  # forget what a trainer has deleted by rotation

    def _entries(self, visit: FolderVisit) -> list[Entry]:
        unread: list[Unread] = []
        try:
            beside = UnseenWeights()
            sources = discover(open_location(str(self.folder)), unread, logs=self._logs, beside=beside)
            self.copies = tuple(beside.copies)
        except (InputError, OSError) as error:
            sources = []  # nothing there yet, or nothing that can be identified yet
            if not unread and self.folder.exists() and _holds_something(self.folder):
                unread = [Unread(str(self.folder), str(error))]
        self._tell_odd(unread, visit)
        if sources:
            self.sources = {source.run.run: source for source in sources}
        return [entry for source in sources for entry in source.entries]

    def _tell_odd(self, unread: list[Unread], visit: FolderVisit) -> None:
        """Report unreadable files only after `rest` seconds: they may still be arriving."""
        now = self._clock()
        self._odd = {unread_file: self._odd.get(unread_file, now) for unread_file in unread}
        visit.unread = [unread_file for unread_file, since in self._odd.items() if now - since >= self._rest]
        visit.settling |= len(visit.unread) < len(self._odd)

    def _report(self, checkpoint: Checkpoint, files: tuple[Stamp, ...], visit: FolderVisit) -> None:
        self._reported[checkpoint.uri] = sighting = Sighting(checkpoint, files)
        self._open.pop(checkpoint.uri, None)
        self._since.pop(checkpoint.uri, None)
        kinds = kinds_of(files)
        self._kinds[checkpoint.run] = self._kinds.get(checkpoint.run, kinds) & kinds
        visit.ready.append(sighting)

    def _why_not(self, entry: Entry, files: tuple[Stamp, ...], visit: FolderVisit) -> str | None:
        """Return why a checkpoint is not complete; None when it is."""
        uri, now = entry.checkpoint.uri, self._clock()
        before, since = self._since.get(uri, (None, now))
        if before != files:
            self._since[uri] = (files, now)
            since = now
        if is_unfinished(Path(uri).name):
            return "its name says that it is being written"
        if uri in self._reported and set(files) < set(self._reported[uri].files):
            return "it is being removed"
        tracked = tracker_step(Path(uri).parent)
        if tracked is not None and tracked < entry.checkpoint.step:
            return f"the tracker says step {tracked:,}"
        if now - since < self._rest:
            visit.settling = True
            visit.resting.add(uri)
            return f"changed less than {self._rest:g} s ago"
        quiet = max(now - since, self._now() - changed_at(Path(uri), files))
        kinds = kinds_of(files)
        missing = self._kinds.get(entry.checkpoint.run, Counter()) - kinds
        ranked = any(kind.startswith(RANKED) for kind in kinds)
        if missing and quiet < (self._lag if ranked else self._patience):
            return f"lacks {min(missing)}, which earlier checkpoints have"
        if tracked is None and ranked and quiet < self._lag:
            return "no tracker file says that it is complete"
        try:
            entry.open().infos()
            return short_of(Path(uri), files)
        except (InputError, OSError) as error:
            return " ".join(str(error).split())

    def _is_stuck(self, checkpoint: Checkpoint, files: tuple[Stamp, ...]) -> bool:
        """Return whether an incomplete checkpoint is old; a folder without checkpoint files is not."""
        kinds_before, uri = self._kinds.get(checkpoint.run), Path(checkpoint.uri)
        if files and kinds_before and not kinds_before & kinds_of(files):
            return False
        written = max((at for _, _, at, _ in files), default=0) / 1e9 or changed_at(uri, files)
        return self._now() - written >= self._lag


def _files(checkpoint: Checkpoint) -> tuple[Stamp, ...]:
    """Return the stamps of a checkpoint's files; for a folder that names no step, those of its weights."""
    path = Path(checkpoint.uri)
    stamps_found = stamps(path)
    stated = step_of(path.name) if path.is_dir() else step_of_file(path.stem)
    return stamps_found if stated is not None or not path.is_dir() else weights_alone(stamps_found)


def _holds_something(folder: Path) -> bool:
    """Return whether a folder holds anything but hidden files."""
    try:
        return any(not name.startswith(".") for name in os.listdir(folder))
    except OSError:
        return True
