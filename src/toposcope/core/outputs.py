"""Where results are written: a new place, a plain file or a folder, never through a link or a pipe."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toposcope.core.errors import InputError


def checked_output(path: Path) -> Path:
    """Return the place of results that a reader named: a file, a folder, a link to a folder, or nothing yet.

    Raises
    ------
    InputError
        When it is a link to something else or to nothing, a pipe, a device or a socket.
    """
    if not os.path.lexists(path) or os.path.isdir(path):
        return path
    return for_writing(path)


def for_writing(path: str | Path) -> Path:
    """Return the path of a file that is to be written: there is none yet, or a plain one.

    Raises
    ------
    InputError
        When it is a link, a pipe, a device or a socket: writing would change another file, or wait for ever.
    """
    path = Path(path)
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        what = "this is not a regular file"
        if path.is_symlink():
            there = os.path.exists(path)
            what = "this is a link, which is not followed" if there else "this is a link to nothing"
        raise InputError(what, argument="out", value=path, remedy="remove it, or choose another place")
    return path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a place beside a file to write to; it takes the file's name then, or is removed if that failed.

    So the file is there whole or as it was before, and another name of the former one (a hard link) keeps it.
    """
    path = for_writing(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield aside
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
