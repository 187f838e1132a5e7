"""The one way to open a file of a store: a plain file inside it, of a bounded size; no link is followed.

A store may come from somebody else. A link in it could name any file of its reader, and a device or a pipe
of a file's name could fill the memory or never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from toposcope.core.errors import StoreError

MOST_TEXT = 1 << 30
"""The most bytes of a journal, a ledger or a manifest; a journal line takes about 1 kB of them."""


def whole(path: Path, *, most: int = MOST_TEXT) -> bytes:
    """Return the bytes of one file of a store.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    StoreError
        When it is no plain file of at most `most` bytes.
    """
    return after(path, 0, most=most)


def after(path: Path, offset: int, *, most: int = MOST_TEXT) -> bytes:
    """Return the bytes of one file of a store from `offset` on; errors are those of `whole`."""
    with open(opened(path, most=most), "rb") as file:
        file.seek(offset)
        return file.read(most)


def opened(path: Path, *, most: int | None = None) -> int:
    """Return a descriptor for reading a plain file, which the caller closes; errors are those of `whole`."""
    try:
        # Without O_NONBLOCK a pipe that nobody writes to would block for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise not_plain(path) from None
        raise
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and (most is None or status.st_size <= most):
        return handle
    os.close(handle)
    if not stat.S_ISREG(status.st_mode):
        raise not_plain(path)
    raise StoreError(f"{path}: has {status.st_size:,} bytes, too many for what it is; fetch the store again")


def not_plain(path: Path) -> StoreError:
    """Return the error for a link, a folder, a pipe or a device in the place of a store's file."""
    return StoreError(f"{path}: is no plain file; a store holds no links, pipes or devices: fetch it again")


def is_plain(path: Path) -> bool:
    """Return whether a plain file is there, without following a link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def refuse_linked(folder: Path) -> None:
    """Refuse a folder of a store that is a link: what is written there would land outside the store.

    Raises
    ------
    StoreError
        When it is a link, or something other than a folder.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise StoreError(
            f"{folder}: is no folder of its own; a store holds no links: fetch it again, or write a new store"
        )
