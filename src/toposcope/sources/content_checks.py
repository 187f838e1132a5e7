"""Checks of content: changes of a tensor that no update causes, but a fault of memory or of a file does.

Each compares a number of a tensor with the same number at earlier checkpoints, so it needs almost no history.
It has no significance level: its limits lie beyond what healthy runs did. They were set on runs 1 to 33 of an
earlier trial of planted faults (2026-11-22). docs/watch.md, "How well it does", says how often they are wrong
on others. `watch` feeds them with the rows of its store, the audit with what it reads of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toposcope.core.types import Role
from toposcope.sources.content import NOT_FINITE

FEWEST = 2
"""The fewest earlier values for a check: the first updates of a run are not typical."""

SCALED, PURE, JUMP = 0.2, 0.85, 3.0
"""A part counts as scaled if it grew or shrank along itself by at least a fifth and by three times the most
of the last checkpoints, and the cosine of its change with its weights is at least .85. In healthy runs this
cosine was at most .64 at such jumps."""

STRETCHED = 0.5
"""As `SCALED`, for a norm's gain, a bias or a scalar: a few numbers change more freely than a matrix."""

RENEWED, RARE, ROWS = 1 / 8, 1 / 32, 4
"""Smallest share of rows that became unlike themselves, the largest share allowed before, and the smallest
number of such rows: the noise of small batches alone can turn one or two rows of a small matrix."""

STILL, MOVED = 1 / 8, 1 / 32
"""Smallest share of a matrix that stopped moving, and the largest share of it that stood still before. They
are `RENEWED` and `RARE`: the block of a head or a shard is as large as one of rows that were replaced."""

LATELY = 4
"""How many earlier checkpoints a jump is compared with."""

Test = Callable[[float, Sequence[float], str], str]
"""A value, the earlier ones and the tensor's role -> what is wrong; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """A test of one number, how many earlier values it needs, and the least of a second number beside it."""

    test: Test
    fewest: int = FEWEST
    beside: float = 0.0

    def __call__(self, now: float, past: Sequence[float], role: str = "", beside: float = 0.0) -> str:
        """Return what is wrong with the value `now`; empty if nothing is.

        >>> [SCALED_MATRIX(along, [0.01] * 4, beside=1.0) for along in (99.0, 0.02)]
        ['was multiplied by 100', '']
        """
        if len(past) < self.fewest or abs(beside) < self.beside:
            return ""
        return self.test(now, past, role)


def _zero(now: float, past: Sequence[float], role: str) -> str:
    died = now > past[-1] and role != Role.EMBEDDING
    return f"has rows that died: {now:.0%} are zero" if died else ""


def _still(now: float, past: Sequence[float], role: str) -> str:
    return "did not change at all" if now == 1 and past[-1] < 1 else ""


def _still_block(now: float, past: Sequence[float], role: str) -> str:
    block = STILL <= now < 1 and max(past) <= MOVED
    return f"has values that stopped changing: {now:.0%}" if block else ""


def _still_head(part: str = "") -> Test:
    def test(now: float, past: Sequence[float], role: str) -> str:
        where = f" in its {part.upper()}" if part else ""
        return f"did not change at all{where}" if now == 0 and past[-1] > 0 else ""

    return test


def _exchanged(now: float, past: Sequence[float], role: str) -> str:
    return f"has {now:.0f} rows that swapped places" if now >= 2 else ""


def _repeated(now: float, past: Sequence[float], role: str) -> str:
    return f"has rows that are copies of others: {now:.0%}" if now > max(past) else ""


def _renewed(now: float, past: Sequence[float], role: str) -> str:
    if now < RENEWED or max(past) > RARE:
        return ""
    return f"has rows that no longer resemble their earlier values: {now:.0%}"


def _scaled(least: float, part: str = "") -> Test:
    def test(now: float, past: Sequence[float], role: str) -> str:
        if abs(now) < max(least, JUMP * max(map(abs, past))):
            return ""
        return f"was multiplied by {1 + now:.3g}" + (f" in its {part.upper()}" if part else "")

    return test


def _finite(now: float, past: Sequence[float], role: str) -> str:
    return NOT_FINITE if now < 1 and (not past or past[-1] == 1) else ""


def _present(now: float, past: Sequence[float], role: str) -> str:
    return "is new: the previous checkpoint lacks it" if now else "is gone: the previous checkpoint has it"


def _emptied(now: float, past: Sequence[float], role: str) -> str:
    return "is zero throughout" if past and now == 1 and past[-1] < 1 else ""


def came_back(now: float, before: float) -> bool:
    """Return whether a tensor that grew by `before` along itself, then by `now`, is as large as it was.

    >>> came_back(-0.5, 1.0), came_back(-0.3, 1.0)
    (True, False)
    """
    return abs((1.0 + now) * (1.0 + before) - 1.0) <= SCALED / 2


def still_head(part: str = "") -> ContentCheck:
    """Return the check for a head, or its q, k, v or o, that stands still."""
    return ContentCheck(_still_head(part))


def scaled_part(part: str) -> ContentCheck:
    """Return the check for a head's q, k, v or o that was scaled, with the cosine of its growth."""
    return ContentCheck(_scaled(SCALED, part), LATELY, PURE)


NOT_FINITE_VALUES = ContentCheck(_finite, 0)
"""Of 1 if a tensor is finite, else 0."""
PRESENCE = ContentCheck(_present, 0)
"""Of 1 if only this checkpoint has a tensor, 0 if only the previous one has it."""
EMPTIED = ContentCheck(_emptied, 0)
"""Of the share of a tensor's values that are zero."""
STRETCHED_VECTOR = ContentCheck(_scaled(STRETCHED), LATELY)
"""Of the growth along itself of a tensor with fewer than two dimensions."""
SCALED_MATRIX = ContentCheck(_scaled(SCALED), LATELY, PURE)
"""Of the growth of a matrix along itself, beside the cosine of its change with its weights."""
DEAD_ROWS = ContentCheck(_zero)
"""Of the share of rows that are zero."""
STILL_ROWS = ContentCheck(_still)
"""Of the share of rows that did not change."""
STILL_BLOCK = ContentCheck(_still_block, LATELY)
"""Of the share of values that did not change, less the median share of all matrices."""
EXCHANGED_ROWS = ContentCheck(_exchanged)
"""Of the number of rows that swapped places."""
SWAPPED_ROWS = ContentCheck(_exchanged, 0)
"""Of the number of rows that did so beyond doubt (`rows.exchanged`)."""
REPEATED_ROWS = ContentCheck(_repeated)
"""Of the share of rows that are identical to another row."""
RENEWED_ROWS = ContentCheck(_renewed, LATELY, ROWS)
"""Of the share of rows whose cosine with their former values is below 1/2, beside their number."""
