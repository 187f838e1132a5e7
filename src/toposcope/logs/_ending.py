"""The error with which a text log ends: a traceback, a signal, or what a scheduler says."""

from __future__ import annotations

import re
from collections.abc import Callable

_BEFORE = re.compile(r"^\s{0,4}(?:\[[\w :.-]{1,24}\]:?|\([\w =.,:-]{1,60}\)|\d{1,4}:)\s?(?=\S)")
"""What a launcher writes before a line: `[rank0]:`, `(pid=71)`, `2:`."""
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Failure)\b(?::.*)?$")
_KILLED = re.compile(
    r"^(?:slurmstepd|srun): error: .*(?:CANCELLED|Killed|OOM|oom_kill|Exited)"
    r"|(?:^|: |\b\d+ )(?:Killed|Segmentation fault)(?:$| +\(core dumped\)| {2,})"
)
_LINES_OF_TRACEBACK = 400
"""A traceback whose error does not come within so many lines was told among other lines."""
_DRAWN_AGAIN = 2
"""A progress bar is drawn again as it closes: so many lines of training may follow the error."""
_QUOTED = 120
"""The characters of an error that are quoted, of its first sentence."""


class Ending:
    """The error of the lines so far, `error`; "" again once the training goes on after it.

    Of several processes the first error counts; of errors that were raised while one was handled, the last.
    `speaks` says whether a line is one of the training's.

    >>> ending = Ending(lambda line: "loss" in line)
    >>> for line in ("loss 2", "Traceback (most recent call last):", '  File "a.py"', "ValueError: no data"):
    ...     ending.take(line)
    >>> ending.error
    'ValueError: no data'
    >>> for step in range(3):
    ...     ending.take(f"{step}: loss 2.0")
    >>> ending.error
    ''
    """

    def __init__(self, speaks: Callable[[str], bool]) -> None:
        self.error = ""
        self._speaks = speaks
        self._left = self._after = 0
        self._chained = False

    def take(self, line: str) -> None:
        """Take a line."""
        plain = _BEFORE.sub("", line)
        if plain.startswith(_TRACEBACK):
            self._left = _LINES_OF_TRACEBACK
        elif plain.startswith(_CHAINED):
            self._chained = True
        elif self._left and _RAISED.match(plain):
            self._tell(plain)
            self._left = 0
        elif _KILLED.search(plain):
            self._tell(plain)
        elif self.error and self._speaks(line):
            self._after += 1
            if self._after > _DRAWN_AGAIN:
                self.error, self._after = "", 0
        self._left = max(self._left - 1, 0)

    def _tell(self, error: str) -> None:
        if not self.error or self._chained:
            short = error.strip().partition(". ")[0]
            self.error = short if len(short) <= _QUOTED else f"{short[:_QUOTED].rstrip()}..."
            self._after = 0
        self._chained = False
