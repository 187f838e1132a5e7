"""A few threads over blocks of rows, for kernels that release the interpreter lock.

Plain threads rather than numba's parallel loops: they may be entered from several threads at once,
survive a fork, and cost nothing where the work is small enough to stay serial.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from numba import get_num_threads

A = TypeVar("A")
B = TypeVar("B")

_pools: dict[int, ThreadPoolExecutor] = {}
_here = threading.local()
if hasattr(os, "register_at_fork"):  # a child inherits the pool but not its threads
    os.register_at_fork(after_in_child=_pools.clear)


def thread_count() -> int:
    """Return how many threads kernels use: numba's setting (NUMBA_NUM_THREADS), within the allowed cores."""
    return min(get_num_threads(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 64)


@contextmanager
def steady_threads(count: int | None = None) -> Iterator[None]:
    """Let torch use `count` threads, or as many as kernels do, whatever ran in this process before.

    Another library that starts its threads may also set torch's number, and the last digits of sums of floats
    depend on it.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(thread_count() if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> None:
    """Let this process compute in one thread from now on: BLAS, kernels, and the parquet reader.

    Each thread of the reader would also keep the memory that it once used, as long as the process lives.
    """
    import numba
    import pyarrow as pa
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    threadpool_limits(limits=1)  # last: it affects only existing pools


def worker_pool() -> ThreadPoolExecutor:
    """Return the pool of threads that kernels share."""
    threads = thread_count()
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, "toposcope", initializer=_mark_worker)
    return _pools[threads]


def _mark_worker() -> None:
    _here.is_worker = True


def run_blocks(work: Callable[[A], B], blocks: Iterable[A], *, serial: bool = False) -> list[B]:
    """Return [work(block) for block in blocks], in threads unless `serial` or already in one of them."""
    todo = list(blocks)
    if serial or len(todo) <= 1 or thread_count() == 1 or getattr(_here, "is_worker", False):
        return [work(block) for block in todo]
    return list(worker_pool().map(work, todo))


def row_blocks(n_rows: int, *, per_thread: int = 4, serial: bool = False) -> list[tuple[int, int]]:
    """Split `n_rows` rows into even (start, stop) blocks, several per thread."""
    count = 1 if serial else max(1, min(n_rows, per_thread * thread_count()))
    edges = np.linspace(0, n_rows, count + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))
