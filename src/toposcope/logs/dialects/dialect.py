"""A dialect of logs: how it is recognised, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from toposcope.files.blobs import Blob, Folder
from toposcope.logs.records import Record
from toposcope.logs.run import Run

_LOOKED_AT = 4096
"""Only these first characters decide the dialect, so a hostile line takes no longer than a real one."""

EVENTS = "tfevents"
"""A part of the names of TensorBoard's event files."""
OWN_EVENTS = ".toposcope"
"""How the names of the event files end that a watch or a check has sent: they are not read back."""
WANDB, SWANLAB, SQLITE = b":W&B", b":SWL", b"SQLite format 3\0"
"""The first bytes of an offline run of W&B, of a run of SwanLab, and of a SQLite database."""


def is_event_file(name: str) -> bool:
    """Return whether a file is one of TensorBoard's event files, and not one that toposcope has sent.

    >>> is_event_file("events.out.tfevents.1.vm"), is_event_file("events.out.tfevents.1.vm.toposcope")
    (True, False)
    """
    return EVENTS in name.lower() and not name.endswith(OWN_EVENTS)


class Mark(Protocol):
    """What says whether a line belongs to a dialect, such as a compiled regular expression."""

    def search(self, string: str, /) -> object:
        """Return something that is true if the line belongs to the dialect."""


@dataclass(frozen=True, slots=True)
class TextDialect:
    """Numbers among the lines that a trainer prints.

    A line belongs to the dialect if it contains one of the `needles` and matches `mark`; `records` reads all
    lines, most of which contain no record. `finish` completes the run that its records make: it finds the
    step of records that name none. A `general` dialect reads the lines of many trainers, so it counts only
    where hardly any line belongs to another.
    """

    name: str
    needles: tuple[str, ...]
    mark: Mark
    records: Callable[[Iterable[str]], Iterator[Record]]
    finish: Callable[[Run], Run] = lambda run: run
    general: bool = False

    def speaks(self, line: str) -> bool:
        """Return whether a line belongs to the dialect, by its first characters."""
        return any(needle in line for needle in self.needles) and bool(self.mark.search(line[:_LOOKED_AT]))


@dataclass(frozen=True, slots=True)
class FileDialect:
    """A file that is recognised by its lower-case name or its first bytes.

    With `endings`, a file without one of them that cannot be read is tried as the next dialect.
    """

    name: str
    matches: Callable[[str, bytes], bool]
    read: Callable[[Blob], Sequence[Run]]
    endings: tuple[str, ...] = ("",)

    def is_named(self, name: str) -> bool:
        """Return whether a lower-case name is one of this dialect's."""
        return name.removesuffix(".gz").endswith(self.endings)


@dataclass(frozen=True, slots=True)
class FolderDialect:
    """A folder that a logger writes."""

    name: str
    matches: Callable[[Folder], bool]
    read: Callable[[Folder], Sequence[Run]]


def by_places(run: Run) -> Run:
    """Return a run of a text with the step of each record, from the places that its lines name."""
    from toposcope.logs.places import placed

    return placed(run)
