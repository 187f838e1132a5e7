"""What was observed: a message or a fault about a tensor at a step of a run, or the answer to a question."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

REMARKS = frozenset({"equal-tensors", "exchanged-rows", "jump", "missing-step", "unusual-change"})
"""The kinds of findings that are worth knowing but leave nothing to do: training itself can cause them. Rows
of a position embedding that learns from near 0 seem to swap places: one healthy model of five did."""

NOT_LOOKED_AT = "not-looked-at"
"""The fault of a file or folder among the checkpoints that cannot be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """A message about a tensor at a step of a run, or about many at once.

    `step` is None and `tensor` empty if the message is not about a single one. If it replaces `count` equal
    messages, `run`, `step`, `tensor` and its beginning are those of the first, and `runs`, `steps` and
    `tensors` list all of them; otherwise these are empty.
    """

    run: str
    step: int | None
    tensor: str
    message: str
    count: int = 1
    runs: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    tensors: tuple[str, ...] = ()

    @property
    def every_run(self) -> tuple[str, ...]:
        """The runs that it is about."""
        return self.runs or (self.run,)

    @property
    def every_step(self) -> tuple[int, ...]:
        """The steps that it is about; none if it is about no checkpoint."""
        return self.steps if self.step is None else (*self.steps, self.step)


@dataclasses.dataclass(frozen=True, slots=True)
class AuditFinding(Observation):
    """Something wrong with a series, or many equal things; `fault` is its kind.

    >>> print(AuditFinding("a", 100, "", "the file ends too early", fault="unreadable"))
    a step 100: unreadable: the file ends too early
    >>> print(AuditFinding("a", 100, "head", "is zero", fault="zero-tensor"))
    a step 100: zero-tensor: head is zero
    """

    fault: str = ""

    @property
    def is_remark(self) -> bool:
        """Whether it is only worth knowing: no title, exit code or verdict depends on it."""
        return self.fault in REMARKS

    def __str__(self) -> str:
        """Return the place, the kind and the message with its tensor; the message names several itself."""
        at = "" if self.step is None else f" step {self.step:,}"
        named = not self.tensor or len(self.tensors) > 1 or self.tensor in self.message
        return f"{self.run}{at}: {self.fault}: {'' if named else f'{self.tensor} '}{self.message}"


class Deferred(Mapping[str, Any]):
    """Numbers of which some are computed when first read: `ready` are there, `rest` takes seconds.

    >>> numbers = Deferred({"half": 200}, lambda: {"bends": 1})
    >>> numbers["half"], sorted(numbers)
    (200, ['bends', 'half'])
    """

    def __init__(self, ready: Mapping[str, Any], rest: Callable[[], Mapping[str, Any]]) -> None:
        self.ready = ready
        self._rest = rest

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return {**self.ready, **self._rest()}

    def __getitem__(self, name: str) -> Any:
        """Return a number; one of the `rest` computes all of them."""
        return self.ready[name] if name in self.ready else self._whole[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all numbers."""
        return iter(self._whole)

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return len(self._whole)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question, in numbers.

    `strength` is one of a closed set for each question (the templates' names): it determines the sentence of
    the answer. `numbers` holds plain data: estimates with their intervals as [low, high], counts, names.
    `test` names the test behind the strength, and `left_out` what it does not include and why.
    """

    question: str
    strength: str
    numbers: Mapping[str, Any]
    test: str = ""
    left_out: tuple[str, ...] = ()
