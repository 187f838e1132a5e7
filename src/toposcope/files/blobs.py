"""Byte ranges from local files or through fsspec; never outside the opened folder."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Protocol, runtime_checkable

import numpy as np

from toposcope.core.errors import SourceError

MAX_SMALL_FILE = 256 * 2**20
"""Largest file (JSON, index, log) that is read into memory as a whole."""

OUTSIDE = "outside the folder that was opened"
"""What the error of a link to a place elsewhere says of it."""


class Blob(Protocol):
    """A file whose bytes are read by range."""

    label: str
    size: int
    stamp: str
    """Changes when the file changes (size and modification time, or the server's own tag)."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes `start` to `stop` as a fresh uint8 array."""
        ...


@runtime_checkable
class Folder(Protocol):
    """A folder of blobs and folders."""

    label: str

    def files(self) -> list[str]:
        """Return the names of the files in the folder itself, sorted."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the folders in the folder itself, sorted."""
        ...

    def open(self, name: str) -> Blob:
        """Open a file of the folder by its relative name."""
        ...

    def sub(self, name: str) -> Folder:
        """Return the folder of that name."""
        ...


def check_range(blob: Blob, start: int, stop: int) -> None:
    """Refuse a range that does not lie inside the blob."""
    if not 0 <= start <= stop <= blob.size:
        raise SourceError(
            f"{blob.label}: bytes {start:,} to {stop:,} are needed, but the file has {blob.size:,}: "
            "it is truncated or damaged; fetch it again"
        )


def readable(name: str) -> str:
    r"""Return a printable name: bytes that are not UTF-8 become a backslash and a number.

    >>> readable("step_1"), readable("step_\udcff")
    ('step_1', 'step_\\xff')
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape" if _escapes(name) else "replace").decode(
            "utf-8", "backslashreplace"
        )
    return name


def _escapes(name: str) -> bool:
    """Return whether the parts of a name that are not UTF-8 are bytes of a file name."""
    return all(0xDC80 <= ord(letter) <= 0xDCFF for letter in name if 0xD800 <= ord(letter) <= 0xDFFF)


def check_name(label: str, name: str) -> str:
    """Return `name` if it is a plain relative path inside its folder; else refuse it."""
    path = PurePosixPath(name)
    if readable(name) != name:
        raise SourceError(f"{label}/{readable(name)}: the file name is not UTF-8; rename it")
    drive = os.name == "nt" and bool(PureWindowsPath(name).drive)  # elsewhere `C:` and `a:b` are names
    bad = not name or "\\" in name or "\0" in name or drive
    if bad or path.is_absolute() or ".." in path.parts:
        raise SourceError(
            f"{label}: {name!r} points outside the folder and is not read; use names relative to the folder"
        )
    return name


class LocalBlob:
    """A local file, read by `pread`: if it shrinks meanwhile, that is an error, never a crash."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.label = str(path)
        try:
            status = path.stat()
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror}); check the path") from error
        if not path.is_file():
            raise SourceError(f"{path}: is not a regular file and is not read; give a file")
        self.size = status.st_size
        self.stamp = _stamp(status)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes `start` to `stop` as a fresh uint8 array."""
        check_range(self, start, stop)
        try:
            out = np.empty(stop - start, dtype=np.uint8)
        except MemoryError as error:
            raise SourceError(
                f"{self.label}: {stop - start:,} bytes of it are needed at once, more than the memory has; "
                "use a machine with more"
            ) from error
        view = out.data
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise SourceError(f"{self.label}: cannot be read ({error.strerror}); check the path") from error
        try:
            if _stamp(os.fstat(descriptor)) != self.stamp:
                raise SourceError(
                    f"{self.label}: changed while it was read; wait until it is written completely, then "
                    "repeat"
                )
            done = 0
            while done < len(view):
                count = os.preadv(descriptor, [view[done:]], start + done)
                if count == 0:
                    raise SourceError(
                        f"{self.label}: became shorter while it was read; wait until it is written "
                        "completely, then repeat"
                    )
                done += count
        finally:
            os.close(descriptor)
        return out


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


class LocalFolder:
    """A local folder; symbolic links may not lead out of the folder that was opened.

    The one exception is the hub's own cache, whose snapshots are links to its `blobs` folder.
    """

    def __init__(self, path: Path, roots: tuple[Path, ...] | None = None) -> None:
        self.path = path
        self.label = str(path)
        self._roots = roots or _roots(path)

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be listed ({error.strerror}); check the path") from error

    def files(self) -> list[str]:
        """Return the names of the files in the folder itself, sorted."""
        return [
            entry.name
            for entry in self._entries()
            if passes(entry.is_file) or (entry.is_symlink() and not passes(entry.is_dir))
        ]

    def folders(self) -> list[str]:
        """Return the names of the folders in the folder itself, sorted."""
        return [entry.name for entry in self._entries() if passes(entry.is_dir)]

    def lost(self, *, links: bool = True) -> dict[str, str]:
        """Return the entries that are neither files nor folders, and why; by default only `links`."""
        lost_files = {}
        for entry in self._entries():
            if passes(entry.is_file) or passes(entry.is_dir) or (links and not entry.is_symlink()):
                continue
            where = f"{self.label}/{readable(entry.name)}"
            what = (
                ("is a link that leads to no file or folder")
                if entry.is_symlink()
                else "is not a regular file"
            )
            lost_files[readable(entry.name)] = f"{where}: {what}; remove it, or restore its target"
        return lost_files

    def _inside(self, name: str) -> Path:
        path = self.path / check_name(self.label, name)
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(root) for root in self._roots):
            raise SourceError(
                f"{path}: is a link to {real}, {OUTSIDE}; "
                "copy the target into the folder, or open the target alone"
            )
        return path

    def open(self, name: str) -> LocalBlob:
        """Open a file of the folder by its relative name."""
        return LocalBlob(self._inside(name))

    def sub(self, name: str) -> LocalFolder:
        """Return the folder of that name."""
        return LocalFolder(self._inside(name), self._roots)


def passes(test: Callable[[], bool]) -> bool:
    """Return whether an entry of a folder passes a test; a circular link passes none."""
    try:
        return test()
    except OSError:
        return False


def _roots(path: Path) -> tuple[Path, ...]:
    real = Path(os.path.realpath(path))
    if real.parent.name == "snapshots" and (real.parent.parent / "blobs").is_dir():
        return (real, Path(os.path.realpath(real.parent.parent / "blobs")))
    return (real,)


def has_file(folder: Folder, name: str) -> bool:
    """Return whether a folder has a file of that name.

    Raises
    ------
    SourceError
        When something else has the name: a pipe, a device, a socket or a folder.
    """
    if name in folder.files():
        return True
    if isinstance(folder, LocalFolder) and os.path.lexists(folder.path / name):
        raise SourceError(f"{folder.label}/{name}: is not a regular file and is not read; remove it")
    return False


class RemoteBlob:
    """A file behind an fsspec file system, read by range."""

    def __init__(self, fs: Any, path: str, label: str) -> None:
        self.label = label
        self._fs, self._path = fs, path
        info = _remote(label, fs.info, path)
        if info.get("type") == "directory" or info.get("size") is None:
            raise SourceError(f"{label}: is a folder or does not state its size; name a file")
        self.size = int(info["size"])
        tag = info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("created") or ""
        self.stamp = f"{self.size}:{tag}"

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes `start` to `stop` as a fresh uint8 array."""
        check_range(self, start, stop)
        if start == stop:
            return np.empty(0, dtype=np.uint8)
        data = _remote(self.label, self._fs.cat_file, self._path, start=start, end=stop)
        if len(data) == self.size != stop - start:  # a server that ignores ranges sends the whole file
            data = data[start:stop]
        if len(data) != stop - start:
            raise SourceError(
                f"{self.label}: {len(data):,} of {stop - start:,} bytes were received; try again"
            )
        return np.frombuffer(data, dtype=np.uint8)


class RemoteFolder:
    """A folder behind an fsspec file system."""

    def __init__(self, fs: Any, path: str, label: str) -> None:
        self._fs, self._path, self.label = fs, path.rstrip("/"), label.rstrip("/")
        self._listing: dict[str, list[str]] | None = None

    def _list(self, kind: str) -> list[str]:
        if self._listing is None:
            self._listing = {"file": [], "directory": []}
            for entry in _remote(self.label, self._fs.ls, self._path, detail=True):
                name = str(entry["name"]).rstrip("/").rsplit("/", 1)[-1].split("?")[0]
                inside = str(entry["name"]).rstrip("/").startswith(self._path + "/")
                if name and inside and entry["type"] in self._listing:
                    is_folder = str(entry["name"]).endswith("/")
                    self._listing["directory" if is_folder else entry["type"]].append(name)
        return sorted(set(self._listing[kind]))

    def files(self) -> list[str]:
        """Return the names of the files in the folder itself, sorted."""
        return self._list("file")

    def folders(self) -> list[str]:
        """Return the names of the folders in the folder itself, sorted."""
        return self._list("directory")

    def open(self, name: str) -> RemoteBlob:
        """Open a file of the folder by its relative name."""
        check_name(self.label, name)
        return RemoteBlob(self._fs, f"{self._path}/{name}", f"{self.label}/{name}")

    def sub(self, name: str) -> RemoteFolder:
        """Return the folder of that name."""
        check_name(self.label, name)
        return RemoteFolder(self._fs, f"{self._path}/{name}", f"{self.label}/{name}")


def _remote(label: str, call: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return call(*arguments, **options)
    except ImportError as error:
        raise SourceError(f"{label}: {error}; install that package to read this address") from error
    except FileNotFoundError as error:
        raise SourceError(f"{label}: does not exist; check the address") from error
    except Exception as error:  # every file system raises its own exceptions
        text = " ".join(str(error).split())[:200]
        raise SourceError(f"{label}: cannot be read ({type(error).__name__}: {text}); try again") from error


def open_location(uri: str) -> Folder | Blob:
    """Open a path or an fsspec address as a folder or as a file."""
    if "://" not in uri:
        if readable(uri) != uri:
            raise SourceError(f"{readable(uri)}: the name is not UTF-8; rename it")
        path = Path(uri).expanduser()
        if not path.exists():
            raise SourceError(f"{uri}: no such file or folder; check the path")
        return LocalFolder(path) if path.is_dir() else LocalBlob(path)
    if uri.startswith("file://"):
        return open_location(uri.removeprefix("file://"))
    import fsspec

    fs, path = _remote(uri, fsspec.core.url_to_fs, uri)
    if uri.endswith("/") or _remote(uri, fs.isdir, path):
        return RemoteFolder(fs, path, uri)
    return RemoteBlob(fs, path, uri)


def read_text(blob: Blob) -> str:
    """Read a small text file whole."""
    if blob.size > MAX_SMALL_FILE:
        raise SourceError(
            f"{blob.label}: {blob.size:,} bytes is too large for a text file; check that it is the right file"
        )
    try:
        return blob.read(0, blob.size).tobytes().decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise SourceError(f"{blob.label}: is not UTF-8 text (byte {error.start}); fetch it again") from error


class BlobStream(io.RawIOBase):
    """A blob as a seekable binary stream, for readers that want one."""

    def __init__(self, blob: Blob) -> None:
        self._blob, self._at = blob, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blob.size}[whence]
        if base + offset < 0:
            raise OSError(f"{self._blob.label}: seek before the start")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` from the position; return how many bytes came."""
        start = min(self._at, self._blob.size)
        stop = min(start + len(buffer), self._blob.size)
        buffer[: stop - start] = self._blob.read(start, stop).tobytes()
        self._at = stop
        return stop - start


def stream(blob: Blob) -> io.BufferedReader:
    """Open a blob as a buffered binary stream."""
    return io.BufferedReader(BlobStream(blob), buffer_size=1 << 16)
