"""Keeps a checkpoint until the next one, although the trainer may delete or overwrite it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toposcope.sources.cache import file_at
from toposcope.watch.files import Stamp, stamps
from toposcope.watch.follow import Sighting

_FICLONE = 0x40049409
"""Linux ioctl: two files share their bytes until one of them changes (btrfs, xfs)."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A kept checkpoint: where to read it, and the stamps of its files when it was kept.

    `folder` is the folder of a store in which our links or copy lie; None says that the place is the
    trainer's own.
    """

    path: Path
    folder: Path | None
    files: tuple[Stamp, ...] = ()

    @property
    def linked(self) -> bool:
        """Whether the place holds our links or copy."""
        return self.folder is not None

    def is_whole(self) -> bool:
        """Return whether the files are still the ones that were kept."""
        return _named(stamps(self.path), self.files) == self.files

    def release(self) -> None:
        """Remove the links or the copy; the trainer's files stay."""
        if self.folder is not None:
            remove(self.folder, self.path.parent.name)

    def noted(self, watched: Path) -> dict[str, Any]:
        """Return its record for the journal: a place in the store's folder, or in the `watched` one."""
        start = self.folder or watched
        return {"at": os.path.relpath(self.path, start), "own": self.linked, "files": self.files}

    @classmethod
    def of(cls, noted: Mapping[str, Any] | None, folder: Path, watched: Path) -> Retained | None:
        """Return what a journal recorded, unless it lies outside the folder where it belongs.

        A journal is data, perhaps somebody else's: it cannot name anything else to read or to remove.
        """
        if noted is None:
            return None
        files = as_stamps(noted["files"])
        if not noted.get("own"):
            path = watched / noted["at"]
            return cls(path, None, files) if path.resolve().is_relative_to(watched.resolve()) else None
        parts = Path(noted["at"]).parts
        path = folder.joinpath(*parts)
        two = len(parts) == 2 and path.parent.parent == folder and ".." not in parts
        return cls(path, folder, files) if two and not _holds_links(path) else None


def _holds_links(path: Path) -> bool:
    """Return whether a kept checkpoint, its folder or anything in it is a symbolic link: we make none."""
    inner = (Path(at) / name for at, folders, files in os.walk(path) for name in (*folders, *files))
    return any(folder.is_symlink() for folder in (path.parent, path, *inner))


def remove(folder: Path, name: str) -> None:
    """Remove one entry of a store's folder of kept checkpoints; a link is removed, never followed."""
    place = folder / name
    if folder.is_symlink() or folder.parent.is_symlink() or place.parent != folder or name in ("", ".."):
        return
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        place.unlink()


def as_stamps(files: Sequence[Sequence[Any]]) -> tuple[Stamp, ...]:
    """Return the stamps that a line of JSON holds."""
    return tuple((str(a), int(b), int(c), int(d)) for a, b, c, d in files)


def retain(sighting: Sighting, folder: Path, *, copy: bool = False) -> Retained | None:
    """Link every file of a checkpoint under `folder/NAME-WRITTEN/NAME` and return it.

    With `copy` the files are copied: a link does not protect against a trainer that overwrites files in
    place. If this fails (another file system, no permission, a full disk), the trainer's own files are read,
    and may disappear. Returns None if the files have changed or disappeared since they were seen.
    """
    source = sighting.path
    place = folder / f"{source.name}-{sighting.written}" / source.name
    taking = _copy if copy else _link
    remove(folder, place.parent.name)  # left by an interrupted start
    try:
        for name, *_ in sighting.files:
            target = place / name if source.is_dir() else place
            target.parent.mkdir(parents=True, exist_ok=True)
            taking(file_at(source / name if source.is_dir() else source), target)
    except FileNotFoundError:
        remove(folder, place.parent.name)
        return None
    except OSError:
        remove(folder, place.parent.name)
        retained = Retained(source, None, sighting.files)
        return retained if retained.is_whole() else None
    held = _named(stamps(place), sighting.files)
    seen = _named(stamps(source), sighting.files) if copy else held
    if seen == sighting.files:
        return Retained(place, folder, held)
    remove(folder, place.parent.name)
    return None


def _named(own_stamps: tuple[Stamp, ...], wanted: tuple[Stamp, ...]) -> tuple[Stamp, ...]:
    """Return the stamps of the `wanted` files; other files do not count."""
    names = {name for name, *_ in wanted}
    return tuple(stamp for stamp in own_stamps if stamp[0] in names)


def _link(source: Path, target: Path) -> None:
    os.link(source, target)


def _copy(source: Path, target: Path) -> None:
    """Copy a file; share its bytes if the file system supports it."""
    with open(source, "rb") as old, open(target, "wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            return
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
        shutil.copyfileobj(old, new, 1 << 20)
