"""A list of the files written into a table's folder, so that a missing or altered file is noticed.

Every process appends lines to a file of its own in `.ledger/TABLE`, so that no two processes write to the
same file. Before a file appears, a line records the checksum of its footer (pages have checksums of their
own, inside the file). Afterwards, a line records that the file exists, and which files it replaces. A process
that is killed in between leaves no wrong line. A file without lines was not written here: readers name it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toposcope.store import inside

FOLDER = ".ledger"
_MOST = 32
"""If a folder has more files of lines than this, those of ended processes are joined."""
_ENDED = 3600.0
"""A process counts as ended after this many seconds without a line."""
_FOOTER_END = 8
"""A parquet file ends with its footer, the footer's length (4 bytes) and a magic number (4 bytes)."""

_own: dict[Path, tuple[int, str]] = {}
_read: dict[Path, Ledger] = {}


@dataclass
class Ledger:
    """The lines of one folder; each update reads only the new lines."""

    folder: Path
    footers: dict[str, set[int]] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    """Files that were written."""
    replaced: set[str] = field(default_factory=set)
    """Files of which a pack contains a write."""
    damaged: int = 0
    """Lines that cannot be read although they end: a kill leaves none."""
    _offsets: dict[str, int] = field(default_factory=dict)
    _checked: dict[Path, tuple[int, int, int]] = field(default_factory=dict)

    def look(self) -> Ledger:
        """Read new lines."""
        try:
            names = sorted(os.listdir(place_of(self.folder)))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        inside.refuse_linked(place_of(self.folder))
        if self._offsets.keys() - set(names):  # joined with others, or another store took the place
            for part in (self.footers, self.there, self.replaced, self._offsets, self._checked):
                part.clear()
            self.damaged = 0
        for name in names:
            offset = self._offsets.get(name, 0)
            try:
                content = inside.after(place_of(self.folder) / name, offset)
            except FileNotFoundError:  # joined with others this moment
                continue
            whole = content[: content.rfind(b"\n") + 1]
            self._offsets[name] = offset + len(whole)
            self.damaged += sum(not self._took(line) for line in whole.split(b"\n") if line)
        return self

    def _took(self, line: bytes) -> bool:
        try:
            entry = json.loads(line)
            name = str(entry["name"])
            if os.path.basename(name) != name:
                raise ValueError("a part lies in its table's folder")
            if "footer" in entry:
                self.footers.setdefault(name, set()).add(int(entry["footer"]))
            if "written" in entry:
                int(entry["written"])
                self.there.add(name)
            self.replaced.update(entry.get("replaces", {}).keys())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        return True

    def is_sound(self, path: Path) -> bool:
        """Return whether a file has a recorded footer; True if nothing is known about the file."""
        inside.refuse_linked(path.parent)
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise inside.not_plain(path)
        if path.name not in self.footers:
            return True
        identity = status.st_ino, status.st_size, status.st_mtime_ns
        if self._checked.get(path) == identity:
            return True
        footer = footer_of(path)
        sound = footer in self.footers[path.name] or footer in self.look().footers[path.name]
        if sound:
            self._checked[path] = identity
        return sound


def place_of(folder: Path) -> Path:
    """Return where the lines about a table's folder are."""
    return folder.parent / FOLDER / folder.name


def of(folder: Path) -> Ledger:
    """Return the ledger of a folder, up to date."""
    if folder not in _read:
        while len(_read) >= 64:
            _read.pop(next(iter(_read)))
        _read[folder] = Ledger(folder)
    return _read[folder].look()


def footer_of(path: Path) -> int:
    """Return the checksum of a parquet file's footer; -1 if it has none."""
    with open(inside.opened(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < _FOOTER_END:
            return -1
        file.seek(-_FOOTER_END, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        if length > size - _FOOTER_END:
            return -1
        file.seek(-_FOOTER_END - length, os.SEEK_END)
        return zlib.crc32(file.read())


def note(folder: Path, name: str, **said: Any) -> None:
    """Append a line about a file: `footer`, or `written` and `replaces`."""
    path = _path(folder)
    line = json.dumps({"name": name, **said}, separators=(",", ":")).encode() + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        if os.write(handle, line) < len(line):
            _own.pop(folder, None)  # the next line begins another file
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(handle)


def _path(folder: Path) -> Path:
    """Return this process's file of lines; the first call joins many files of ended processes."""
    pid, name = _own.get(folder, (0, ""))
    place = place_of(folder)
    if pid != os.getpid() or not (place / name).is_file():  # another store may have taken the place
        place.mkdir(parents=True, exist_ok=True)
        name = f"{uuid.uuid4().hex}.jsonl"
        _own[folder] = (os.getpid(), name)
        _join(place)
    return place / name


def _join(place: Path) -> None:
    old = [path for path in place.iterdir() if _idle(path) > _ENDED]
    if len(old) <= _MOST:
        return
    joined = place / f".{uuid.uuid4().hex}"
    joined.write_bytes(b"".join(inside.whole(path).rpartition(b"\n")[0] + b"\n" for path in sorted(old)))
    os.replace(joined, place / f"{uuid.uuid4().hex}.jsonl")
    for path in old:
        path.unlink(missing_ok=True)


def _idle(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def said_of(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return the line that is written once a file exists."""
    written = metadata.get("write_number")
    return {
        "written": written if isinstance(written, int) else time.time_ns(),
        "replaces": metadata.get("replaces", {}),
    }
