"""Keep BLAS to one thread if a product is too small to be worth waking the others.

After a product, BLAS threads keep spinning for a while; on a busy machine, this costs the following work ten
times as long as the product took.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

SMALL_PRODUCT = 2e9
"""Below this many floating-point operations, one thread is used."""

_lock = threading.Lock()
_active: list[object] = []
_limiter: list[object] = []


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Limit BLAS to one thread inside the block, if `wanted`; blocks may nest and overlap between threads."""
    if not wanted:
        yield
        return
    token = object()
    with _lock:
        if not _active:  # the first block saves the setting, the last one restores it
            _limiter.append(_controller().limit(limits=1, user_api="blas"))
        _active.append(token)
    try:
        yield
    finally:
        with _lock:
            _active.remove(token)
            if not _active:
                _limiter.pop().restore_original_limits()  # type: ignore[attr-defined]
