"""Doing the tasks on a Ray cluster whose machines share the store's folder."""

from __future__ import annotations

import logging
import re
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from toposcope.errors import InputError, MissingExtraError
from toposcope.sweep.local import capped_threads, lost
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Job, Outcome, Worker

_RETRIES = 3
_KNOCK_SECONDS = 10.0
_worker: tuple[str, Worker] | None = None


def on_ray(address: str, job: Job, tasks: Sequence[Task], tell: Callable[[Outcome], None]) -> None:
    """Do the tasks on the Ray cluster at `address`.

    Ray repeats a task whose worker or machine died, up to three times elsewhere; what it cannot save is
    reported as failed.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    _knock(address)
    with capped_threads(1):
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _unreachable(address, error) from None
        try:
            _drive(ray, job, tasks, tell)
        finally:
            ray.shutdown()


def _knock(address: str) -> None:
    """Try the port first: Ray itself waits for minutes where nobody answers."""
    match = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d+)", address)
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=_KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> InputError:
    return InputError(
        f"--ray {address}: no cluster answers there ({error}); start one with: ray start --head"
    )


def _drive(ray: Any, job: Job, tasks: Sequence[Task], tell: Callable[[Outcome], None]) -> None:
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_do)
    sent = ray.put(job)
    at_once = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    left = deque(tasks)
    running: dict[Any, Task] = {}
    while left or running:
        while left and len(running) < at_once:
            task = left.popleft()
            running[remote.remote(str(job.store), sent, task)] = task
        done, _ = ray.wait(list(running), num_returns=1)
        for reference in done:
            task = running.pop(reference)
            try:
                tell(ray.get(reference))
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            except ray.exceptions.RayError:
                tell(lost(job, task, "or its machine was lost three times over"))


def _do(store: str, job: Job, task: Task) -> Outcome:
    """Do one task on the cluster; a process keeps its worker, and with it the open run."""
    global _worker
    if _worker is None or _worker[0] != store:
        _worker = (store, Worker(job))
    return _worker[1].do(task)
