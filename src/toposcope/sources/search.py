"""How far a search for runs goes: as deep as the folders do, up to a bound that it tells of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder, LocalFolder
from toposcope.files.formats.ranks import open_rank_files, rank_of
from toposcope.sources.entries import Source, Unread, base_name, rename

FREE_DEPTH = 3
"""Folders down to this depth are always searched. Deeper ones are counted, and runs in them have to state
steps."""
MOST_FOLDERS = 20_000
"""The largest number of deeper folders that is searched: a wrong path must not cause a crawl through the
disk. Listing so many takes about a second on a local one."""
MOST_REMOTE = 300
"""The same for an address: each listing is a request of about .1 s."""
DEEPEST = 64
"""No folder deeper than this is searched; a search that calls itself goes no deeper than Python's stack."""


def may_hold_runs(name: str) -> bool:
    """Return whether a folder of this name is searched: those of programs begin with a dot or a line."""
    return not name.startswith((".", "_"))


@dataclass(slots=True)
class Search:
    """A search for runs: what it could not read, the folders it is in, and the number of deep ones."""

    unread: list[Unread]
    _deep: int = 0
    _inside: list[str] = field(default_factory=list)

    @contextmanager
    def entered(self, folder: Folder, depth: int) -> Iterator[None]:
        """Search a folder at a depth in the block.

        Raises
        ------
        SourceError
            When it is a link to a folder that holds it, or when the search ends here.
        """
        self._check_depth(folder, depth)
        real = os.path.realpath(folder.path) if isinstance(folder, LocalFolder) else ""
        above = self._inside[-1] if self._inside else real
        if real and (real in self._inside or os.path.commonpath([real, above]) == real != above):
            raise SourceError(f"{folder.label}: is a link to a folder that contains the link; remove it")
        self._inside.append(real)
        try:
            yield
        finally:
            self._inside.pop()

    def _check_depth(self, folder: Folder, depth: int) -> None:
        most = MOST_FOLDERS if isinstance(folder, LocalFolder) else MOST_REMOTE
        if depth > DEEPEST:
            raise SourceError(
                f"{folder.label}: was not searched: it is {depth} folders deep; give a folder inside it"
            )
        if depth <= FREE_DEPTH:
            return
        self._deep += 1
        if self._deep == most + 1:
            raise SourceError(
                f"{folder.label}: this and others were not searched, because more than {most:,} folders "
                f"are more than {FREE_DEPTH} deep; give a folder that holds fewer"
            )
        if self._deep > most:
            raise ExhaustedError(folder.label)


class ExhaustedError(SourceError):
    """The search has ended before; it was told where."""


def each_once(found: list[Source]) -> list[Source]:
    """Return each run once; if links lead to a run as well, its own path names it."""
    places: dict[str, Source] = {}
    for source in found:
        uri = source.run.uri
        real = uri if "://" in uri else os.path.realpath(uri)
        earlier = places.get(real)
        if earlier is None or _links(uri) < _links(earlier.run.uri):
            places[real] = source
    return list(places.values())


def _links(uri: str) -> int:
    """Return how many parts of a path are links."""
    path, count = uri, 0
    while "://" not in uri and os.path.dirname(path) != path:
        count += os.path.islink(path)
        path = os.path.dirname(path)
    return count


def with_unique_names(found: list[Source], folder: Folder) -> list[Source]:
    """Return the runs; where two have one name, each is named by its path below the folder."""
    names = [source.run.run for source in found]
    if len(set(names)) == len(names):
        return found
    root = folder.label.rstrip("/") + "/"
    return [
        rename(source, source.run.uri.removeprefix(root).rstrip("/") or source.run.run) for source in found
    ]


def refuse_ranks(found: Sequence[Source]) -> None:
    """Refuse the folders of a checkpoint's ranks, rank_0, rank_1, ..., that each have a part of its tensors.

    Raises
    ------
    ForeignFormatError
        When they are all there from 0 on, with one checkpoint each.
    """
    ranks: dict[int, Source] = {}
    for source in found:
        name, number = rank_of(base_name(source.run.uri)) or ("none", -1)
        if name or len(source.entries) != 1 or "://" in source.run.uri:
            return
        ranks[number] = source
    if len(ranks) > 1 and set(ranks) == set(range(len(ranks))):
        ordered = [ranks[number] for number in range(len(ranks))]
        open_rank_files(ordered[0].run.uri, [source.entries[0].open() for source in ordered])
