"""Runs the tasks on a Ray cluster whose machines share the store's folder."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from toposcope.core.errors import BrokenOffError, InputError, MissingExtraError
from toposcope.core.processes import LostProcessError, Message, spread
from toposcope.core.wording import are_typed, typed_options
from toposcope.sweep.local import Tell, capped_threads, lost
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Job, Outcome, Worker

# How often Ray starts a task again whose machine was lost.
_RETRIES = 3
# How long the head of a cluster may take to accept a connection; Ray itself would wait for minutes.
_KNOCK_SECONDS = 10.0
# How often the state of the cluster is read while tasks run.
_LOOK_EVERY_SECONDS = 2.0
_PATIENCE_SECONDS = 20.0
"""A cluster without a head or without a CPU is given up after this many seconds."""

_worker: tuple[str, Worker] | None = None


def on_ray(address: str, job: Job, tasks: Sequence[Task], tell: Tell) -> Outcome:
    """Run the tasks on the Ray cluster at `address`.

    Ray repeats a task whose worker or machine died, up to three times elsewhere; a task that still fails is
    reported as failed. The Ray client has its own process, because Ray ends it, with pages of log, when the
    cluster's head is gone.

    Raises
    ------
    BrokenOffError
        When the connection to the cluster is lost; finished work is in the store.
    """
    check(address)
    total = Outcome()
    with capped_threads(1), closing(spread(_driver, (address, job), [list(tasks)], workers=1)) as events:
        for event in events:
            if isinstance(event, Message):
                tell(event.message)
                total.add(event.message)
            elif isinstance(event.outcome, LostProcessError):
                raise _gone(address, "its head does not answer") from None
            elif isinstance(event.outcome, Exception):
                raise event.outcome
    return total


def check(address: str) -> None:
    """Refuse a cluster that does not answer, before anything is written.

    Raises
    ------
    MissingExtraError
        When ray is not installed.
    InputError
        If nothing answers at the address.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("ray", "ray")
    _knock(address)


def _driver(kit: tuple[str, Job]) -> Callable[[list[Task], Callable[[Outcome], None]], None]:
    """Return a function that runs all tasks on the cluster, silently."""
    address, job = kit
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)

    def act(tasks: list[Task], say: Callable[[Outcome], None]) -> None:
        import ray

        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _unreachable(address, error) from None
        head = ray.get_runtime_context().gcs_address
        threading.Thread(target=_watch, args=(head,), daemon=True).start()
        _drive(ray, address, job, tasks, say)
        ray.shutdown()

    return act


def _watch(head: str) -> None:
    """End this process if the cluster's head has not answered for a while; Ray may wait forever."""
    heard = time.monotonic()
    while time.monotonic() - heard < _PATIENCE_SECONDS:
        time.sleep(_LOOK_EVERY_SECONDS)
        try:
            _knock(head)
        except InputError:
            continue
        heard = time.monotonic()
    os._exit(1)


def _gone(address: str, why: str) -> BrokenOffError:
    return BrokenOffError(
        f"the connection to the cluster was lost ({why}); finished work is in the store",
        argument="ray",
        value=address,
        remedy="start the cluster and repeat the command to continue",
    )


def _knock(address: str) -> None:
    """Try the port first, because Ray waits for minutes if nothing answers."""
    match = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d+)", address)
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=_KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> InputError:
    return InputError(
        f"no cluster answers at this address ({error})",
        argument="ray",
        value=address,
        remedy="start one with: ray start --head",
    )


def _drive(ray: Any, address: str, job: Job, tasks: Sequence[Task], say: Callable[[Outcome], None]) -> None:
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_do)
    sent = ray.put(job)
    left = deque(tasks)
    running: dict[Any, Task] = {}
    alive = time.monotonic()
    while left or running:
        at_once = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while left and len(running) < at_once:
            task = left.popleft()
            running[remote.remote(str(job.store), sent, task, are_typed())] = task
        done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_EVERY_SECONDS)
        if done or _processors(ray):
            alive = time.monotonic()
        elif time.monotonic() - alive > _PATIENCE_SECONDS:
            raise _gone(address, "no node with a CPU is left")
        for reference in done:
            say(_result(ray, job, running.pop(reference), reference))


def _processors(ray: Any) -> float:
    return sum(node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"])


def _result(ray: Any, job: Job, task: Task, reference: Any) -> Outcome:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError:
        return lost(job, task, f"or its machine was lost, {_RETRIES + 1} times over")


def _do(store: str, job: Job, task: Task, typed: bool) -> Outcome:
    """Run one task on the cluster; a process keeps its worker, and with it the open run."""
    global _worker
    if _worker is None or _worker[0] != store:
        _worker = (store, Worker(job))
    with typed_options(typed):
        return _worker[1].do(task)
