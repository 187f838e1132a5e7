"""Many equal problems as one line: how often they occur, at which steps, in which tensors and runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from toposcope.core.forms import listed
from toposcope.core.observations import Observation

MANY = 8
"""More equal observations than this become one line, with their number."""

_NAMED = 3
"""Tensors and runs that such a line names; the rest is counted."""

_SO = "; so "
"""Separates a message from how often it was made."""

_NUMBER = re.compile(r"\d+(?:,\d{3})*")


T = TypeVar("T", bound=Observation)


def together(
    observations: Iterable[T], kind: Callable[[T], Hashable] = lambda _: None, *, most: int = MANY
) -> list[T]:
    """Return observations with one line for more than `most` equal ones, first in a run, then over runs.

    Observations of one `kind` are equal if their messages differ only in numbers. A line for many of one run
    is joined with equal ones of other runs.
    """
    in_runs = _joined(observations, lambda item: (item.run, kind(item), _shape(item)), most)
    return _joined(in_runs, lambda item: (kind(item), _shape(item)), most)


def _shape(observation: Observation) -> str:
    """Return a message without its numbers, its tensor, its run and its count."""
    plain = observation.message.partition(_SO)[0]
    for name in (observation.tensor, observation.run):
        plain = plain.replace(repr(name), "#")
    return _NUMBER.sub("#", plain)


def _joined(observations: Iterable[T], key: Callable[[T], Hashable], most: int) -> list[T]:
    kinds: dict[Hashable, list[T]] = {}
    for observation in observations:
        kinds.setdefault(key(observation), []).append(observation)
    out: list[T] = []
    for equal in kinds.values():
        grown = len({item.run for item in equal}) == 1 < len(equal) and any(item.steps for item in equal)
        out += [_one(equal)] if len(equal) > most or grown else equal
    return out


def _one(equal: Sequence[T]) -> T:
    count = sum(item.count for item in equal)
    runs = tuple(dict.fromkeys(run for item in equal for run in item.every_run))
    steps = tuple(sorted({step for item in equal for step in item.steps or (item.step,) if step is not None}))
    tensors = tuple(dict.fromkeys(name for item in equal for name in item.tensors or (item.tensor,) if name))
    first = equal[0]
    message = first.message.partition(_SO)[0] + _SO + how_often(count, runs, steps, tensors)
    return dataclasses.replace(first, message=message, count=count, runs=runs, steps=steps, tensors=tensors)


def how_often(
    count: int, runs: Sequence[str] = (), steps: Sequence[int] = (), tensors: Sequence[str] = ()
) -> str:
    """Return in words how often something was said: steps as a range, the first tensors and runs by name.

    >>> how_often(40, ["a"], range(10), ["q", "k", "v", "o"])
    'at 10 steps from 0 to 9, in 4 tensors (q, k, v and 1 more)'
    >>> how_often(40)
    '40 times'
    """
    parts = [f"at {len(steps):,} steps from {steps[0]:,} to {steps[-1]:,}"] if len(steps) > 1 else []
    parts += [
        f"in {len(names):,} {what} ({_named(names)})"
        for what, names in (("tensors", tensors), ("runs", runs))
        if len(names) > 1
    ]
    return ", ".join(parts) or f"{count:,} times"


def _named(names: Sequence[str]) -> str:
    return listed(names, most=_NAMED, last=", ")
