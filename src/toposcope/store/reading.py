"""Reads while others write: filters of lines, and repeated attempts if parts were removed meanwhile."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow.compute as pc

T = TypeVar("T")

# Compactions that one call may meet in a row before it gives up with the error.
_ATTEMPTS = 8


def steady(call: Callable[[], T]) -> T:
    """Repeat `call` as long as another process compacts the files that it is about to read."""
    for attempt in range(_ATTEMPTS):
        try:
            return call()
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def expression(wanted: Mapping[str, str | Sequence[str] | None]) -> pc.Expression | None:
    """Return the filter for lines whose fields have these values; None if every line is wanted."""
    tests = [
        pc.field(name) == value if isinstance(value, str) else pc.field(name).isin(list(value))
        for name, value in wanted.items()
        if value is not None
    ]
    return functools.reduce(operator.and_, tests) if tests else None
