"""The hub's local cache of one model: `models--ORG--NAME` with refs, snapshots and blobs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.files.blobs import Blob, Folder, LocalFolder
from toposcope.files.formats.registry import LINK_TEXT, config_of
from toposcope.files.labels import step_of, tokens_of
from toposcope.logs.metrics import empty
from toposcope.sources.entries import Entry, Source, base_name, is_checkpoint, open_folder, with_shared_names

_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST_LINK = 200
"""Bytes of the text of a link to a blob: ../../blobs/ and a hash of 64 digits, with room for a subfolder."""


def is_cache(folder: Folder) -> bool:
    """Return whether a folder is the cache of one model."""
    return isinstance(folder, LocalFolder) and {"refs", "snapshots"} <= set(folder.folders())


def revisions_of(folder: Folder) -> dict[str, Folder]:
    """Return the cached revisions by name: the snapshots that `refs` name, or by hash if it names none.

    Raises
    ------
    SourceError
        When no snapshot is there.
    """
    snapshots = folder.sub("snapshots")
    there = set(snapshots.folders())
    named = {name: commit for name, commit in _refs(folder.sub("refs"), "").items() if commit in there}
    if not there:
        raise SourceError(f"{snapshots.label}: has no snapshot; fetch the model again")
    commits = named or {commit: commit for commit in sorted(there)}
    blobs = folder.sub("blobs") if "blobs" in folder.folders() else None
    return {name: CachedRevision(snapshots.sub(commit), blobs) for name, commit in commits.items()}


def _refs(folder: Folder, front: str) -> dict[str, str]:
    """Return the commit of each name; names such as pr/1 are folders."""
    texts = {}
    for name in folder.files():
        blob = folder.open(name)
        text = blob.read(0, min(blob.size, _LONGEST_LINK)).tobytes().decode("ascii", "replace").strip()
        if _COMMIT.fullmatch(text):
            texts[front + name] = text
    for name in folder.folders():
        texts |= _refs(folder.sub(name), f"{front}{name}/")
    return texts


def revision_at(snapshots: Path, commit: str) -> tuple[str, Folder] | None:
    """Return one snapshot of a cache by its commit, with the name that `refs` give it; None if it is none."""
    cache = LocalFolder(snapshots.parent)
    if snapshots.name != "snapshots" or not is_cache(cache):
        return None
    names = [name for name, at in _refs(cache.sub("refs"), "").items() if at == commit]
    blobs = cache.sub("blobs") if "blobs" in cache.folders() else None
    return (names or [commit])[0], CachedRevision(cache.sub("snapshots").sub(commit), blobs)


def file_at(path: Path) -> Path:
    """Return the blob that a file of a cached revision leads to by the text of a link; else the file."""
    if "snapshots" not in path.parts:
        return path
    try:
        text = path.read_bytes() if 0 < path.stat().st_size <= _LONGEST_LINK else b""
    except OSError:  # whoever reads it says so
        return path
    target = path.parent / text.decode().strip() if LINK_TEXT.match(text) else path
    return target if target.is_file() else path


class _Named:
    """A blob under the name of the file that leads to it."""

    def __init__(self, blob: Blob, label: str) -> None:
        self.label, self.size, self.stamp = label, blob.size, blob.stamp
        self._blob = blob

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes `start` to `stop`."""
        return self._blob.read(start, stop)


class CachedRevision:
    """The folder of a revision; a file that holds the text of a link is the blob that it leads to.

    Git and zip write links as text on systems without them.
    """

    def __init__(self, inner: Folder, blobs: Folder | None) -> None:
        self.label = inner.label
        self._inner, self._blobs = inner, blobs

    def files(self) -> list[str]:
        """Return the names of the files in the folder itself, sorted."""
        return self._inner.files()

    def folders(self) -> list[str]:
        """Return the names of the folders in the folder itself, sorted."""
        return self._inner.folders()

    def open(self, name: str) -> Blob:
        """Open a file of the folder by its relative name."""
        blob = self._inner.open(name)
        if self._blobs is None or not 0 < blob.size <= _LONGEST_LINK:
            return blob
        text = blob.read(0, blob.size).tobytes()
        if not LINK_TEXT.match(text):
            return blob
        return _Named(self._blobs.open(text.decode().strip().rsplit("/", 1)[-1]), blob.label)

    def sub(self, name: str) -> CachedRevision:
        """Return the folder of that name."""
        return CachedRevision(self._inner.sub(name), self._blobs)


def run_of_cache(folder: Folder) -> str:
    """Return the name of the model of a cache."""
    return base_name(folder.label).rsplit("--", 1)[-1]


def whole_of_cache(folder: Folder) -> Folder | None:
    """Return the only revision of a cache if it has folders and is no checkpoint itself; else None."""
    revisions = list(revisions_of(folder).values())
    if len({place.label for place in revisions}) != 1 or not revisions[0].folders():
        return None
    return None if is_checkpoint(revisions[0]) else revisions[0]


def source_of_cache(folder: Folder) -> Source:
    """Return the run of a model in the hub's local cache: a checkpoint for each revision.

    Without a revision whose name states a step, these are all; otherwise only those that do.
    """
    revisions, run = revisions_of(folder), run_of_cache(folder)
    stated = {name: place for name, place in revisions.items() if step_of(name) is not None}
    entries = []
    for name, place in (stated or dict(list(revisions.items())[:1])).items():
        at = Checkpoint(run, step_of(name) or 0, tokens_of(name), place.label, name)
        entries.append(Entry(at, lambda place=place: open_folder(place)))  # type: ignore[misc]
    entries.sort(key=lambda entry: (entry.checkpoint.step, entry.checkpoint.uri))
    last = next(iter((stated or revisions).values()))
    return Source(
        RunRecord(run, uri=folder.label), tuple(with_shared_names(entries)), empty,
        config_of(last),
    )  # fmt: skip
