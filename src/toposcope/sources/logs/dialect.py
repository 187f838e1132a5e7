"""A dialect of logs: how it is recognised, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from toposcope.sources.blobs import Blob, Folder
from toposcope.sources.logs.collect import RawRun, Record

_LOOKED_AT = 4096
"""The first characters decide the dialect, so that a hostile line takes no more time than a real one."""


@dataclass(frozen=True, slots=True)
class TextDialect:
    """Numbers among the lines that a trainer prints.

    A line that has one of the `needles` and in which `mark` is found is the dialect's own; `records` reads
    all lines, of which most say nothing.
    """

    name: str
    needles: tuple[str, ...]
    mark: re.Pattern[str]
    records: Callable[[Iterable[str]], Iterator[Record]]

    def speaks(self, line: str) -> bool:
        """Say whether a line is the dialect's own, by its first characters."""
        return any(needle in line for needle in self.needles) and bool(self.mark.search(line[:_LOOKED_AT]))


@dataclass(frozen=True, slots=True)
class FileDialect:
    """A file that is recognised by its name (in small letters) or its first bytes."""

    name: str
    matches: Callable[[str, bytes], bool]
    read: Callable[[Blob], Sequence[RawRun]]


@dataclass(frozen=True, slots=True)
class FolderDialect:
    """A folder that a logger writes."""

    name: str
    matches: Callable[[Folder], bool]
    read: Callable[[Folder], Sequence[RawRun]]
