"""Tasks spread over processes, each on a channel of its own.

A queue shared by all has a lock, and a process that is killed while it holds the lock leaves everybody
else waiting for ever. Here a process that dies closes its channel, whatever it was doing, and costs the
one task that it held.
"""

from __future__ import annotations

import errno
import multiprocessing as mp
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

import cloudpickle

S = TypeVar("S")
T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

Act = Callable[[T, Callable[[M], None]], R]
"""Does one task, and may say something on the way."""

HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What no other task would fare better with: a full disk, or one that cannot be written to."""

_SPAWN = mp.get_context("spawn")


def begun(make: Callable[[], R]) -> Future[R]:
    """Return what `make` will return, at work in a thread that ends with the program.

    >>> begun(lambda: 2 + 2).result()
    4
    """
    future: Future[R] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:  # it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


@contextmanager
def without_script() -> Iterator[None]:
    """Let the processes that start inside leave the caller's script alone: they would run it once more.

    A script that does its work at its top level, without asking whether its name is "__main__", would start
    processes of its own there. What a task needs of the script travels by value (cloudpickle).
    """
    main = sys.modules["__main__"]
    place, spec = main.__dict__.pop("__file__", None), main.__spec__
    main.__spec__ = None
    try:
        yield
    finally:
        main.__spec__ = spec
        if place is not None:
            main.__file__ = place


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM until the end: a process left half started ends with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in came:
            signal.raise_signal(late)


class LostProcessError(RuntimeError):
    """The process that did a task is gone; the message says how it ended."""


@dataclass(frozen=True, slots=True)
class Message(Generic[T, M]):
    """Something that a task said on its way."""

    task: T
    message: M


@dataclass(frozen=True, slots=True)
class Ended(Generic[T, R]):
    """What came of a task: its result, the exception that it raised, or the loss of its process."""

    task: T
    outcome: R | Exception


def is_hopeless(outcome: object) -> bool:
    """Say whether a task ended in what would end every other task as well."""
    return isinstance(outcome, OSError) and outcome.errno in HOPELESS


def spread(
    make: Callable[[S], Act[T, M, R]], shared: S, tasks: Iterable[T], *, workers: int
) -> Generator[Message[T, M] | Ended[T, R], None, None]:
    """Do `tasks` in `workers` processes, in their order; yield what is said and what comes of each.

    Each process calls `make(shared)` once and what it returns once for each task. A process that dies is
    replaced as long as tasks wait. Closing the iterator ends every process, and so does the end of this
    process, however it ends.
    """
    crew: _Crew[T, M, R] = _Crew(cloudpickle.dumps((make, shared)), deque(tasks))
    try:
        yield from crew.work(workers)
    finally:
        crew.stop()


@dataclass(slots=True)
class _Hand(Generic[T]):
    """A process, this end of the channel to it, and its task."""

    process: BaseProcess
    channel: Connection
    task: T


class _Crew(Generic[T, M, R]):
    def __init__(self, kit: bytes, waiting: deque[T]) -> None:
        self._kit, self._waiting = kit, waiting
        self._hands: dict[Connection, _Hand[T]] = {}

    def work(self, workers: int) -> Iterator[Message[T, M] | Ended[T, R]]:
        while self._waiting or self._hands:
            while self._waiting and len(self._hands) < workers:
                self._hire()
            for channel in wait(list(self._hands)):
                assert isinstance(channel, Connection)
                yield self._hear(self._hands[channel])

    def stop(self) -> None:
        """End every process that is left; one that is stopped would not hear a SIGTERM."""
        for hand in self._hands.values():
            hand.process.kill()
            hand.process.join()
            hand.channel.close()

    def _hire(self) -> None:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        with _undisturbed():
            with without_script():
                process.start()
            theirs.close()  # or the death of the process would not close the channel
            hand = self._hands[ours] = _Hand(process, ours, self._waiting.popleft())
        # Not an argument of the process: the loss of one that has not read it all would never be noticed.
        self._give(hand, self._kit)

    def _give(self, hand: _Hand[T], *before: bytes) -> None:
        """Send a process its task; that it may be gone is noticed when it is listened to."""
        try:
            for piece in (*before, cloudpickle.dumps(hand.task)):
                hand.channel.send_bytes(piece)
        except OSError:
            return

    def _hear(self, hand: _Hand[T]) -> Message[T, M] | Ended[T, R]:
        task = hand.task
        try:
            over, content = pickle.loads(hand.channel.recv_bytes())  # from our own process
        except (EOFError, OSError):
            self._dismiss(hand)
            return Ended(task, LostProcessError(_ending(hand.process.exitcode)))
        if not over:
            return Message(task, content)
        if self._waiting:
            hand.task = self._waiting.popleft()
            self._give(hand)
        else:
            self._dismiss(hand)
        return Ended(task, content)

    def _dismiss(self, hand: _Hand[T]) -> None:
        del self._hands[hand.channel]
        hand.channel.close()  # which ends the process
        hand.process.join()


def _ending(code: int | None) -> str:
    """Say how a process ended: with which signal, if any."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    return f"was killed ({name}{', most likely out of memory' if -code == signal.SIGKILL else ''})"


def _work(channel: Connection) -> None:
    """Do what the channel hands out until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        make, shared = pickle.loads(channel.recv_bytes())
        act: Callable[..., object] | None = None
        while True:
            task = pickle.loads(channel.recv_bytes())
            outcome: object
            try:
                act = make(shared) if act is None else act
                outcome = act(task, lambda message: channel.send_bytes(cloudpickle.dumps((False, message))))
            except Exception as error:  # it belongs to this task; the next one may go well
                outcome = _portable(error)
            channel.send_bytes(cloudpickle.dumps((True, outcome)))
    except (EOFError, ConnectionError):
        return  # nothing is left to do, or nobody to do it for


def _end_with_parent() -> None:
    """End this process when its parent is gone: otherwise it would go on for nobody."""
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _portable(error: Exception) -> Exception:
    """Return the error with its traceback as a note; as plain text where it does not travel."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:  # classes of any library may do anything here
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
