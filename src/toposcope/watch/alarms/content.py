"""Checks of content: changes of a matrix that no update causes, but a fault of memory or of a file does.

Each compares a matrix with itself at the previous checkpoint, so it needs almost no history. It has no
significance level: its limits lie beyond what healthy runs did. They were set on runs 1 to 33 of an earlier
trial of planted faults (2026-11-22). docs/watch.md, "How well it does", says how often they are wrong on
others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toposcope.core.forms import and_more
from toposcope.sources.content import NOT_FINITE
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, Culprit, CulpritKind, SeenCheckpoint, Watched

if TYPE_CHECKING:
    import pandas as pd

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

LATELY = 4
"""How many earlier checkpoints a jump is compared with."""

Key = tuple[str, int, str]
"""Name of the matrix, head (-1: none), feature."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One check that failed: the matrix and head, and what is wrong with it."""

    key: Key
    before: float
    now: float
    what: str

    @property
    def sentence(self) -> str:
        """Return the sentence with the name of the matrix or head."""
        name, head, _ = self.key
        return f"{name}{'' if head < 0 else f' head {head}'} {self.what}"

    def line(self) -> dict[str, object]:
        """Return the line of a culprit table."""
        name, head, feature = self.key
        what = self.what if head < 0 else f"head {head} {self.what}"
        return {
            "name": name, "head": None if head < 0 else head, "feature": feature, "before": self.before,
            "now": self.now, "sentence": what,
        }  # fmt: skip


Check = Callable[[float, Sequence[float], str], str]
"""A value, the earlier ones and the matrix's role -> what is wrong; empty if nothing is."""


def _zero(now: float, past: Sequence[float], role: str) -> str:
    return f"has rows that died: {now:.0%} are zero" if now > past[-1] and role != "embedding" else ""


def _still(now: float, past: Sequence[float], role: str) -> str:
    return "did not change at all" if now == 1 and past[-1] < 1 else ""


def _exchanged(now: float, past: Sequence[float], role: str) -> str:
    return f"has {now:.0f} rows that swapped places" if now >= 2 else ""


def _repeated(now: float, past: Sequence[float], role: str) -> str:
    return f"has rows that are copies of others: {now:.0%}" if now > max(past) else ""


def _renewed(now: float, past: Sequence[float], role: str) -> str:
    if len(past) < LATELY or now < RENEWED or max(past) > RARE:
        return ""
    return f"has rows that no longer resemble their earlier values: {now:.0%}"


def _scaled(part: str) -> Check:
    def check(now: float, past: Sequence[float], role: str) -> str:
        if len(past) < LATELY or abs(now) < max(SCALED, JUMP * max(map(abs, past))):
            return ""
        return f"was multiplied by {1 + now:.3g}" + (f" in its {part.upper()}" if part else "")

    return check


def _finite(now: float, past: Sequence[float], role: str) -> str:
    return NOT_FINITE if now < 1 and (not past or past[-1] == 1) else ""


def _present(now: float, past: Sequence[float], role: str) -> str:
    return "is new: the previous checkpoint lacks it" if now else "is gone: the previous checkpoint has it"


def _emptied(now: float, past: Sequence[float], role: str) -> str:
    return "is zero throughout" if past and now == 1 and past[-1] < 1 else ""


def _stretched(now: float, past: Sequence[float], role: str) -> str:
    if len(past) < LATELY or abs(now) < max(STRETCHED, JUMP * max(map(abs, past))):
        return ""
    return f"was multiplied by {1 + now:.3g}"


CHECKS: dict[str, Check] = {
    of.FINITE.name: _finite,
    of.PRESENT.name: _present,
    of.ZERO.name: _emptied,
    of.ALONG.name: _stretched,
    of.ZERO_ROWS.name: _zero,
    of.UNCHANGED_ROWS.name: _still,
    of.EXCHANGED_ROWS.name: _exchanged,
    of.REPEATED_ROWS.name: _repeated,
    of.RENEWED_ROWS.name: _renewed,
    of.GROWTH.name: _scaled(""),
    **{f"{of.GROWTH.name}_{part}": _scaled(part) for part in "qkvo"},
}
"""Feature of the update probe -> its check."""


AT_ONCE = (of.FINITE.name, of.PRESENT.name, of.ZERO.name)
"""Checks that need no history."""

_BESIDE: dict[str, tuple[str, float]] = {
    **{
        name: (name.replace(of.GROWTH.name, of.GROWTH_PURITY.name), PURE)
        for name in CHECKS
        if name.startswith(of.GROWTH.name)
    },
    of.RENEWED_ROWS.name: (of.RENEWED_COUNT.name, ROWS),
}
"""Check -> the feature whose absolute value must reach a bound for the check to count."""


@dataclass(slots=True)
class Content:
    """Checks every matrix and head of one run, one checkpoint after another."""

    past: dict[Key, deque[float]] = field(default_factory=dict)

    def update(self, rows: pd.DataFrame) -> list[Fault]:
        """Take the features of one checkpoint; return what fails, in the order of the checks."""
        others = [name for name, _ in _BESIDE.values()]
        part = rows[rows["feature"].isin([*CHECKS, *others]) & rows["value"].notna()]
        found, beside = [], _values(part[part["feature"].isin(others)])
        part = part[part["feature"].isin(list(CHECKS))]
        columns = [
            part["name"],
            part["head"].fillna(-1).astype(int),
            part["feature"],
            part["value"],
            part["role"],
        ]
        for name, head, feature, value, role in zip(*columns, strict=True):
            past = self.past.setdefault((name, head, feature), deque(maxlen=LATELY))
            what = CHECKS[feature](value, past, role) if len(past) >= FEWEST or feature in AT_ONCE else ""
            if what and feature in _BESIDE:
                other, least = _BESIDE[feature]
                what = what if abs(beside.get((name, head, other), 0.0)) >= least else ""
            if what:
                found.append(Fault((name, head, feature), past[-1] if past else math.nan, value, what))
            past.append(value)
        order = list(CHECKS)
        return sorted(found, key=lambda fault: order.index(fault.key[2]))


class ContentFault(Alarm):
    """Raises one alarm for all checks of content that fail at a checkpoint."""

    test = "content"
    next = "read the file again, and go back{back} if the result is the same"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._content = Content()

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Check every tensor and head, and name those that fail."""
        assert checkpoint.rows is not None
        faults = self._content.update(checkpoint.rows)
        checkpoint.culprits += [
            Culprit(CulpritKind.CONTENT, one.key[0], one.line(), one.key[1]) for one in faults
        ]
        if not faults:
            return []
        others = len({fault.key[:2] for fault in faults}) - 1
        more = and_more(others, form=", and {}")
        return self.alarm(checkpoint.step, faults[0].sentence + more)


def _values(rows: pd.DataFrame) -> dict[Key, float]:
    heads = rows["head"].fillna(-1).astype(int)
    return dict(zip(zip(rows["name"], heads, rows["feature"], strict=True), rows["value"], strict=True))
