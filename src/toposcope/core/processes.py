"""Tasks spread over processes, each on a channel of its own.

A queue that all processes share has a lock, and if a process is killed while it holds the lock, all others
wait for ever. Here a process that dies closes its own channel and costs only the task that it was doing.

The processes are started by `launch` and not by multiprocessing. Children of multiprocessing print a
traceback if their parent is killed before they know what to import, and they run the caller's script again.
"""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Generic, TypeVar

import cloudpickle

from toposcope.core.wording import are_typed, typed_options

S = TypeVar("S")
T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

Act = Callable[[T, Callable[[M], None]], R]
"""Does one task, and may send messages meanwhile."""

HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors that every other task would meet, too: a full disk, or one that cannot be written to."""

_NOT_THE_CHILD = (signal.SIGINT, signal.SIGTERM)
"""Signals that are blocked until a child runs: a Ctrl-C in its imports would print a traceback."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_background(make: Callable[[], R]) -> Future[R]:
    """Run `make` in a thread that ends with the program; return the future of its result.

    >>> in_background(lambda: 2 + 2).result()
    4
    """
    future: Future[R] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:  # raised where the result is read
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def in_second_process(make: Callable[[], R]) -> Future[R]:
    """Run `make` in a process of its own, which takes a second to start; return the future of its result.

    If that process cannot be started, or dies, `make` runs in a thread of this one.

    >>> in_second_process(lambda: 2 + 2).result()
    4
    """
    content = cloudpickle.dumps(make)  # here and now: what it holds may change while a thread reads it
    return in_background(lambda: _made_there(content, make))


def _made_there(content: bytes, make: Callable[[], R]) -> R:
    outcome: R | Exception = LostProcessError("was not started")
    with suppress(OSError):
        for event in spread(_unpacked, content, [None], workers=1):
            if isinstance(event, Ended):
                outcome = event.outcome
    if isinstance(outcome, LostProcessError):
        return make()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _unpacked(content: bytes) -> Act[None, None, Any]:
    make = pickle.loads(content)  # from our own process
    return lambda task, say: make()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end: a half-started process would end with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number)) for number in _NOT_THE_CHILD
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in came:
            signal.raise_signal(late)


class GoneError(BaseException):
    """Nobody listens at the other end of a channel any more, or only half of a message came.

    Not an `Exception`: a task that handles its own errors must not mistake its parent's end for one.
    """


@dataclass(frozen=True, slots=True)
class Child:
    """A process that `launch` started, and this end of the channel to it."""

    process: subprocess.Popen[bytes]
    channel: Connection

    def kill(self) -> None:
        """End the process, whatever it does, and wait for its end."""
        self.process.kill()
        self.dismiss()

    def dismiss(self) -> None:
        """Close the channel, which ends a process that listens, and wait for its end."""
        self.channel.close()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


def launch(entry: Callable[[Connection], object], *, keep: Sequence[int] = ()) -> Child:
    """Start a process that calls `entry`, a module's function, with its end of a channel.

    The new process ends silently when this one ends, in whatever way, and ignores Ctrl-C. It does not import
    the caller's script: functions of it are sent by value (cloudpickle). File descriptors in `keep` are open
    there under the same numbers. Its texts name options in the same spelling as here.
    """
    ours, theirs = Pipe()
    command = [
        sys.executable,
        *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
        "-c",
        f"import sys; sys.path[:] = {[path for path in sys.path if isinstance(path, str)]!r}; "
        f"from {__name__} import begin_child; "
        f"begin_child({entry.__module__!r}, {entry.__qualname__!r}, {theirs.fileno()}, {are_typed()})",
    ]
    try:
        with _masked():
            # Nothing is sent over standard input: its end tells the child that this process has ended.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, pass_fds=(theirs.fileno(), *keep), close_fds=True
            )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # or the death of the process would not close the channel
    return Child(process, ours)


@contextmanager
def _masked() -> Iterator[None]:
    """Start processes with Ctrl-C and SIGTERM blocked; `begin_child` unblocks them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_THE_CHILD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_child(module: str, name: str, channel: int, typed: bool) -> None:
    """Call the function that `launch` sent to this new process; end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_THE_CHILD)
    pulse, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_end_with_parent, args=(pulse,), daemon=True).start()
    with Connection(channel) as end, suppress(GoneError), typed_options(typed):
        getattr(importlib.import_module(module), name)(end)


def _end_with_parent(pulse: int) -> None:
    """End this process when its parent is gone; otherwise it would work for nobody."""
    os.read(pulse, 1)  # nothing is ever written
    os._exit(1)


def send(channel: Connection, value: object) -> None:
    """Send a value, functions of the caller's script among them.

    Raises
    ------
    GoneError
        When nobody is there to receive it.
    """
    content = cloudpickle.dumps(value)
    try:
        channel.send_bytes(content)
    except OSError as error:
        raise GoneError from error


def receive(channel: Connection) -> Any:
    """Return the next value that the other end sends.

    Raises
    ------
    GoneError
        When the other end closed, in the middle of a message perhaps.
    """
    return pickle.loads(_received(channel))  # from our own process


def _received(channel: Connection) -> bytes:
    try:
        return channel.recv_bytes()
    except (EOFError, OSError) as error:
        raise GoneError from error


class LostProcessError(RuntimeError):
    """The process that did a task is gone; the message says how it ended."""


@dataclass(frozen=True, slots=True)
class Message(Generic[T, M]):
    """A message that a task sent before its end."""

    task: T
    message: M


@dataclass(frozen=True, slots=True)
class Ended(Generic[T, R]):
    """The outcome of a task: its result, the exception that it raised, or the loss of its process."""

    task: T
    outcome: R | Exception


def is_hopeless(outcome: object) -> bool:
    """Return whether a task failed in a way in which every other task would fail, too."""
    return isinstance(outcome, OSError) and outcome.errno in HOPELESS


def spread(
    make: Callable[[S], Act[T, M, R]], shared: S, tasks: Iterable[T], *, workers: int
) -> Generator[Message[T, M] | Ended[T, R], None, None]:
    """Do `tasks` in `workers` processes, in their order; yield their messages and outcomes.

    Each process calls `make(shared)` once and what it returns once for each task. A process that dies is
    replaced as long as tasks wait. Closing the iterator ends every process, and so does the end of this
    process, however it ends.
    """
    crew: _Crew[T, M, R] = _Crew((make, shared), deque(tasks))
    try:
        yield from crew.work(workers)
    finally:
        crew.stop()


@dataclass(slots=True)
class _Hand(Generic[T]):
    """A process and its task."""

    child: Child
    task: T


class _Crew(Generic[T, M, R]):
    def __init__(self, kit: object, waiting: deque[T]) -> None:
        self._kit, self._waiting = cloudpickle.dumps(kit), waiting
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
            hand.child.kill()

    def _hire(self) -> None:
        with _undisturbed():
            child = launch(_work)
            hand = self._hands[child.channel] = _Hand(child, self._waiting.popleft())
        try:
            child.channel.send_bytes(self._kit)
        except OSError:
            return  # that it is gone is noticed when it is listened to
        self._give(hand)

    def _give(self, hand: _Hand[T]) -> None:
        """Send a process its task; if it is gone, that is noticed on the next read from it."""
        with suppress(GoneError):
            send(hand.child.channel, hand.task)

    def _hear(self, hand: _Hand[T]) -> Message[T, M] | Ended[T, R]:
        task = hand.task
        try:
            over, content = receive(hand.child.channel)
        except GoneError:
            self._dismiss(hand)
            return Ended(task, LostProcessError(_ending(hand.child.process.returncode)))
        if not over:
            return Message(task, content)
        if self._waiting:
            hand.task = self._waiting.popleft()
            self._give(hand)
        else:
            self._dismiss(hand)
        return Ended(task, content)

    def _dismiss(self, hand: _Hand[T]) -> None:
        del self._hands[hand.child.channel]
        hand.child.dismiss()


def _ending(code: int | None) -> str:
    """Say how a process ended: with which signal, if any."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    return f"was killed ({name}{', most likely out of memory' if -code == signal.SIGKILL else ''})"


def _work(channel: Connection) -> None:
    """Do the tasks that arrive on the channel until it closes."""
    kit = _received(channel)
    act: Callable[..., object] | None = None
    while True:
        task = receive(channel)
        outcome: object
        try:
            if act is None:  # an import that fails here is reported as an error of the task, not as a death
                make, shared = pickle.loads(kit)
                act = make(shared)
            outcome = act(task, lambda message: send(channel, (False, message)))
        except Exception as error:  # it belongs to this task; the next one may go well
            outcome = _portable(error)
        send(channel, (True, outcome))


def _portable(error: Exception) -> Exception:
    """Return the error with its traceback as a note; as plain text if it cannot be pickled."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:  # classes of any library may do anything here
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
