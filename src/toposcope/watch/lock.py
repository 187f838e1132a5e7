"""One sidecar per store: a lock that the system releases however the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.store.inside import refuse_linked
from toposcope.watch.journal import FOLDER


@contextlib.contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock that allows a store a single sidecar; the system releases it however the process ends.

    Raises
    ------
    InputError
        When another watch writes to this store.
    """
    folder = store / FOLDER
    refuse_linked(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            f"{store}: another watch writes to it; end that one, or choose another {option('out')}"
        ) from None
    try:
        yield
    finally:
        os.close(handle)
