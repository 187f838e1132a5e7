"""What was observed: a message or a fault about a tensor at a step of a run, or the answer to a question."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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


@dataclasses.dataclass(frozen=True, slots=True)
class AuditFinding(Observation):
    """Something wrong with a series, or many equal things; `fault` is its kind.

    >>> print(AuditFinding("a", 100, "", "the file ends too early", fault="unreadable"))
    a step 100: unreadable: the file ends too early
    """

    fault: str = ""

    @property
    def is_remark(self) -> bool:
        """Whether it is only worth knowing: no title, exit code or verdict depends on it."""
        return self.fault in REMARKS

    def __str__(self) -> str:
        """Return the place, the kind and the message."""
        at = "" if self.step is None else f" step {self.step:,}"
        return f"{self.run}{at}: {self.fault}: {self.message}"


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
