"""One thing to time: a contender on an input of a size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """`prepare` makes the input and returns the call to time; it raises ImportError for a missing library.

    Cases with the same `task` and `size` are compared. With `own_clock` the call runs elsewhere, such as in
    an interpreter of its own, and returns the seconds it measured there.
    """

    task: str
    size: int
    contender: str
    prepare: Callable[[], Callable[[], object]]
    own_clock: bool = False

    @property
    def name(self) -> str:
        """What to call the case in a table."""
        return f"{self.task} {self.size} {self.contender}"
