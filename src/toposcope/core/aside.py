"""A folder that is written beside its place, and what killed writers left there."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: what killed writers left there stays
    fcntl = None  # type: ignore[assignment]

OLD = ".old"
"""The suffix of the folder that a writer has moved away, beside its own."""


@contextlib.contextmanager
def beside(out: Path) -> Iterator[Path]:
    """Yield a new place beside `out` for a folder to be filled and renamed; what is left of it goes.

    While it is written its lock is held, which the system releases however the process ends. What killed
    writers left is removed first, and a folder that one of them had moved away comes back.
    """
    _remove_leftovers(out)
    aside = out.parent / f".{out.name}.{uuid.uuid4().hex[:8]}.partial"
    lock = _locked(aside)
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        aside.with_suffix(".lock").unlink(missing_ok=True)
        os.close(lock)


def _locked(aside: Path) -> int:
    handle = os.open(aside.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _remove_leftovers(out: Path) -> None:
    """Remove what killed writers of `out` left; one that still runs has its lock."""
    for lock in out.parent.glob(f".{glob.escape(out.name)}.*.lock") if fcntl is not None else ():
        try:
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old = lock.with_suffix(OLD)
            if old.is_dir() and not old.is_symlink() and not out.exists():
                os.replace(old, out)
            for left in (lock.with_suffix(".partial"), old):
                shutil.rmtree(left, ignore_errors=True)
            lock.unlink(missing_ok=True)
        except OSError:
            pass  # another process writes there now
        finally:
            os.close(handle)
