"""The alarm of the checks of content: changes of a tensor that no update causes, but a fault does.

The checks and their limits are those of `sources.content_checks`, which the audit uses, too.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toposcope.core.forms import and_more
from toposcope.sources import content_checks as checks
from toposcope.sources.content_checks import ContentCheck
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, Culprit, CulpritKind, SeenCheckpoint, Watched

if TYPE_CHECKING:
    import pandas as pd

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


CHECKS: dict[str, ContentCheck] = {
    of.FINITE.name: checks.NOT_FINITE_VALUES,
    of.PRESENT.name: checks.PRESENCE,
    of.ZERO.name: checks.EMPTIED,
    of.ALONG.name: checks.STRETCHED_VECTOR,
    of.ZERO_ROWS.name: checks.DEAD_ROWS,
    of.UNCHANGED_ROWS.name: checks.STILL_ROWS,
    of.EXCHANGED_ROWS.name: checks.EXCHANGED_ROWS,
    of.REPEATED_ROWS.name: checks.REPEATED_ROWS,
    of.RENEWED_ROWS.name: checks.RENEWED_ROWS,
    of.GROWTH.name: checks.SCALED_MATRIX,
    **{f"{of.GROWTH.name}_{part}": checks.scaled_part(part) for part in "qkvo"},
}
"""Feature of the update probe -> its check."""

_BESIDE: dict[str, str] = {
    **{
        name: name.replace(of.GROWTH.name, of.GROWTH_PURITY.name)
        for name in CHECKS
        if name.startswith(of.GROWTH.name)
    },
    of.RENEWED_ROWS.name: of.RENEWED_COUNT.name,
}
"""Feature -> the second feature that its check reads beside it."""


@dataclass(slots=True)
class Content:
    """Checks every matrix and head of one run, one checkpoint after another."""

    past: dict[Key, deque[float]] = field(default_factory=dict)

    def update(self, rows: pd.DataFrame) -> list[Fault]:
        """Take the features of one checkpoint; return what fails, in the order of the checks."""
        others = list(_BESIDE.values())
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
            past = self.past.setdefault((name, head, feature), deque(maxlen=checks.LATELY))
            second = beside.get((name, head, _BESIDE.get(feature, "")), 0.0)
            what = CHECKS[feature](value, past, role, second)
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
