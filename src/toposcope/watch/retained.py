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

from toposcope.watch.files import Stamp, stamps
from toposcope.watch.follow import Sighting

_FICLONE = 0x40049409
"""Linux ioctl: two files share their bytes until one of them changes (btrfs, xfs)."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A kept checkpoint: where to read it, and the stamps of its files when it was kept.

    `linked` says whether the place holds our links or copy; otherwise it is the trainer's own.
    """

    path: Path
    linked: bool
    files: tuple[Stamp, ...] = ()

    def is_whole(self) -> bool:
        """Return whether the files are still the ones that were kept."""
        return _named(stamps(self.path), self.files) == self.files

    def release(self) -> None:
        """Remove the links or the copy; the trainer's files stay."""
        if not self.linked:
            return
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)
        parent = self.path.parent
        with contextlib.suppress(OSError):  # it holds something else, or is gone
            parent.rmdir()

    def noted(self) -> dict[str, Any]:
        """Return its record for the journal."""
        return {"path": str(self.path), "own": self.linked, "files": self.files}

    @classmethod
    def of(cls, noted: Mapping[str, Any] | str | None, files: tuple[Stamp, ...]) -> Retained | None:
        """Return what a journal recorded; older ones record links by path, with the trainer's `files`."""
        if isinstance(noted, str):
            return cls(Path(noted), linked=True, files=files)
        if noted is None:
            return None
        return cls(Path(noted["path"]), bool(noted["own"]), as_stamps(noted["files"]))


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
    shutil.rmtree(place.parent, ignore_errors=True)  # left by an interrupted start
    try:
        for name, *_ in sighting.files:
            target = place / name if source.is_dir() else place
            target.parent.mkdir(parents=True, exist_ok=True)
            taking(source / name if source.is_dir() else source, target)
    except FileNotFoundError:
        shutil.rmtree(place.parent, ignore_errors=True)
        return None
    except OSError:
        shutil.rmtree(place.parent, ignore_errors=True)
        own = Retained(source, linked=False, files=sighting.files)
        return own if own.is_whole() else None
    held = _named(stamps(place), sighting.files)
    seen = _named(stamps(source), sighting.files) if copy else held
    if seen == sighting.files:
        return Retained(place, linked=True, files=held)
    shutil.rmtree(place.parent, ignore_errors=True)
    return None


def _named(found: tuple[Stamp, ...], wanted: tuple[Stamp, ...]) -> tuple[Stamp, ...]:
    """Return the stamps of the `wanted` files; other files do not count."""
    names = {name for name, *_ in wanted}
    return tuple(one for one in found if one[0] in names)


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
