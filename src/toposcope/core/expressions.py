"""Regular expressions of a reader: whether a search may not end, and a limit on its time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from toposcope.core.errors import InputError

_SECONDS = 2.0
"""The longest time for one search: a sound expression needs less than a millisecond."""


def is_endless(pattern: str) -> bool:
    r"""Return whether an expression repeats what itself has a repetition or a choice.

    >>> is_endless(r"(?:a+)+"), is_endless(r"(?:a|ab)*"), is_endless(r"step (\d+) loss (\S+)")
    (True, True, False)
    """
    from re import _parser  # type: ignore[attr-defined]  # Python's own parser of expressions has no public name

    return any(_repeats_repetition(item) for item in _parser.parse(pattern))


def _repeats_repetition(item: tuple[Any, Any]) -> bool:
    name, content = str(item[0]), item[1]
    if name.endswith("REPEAT"):
        most, body = content[1], content[2]
        inner = [*_inside(body)]
        return (int(most) > 1 and any(_is_wide(child) for child in inner)) or any(
            map(_repeats_repetition, body)
        )
    return any(_repeats_repetition(child) for part in _parts(item) for child in part)


def _is_wide(item: tuple[Any, Any]) -> bool:
    name, content = str(item[0]), item[1]
    return name == "BRANCH" or (name.endswith("REPEAT") and int(content[1]) > int(content[0]))


def _inside(body: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for item in body:
        yield item
        for part in _parts(item):
            yield from _inside(part)


def _parts(item: tuple[Any, Any]) -> list[Any]:
    """Return the expressions within a part of one."""
    name, content = str(item[0]), item[1]
    if name == "BRANCH":
        return list(content[1])
    if name == "SUBPATTERN":
        return [content[-1]]
    if name.startswith("ASSERT"):
        return [content[1]]
    if name.endswith("REPEAT"):
        return [content[2]]
    return [content] if name == "ATOMIC_GROUP" else []


def repetitions(pattern: str) -> int:
    r"""Return how many repetitions an expression has: a search may try that power of the length of a text.

    >>> repetitions(r".*step_(\d+)"), repetitions("step_([0-9]{6})")
    (2, 0)
    """
    from re import _parser  # type: ignore[attr-defined]

    items = _inside(_parser.parse(pattern))
    return sum(_is_wide(item) and str(item[0]) != "BRANCH" for item in items)


def has_timer() -> bool:
    """Return whether a timer can end a search here: only in the main thread, and not on every system."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


@contextmanager
def limited(pattern: str, argument: str, what: str) -> Iterator[None]:
    """End a search after two seconds, with an error that names the argument with the expression."""

    def end(*_: object) -> None:
        raise InputError(
            f"it takes more than {_SECONDS:g} seconds for {what}", argument=argument,
            value=pattern[:200], remedy="write fewer repetitions such as .*",
        )  # fmt: skip

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
