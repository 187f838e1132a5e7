"""Processes that are interrupted at bad moments."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing

import pytest

from toposcope.core import processes
from toposcope.core.processes import Child, Ended, in_second_process, spread
from toposcope.core.wording import option, typed_options


def doer(shared: int) -> Callable[[int, Callable[[object], None]], int]:
    return lambda task, say: shared + task


def test_ctrl_c_while_a_process_starts_is_heard_once_it_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody knows of would wait for its task, and end with a traceback."""
    started: list[subprocess.Popen[bytes]] = []
    start = processes.launch

    def interrupted(entry: Callable[..., object]) -> Child:
        child = start(entry)
        started.append(child.process)
        signal.raise_signal(signal.SIGINT)
        return child

    monkeypatch.setattr(processes, "launch", interrupted)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored where pytest is in the background
    try:
        with pytest.raises(KeyboardInterrupt), closing(spread(doer, 1, [2], workers=1)) as events:
            next(events)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert [process.returncode for process in started] == [-signal.SIGKILL]


class Unknown:
    """Something that a process cannot make: it raises where it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return (__import__, ("no_such_module_anywhere",))


def test_what_a_process_cannot_import_is_told_and_is_no_death() -> None:
    with closing(spread(lambda shared: lambda task, say: task, Unknown(), [1], workers=1)) as events:
        (event,) = events
    assert isinstance(event, Ended)
    assert isinstance(event.outcome, ModuleNotFoundError)


def test_a_process_names_options_as_the_one_that_started_it_does() -> None:
    def said() -> object:
        make = lambda shared: lambda task, say: option(shared)  # noqa: E731
        with closing(spread(make, "keep_diagrams", [1], workers=1)) as events:
            (event,) = events
        return event.outcome if isinstance(event, Ended) else event

    assert said() == "`keep_diagrams`"
    with typed_options():
        assert said() == "--keep-diagrams"


def test_a_second_process_gets_what_there_was_when_it_was_asked_for() -> None:
    """What a thread pickles later may have changed by then, or change meanwhile."""
    things = {1: "one"}
    made = in_second_process(lambda: (os.getpid(), len(things)))
    things.update(dict.fromkeys(range(1000), "more"))
    process, count = made.result()
    assert process != os.getpid()
    assert count == 1


def test_an_error_in_a_second_process_is_raised_where_its_result_is_read() -> None:
    made = in_second_process(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.result()


def test_what_a_second_process_dies_of_is_made_here() -> None:
    here = os.getpid()
    made = in_second_process(lambda: "made here" if os.getpid() == here else os._exit(3))
    assert made.result() == "made here"
