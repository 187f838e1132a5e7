"""Kernels: compiled at their first call and kept on the disk, by one process at a time.

numba keeps what it compiled, but processes that start together on an empty cache each compile everything.
Here the first takes a lock, and the others wait for it and load its result.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # Windows, where each process compiles for itself
    fcntl = None  # type: ignore[assignment]

NOTE = "compiling, once for each installation"
_WORTH_SAYING = 1.0
"""Seconds of compiling after which it is said: single kernels take less."""
_LONGEST_WAIT = 60.0
"""Seconds to wait for another process: the slowest kernel takes five, and a stopped process never lets go."""
_PAUSE = 0.05
"""Seconds between two tries for the lock."""


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function of a file for numba, without the interpreter lock; keep the result on the disk."""
    if function is None:
        return lambda given: kernel(given, **options)
    options["no_cfunc_wrapper"] = True  # nothing calls a kernel from C
    dispatcher = njit(cache=True, nogil=True, **options)(function)
    if hasattr(dispatcher, "_cache"):  # absent where NUMBA_DISABLE_JIT leaves plain Python
        turn = _Turn(dispatcher)
        dispatcher.compile, dispatcher._cache = turn.compile, turn
    return dispatcher


def inner_kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that only kernels call: without a wrapper for Python."""
    if function is None:
        return lambda given: inner_kernel(given, **options)
    return kernel(function, no_cpython_wrapper=True, **options)


class _Turn:
    """A dispatcher's cache and `compile`; what is not in the cache is compiled under the lock."""

    def __init__(self, dispatcher: Any) -> None:
        self._compile, self._cache = dispatcher.compile, dispatcher._cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def compile(self, signature: Any) -> Any:
        """Load or compile one signature, and release what lock it took."""
        with global_compiler_lock:  # another thread must not see the lock of this one as its own
            outermost = not _lock.held
            try:
                with _without_collection():
                    return self._compile(signature)
            finally:
                if outermost:
                    _lock.release()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return what is on the disk; without it, the lock is held, and nobody else has compiled it."""
        held = self._cache.load_overload(signature, context)
        if held is None and _lock.acquire():
            held = self._cache.load_overload(signature, context)
            if held is None:
                _lock.say()
        return held


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Keep the garbage collector from walking through numba's many objects, a seventh of compiling."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Lock:
    """One lock for each installation and cache; numba's own lock keeps out other threads of this process."""

    def __init__(self) -> None:
        self.held = False
        self._file: int | None = None
        self._since = 0.0
        self._spent = 0.0
        self._said = False

    def acquire(self) -> bool:
        """Wait for the lock; return whether it was not held by this process before."""
        if self.held:
            return False
        self.held = True
        self._file = _opened()
        if self._file is not None:
            _wait_for(self._file)
        self._since = time.monotonic()
        return True

    def release(self) -> None:
        """Let others compile."""
        if not self.held:
            return
        self.held = False
        self._spent += time.monotonic() - self._since
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None

    def say(self) -> None:
        """Say once that the time is spent compiling."""
        if self._spent > _WORTH_SAYING and not self._said:
            self._said = True
            print(NOTE, file=sys.stderr, flush=True)


_lock = _Lock()


def _opened() -> int | None:
    """Open the lock's file, which lies beside temporary files; None where there is none."""
    if fcntl is None:
        return None
    place = f"{Path(__file__).resolve()} {getattr(numba.config, 'CACHE_DIR', '')}"
    name = f"toposcope-{os.getuid()}-{hashlib.sha256(place.encode()).hexdigest()[:16]}.lock"
    try:
        path = os.path.join(tempfile.gettempdir(), name)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _wait_for(file: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < until:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:  # a file system without locks
            return
        else:
            return
