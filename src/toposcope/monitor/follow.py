"""Find the checkpoints of a folder that another program is writing, each once it is complete.

Saving is not over when the first file appears, nor when a tracker file moves. A checkpoint counts as complete
when all of this holds:

1. its tracker file has reached its step; one with a file per rank waits `patience` seconds for a tracker to
   appear, since those trainers write one;
2. it has as many files of every kind as all earlier complete checkpoints of its run have, or nothing has come
   for `patience` seconds;
3. names, sizes and times of its files have been the same for `rest` seconds;
4. its reader opens it: index and shards, archive directory and header agree with the sizes, and the files of
   a distributed checkpoint reach as far as its `.metadata` says.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from toposcope.errors import InputError
from toposcope.sources.blobs import Folder, open_location
from toposcope.sources.discover import Entry, Source, discover
from toposcope.sources.distributed import METADATA, DistributedReader
from toposcope.types import Checkpoint

TRACKERS = ("latest_checkpointed_iteration.txt", "latest", "latest.txt")
"""Files beside checkpoints that name the last one saved: of Megatron-LM, DeepSpeed or GPT-NeoX, nanotron."""

RANKED = ("mp_rank_#", "layer_#-model_#", "checkpoint_metadata.json")
"""How files begin whose trainers (Megatron-LM, DeepSpeed, GPT-NeoX, nanotron) move a tracker when all are."""

_LAST_NUMBER = re.compile(r"(\d+)\D*$")
_NUMBERS = re.compile(r"\d+")
_DEPTH = 16
"""Folders inside one another that are looked into: nanotron has one for every part of a name."""

Stamp = tuple[str, int, int, int]
"""Name, size, modification time in nanoseconds and inode of one file."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One checkpoint on the disk: who it is, and its files as they were seen."""

    checkpoint: Checkpoint
    files: tuple[Stamp, ...]

    @property
    def path(self) -> Path:
        """The checkpoint's file or folder."""
        return Path(self.checkpoint.uri)

    @property
    def bytes(self) -> int:
        """The size of its files together."""
        return sum(size for _, size, _, _ in self.files)

    @property
    def written(self) -> int:
        """When its newest file was last changed, in nanoseconds."""
        return max((at for _, _, at, _ in self.files), default=0)


@dataclass(slots=True)
class FolderLook:
    """What one look at the folder found: complete checkpoints by run and step, and what is waited for."""

    ready: list[Sighting] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    """Checkpoint -> why it does not count as complete yet."""
    complete: set[str] = field(default_factory=set)
    """Every checkpoint that is there and complete, reported now or before."""
    vanished: list[Checkpoint] = field(default_factory=list)
    """Checkpoints that were there at an earlier look, were never complete, and are gone."""


class Follower:
    """Looks at a folder again and again; every complete checkpoint is reported once per version of its files.

    Parameters
    ----------
    folder
        Anything that `toposcope.open_series` opens, on this machine; it may be empty or absent at first.
    rest
        Seconds for which the files must not change.
    patience
        Seconds after which a checkpoint at rest counts although kinds of files that others have are missing.
    clock
        Seconds from any start, never going back.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rest: float = 5.0,
        patience: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if rest < 0 or patience < rest:
            raise InputError(f"rest is {rest} and patience {patience} s; give 0 <= rest <= patience")
        self.folder = folder
        self._rest, self._patience, self._clock = rest, patience, clock
        self._since: dict[str, tuple[tuple[Stamp, ...], float]] = {}
        self._reported: dict[str, tuple[Stamp, ...]] = {}
        self._taken: dict[str, int] = {}
        self._open: dict[str, Checkpoint] = {}
        self._kinds: dict[str, Counter[str]] = {}
        self.sources: dict[str, Source] = {}
        """The runs of the latest look, by name."""

    def restore(self, checkpoint: Checkpoint, files: tuple[Stamp, ...]) -> None:
        """Take a checkpoint as reported, with the files that it had then: after a restart."""
        self._report(checkpoint, files, FolderLook())

    def look(self) -> FolderLook:
        """List the folder once and return what is new."""
        found = FolderLook()
        present: dict[str, Checkpoint] = {}
        for entry in self._entries():
            checkpoint = entry.checkpoint
            present[checkpoint.uri] = checkpoint
            files = stamps(Path(checkpoint.uri))
            if files == self._reported.get(checkpoint.uri):
                found.complete.add(checkpoint.uri)
                continue
            why = self._why_not(entry, files)
            if why is None:
                self._report(checkpoint, files, found)
                found.complete.add(checkpoint.uri)
            else:
                self._open[checkpoint.uri] = checkpoint
                found.waiting[checkpoint.uri] = why
        for uri in [uri for uri in self._open if uri not in present]:
            gone = self._open.pop(uri)
            if self._taken.get(uri) != gone.step:  # rotation deletes what was measured file by file
                found.vanished.append(gone)
            self._since.pop(uri, None)
        for uri in self._reported.keys() - present.keys() if present else ():
            self._taken.pop(uri, None)
            del self._reported[uri]  # what a trainer has rotated away is no longer known
        # By step: what lies there at one moment is one series, whatever order a copy wrote it in.
        found.ready.sort(key=lambda sighting: (sighting.checkpoint.run, sighting.checkpoint.step))
        return found

    def _entries(self) -> list[Entry]:
        try:
            sources = discover(open_location(str(self.folder)))
        except (InputError, OSError):
            return []  # nothing there yet, or nothing that can be told apart yet
        self.sources = {source.run.run: source for source in sources}
        return [entry for source in sources for entry in source.entries]

    def _report(self, checkpoint: Checkpoint, files: tuple[Stamp, ...], found: FolderLook) -> None:
        self._reported[checkpoint.uri] = files
        self._taken[checkpoint.uri] = checkpoint.step
        self._open.pop(checkpoint.uri, None)
        self._since.pop(checkpoint.uri, None)
        kinds = kinds_of(files)
        self._kinds[checkpoint.run] = self._kinds.get(checkpoint.run, kinds) & kinds
        found.ready.append(Sighting(checkpoint, files))

    def _why_not(self, entry: Entry, files: tuple[Stamp, ...]) -> str | None:
        """Return why a checkpoint is not complete; None when it is."""
        uri, now = entry.checkpoint.uri, self._clock()
        known, since = self._since.get(uri, (None, now))
        if known != files:
            self._since[uri] = (files, now)
            since = now
        tracked = tracker_step(Path(uri).parent)
        if tracked is not None and tracked < entry.checkpoint.step:
            return f"the tracker says step {tracked}"
        if now - since < self._rest:
            return f"changed less than {self._rest:g} s ago"
        kinds = kinds_of(files)
        missing = self._kinds.get(entry.checkpoint.run, Counter()) - kinds
        if now - since < self._patience:
            if missing:
                return f"lacks {min(missing)}, which earlier checkpoints have"
            if tracked is None and any(kind.startswith(RANKED) for kind in kinds):
                return "no tracker file says that it is whole"
        try:
            entry.open().infos()
            return short_of(Path(uri), files)
        except (InputError, OSError) as error:
            return str(error)


def short_of(path: Path, files: tuple[Stamp, ...]) -> str | None:
    """Return which file of a distributed checkpoint has not all its bytes yet; None for other formats."""
    sizes = {name: size for name, size, _, _ in files}
    for inner in (Path(name).parent for name in sizes if Path(name).name == METADATA):
        location = open_location(str(path / inner))
        if not isinstance(location, Folder):
            continue
        for name, least in DistributedReader(location).extents().items():
            size = sizes.get((inner / name).as_posix(), 0)
            if size < least:
                return f"{name} has {size} of {least} bytes"
    return None


def stamps(path: Path) -> tuple[Stamp, ...]:
    """Return the stamps of a file, or of all files under a folder, by name; what is gone is left out."""
    if not path.is_dir():
        return tuple(_stamp(path, path.name))
    found: list[Stamp] = []
    for folder, folders, files in os.walk(path):
        depth = len(Path(folder).relative_to(path).parts)
        folders[:] = sorted(folders) if depth < _DEPTH else []
        for name in sorted(files):
            full = Path(folder) / name
            found += _stamp(full, full.relative_to(path).as_posix())
    return tuple(found)


def _stamp(path: Path, name: str) -> list[Stamp]:
    try:
        status = path.stat()
    except OSError:
        return []
    return [(name, status.st_size, status.st_mtime_ns, status.st_ino)]


def kinds_of(files: tuple[Stamp, ...]) -> Counter[str]:
    """Count the names of the files with every number as `#`, so that it does not matter which step or rank.

    >>> kinds_of((("rng_state_0.pth", 1, 0, 0), ("model.safetensors", 1, 0, 0), ("rng_state_1.pth", 1, 0, 0)))
    Counter({'rng_state_#.pth': 2, 'model.safetensors': 1})
    """
    return Counter(_NUMBERS.sub("#", name) for name, _, _, _ in files)


def tracker_step(folder: Path) -> int | None:
    """Return the step that a tracker file in `folder` names; None without one, or where it names none."""
    for name in TRACKERS:
        try:
            text = (folder / name).read_text(encoding="utf-8")[:200].strip()
        except (OSError, UnicodeDecodeError):
            continue
        number = _LAST_NUMBER.search(text)
        if number is not None:
            return int(number.group(1))
    return None
