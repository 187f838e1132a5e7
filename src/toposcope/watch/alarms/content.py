"""The alarm of the checks of content: changes of a tensor that no update causes, but a fault does.

The checks and their limits are those of `sources.content_checks`, which the audit uses, too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.forms import and_more
from toposcope.sources import content_checks as checks
from toposcope.sources.content_checks import ContentCheck
from toposcope.statistics.alarms.panel import SIBLINGS
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


_PARTS = "qkvo"

CHECKS: dict[str, ContentCheck] = {
    of.FINITE.name: checks.NOT_FINITE_VALUES,
    of.PRESENT.name: checks.PRESENCE,
    of.ZERO.name: checks.EMPTIED,
    of.ALONG.name: checks.STRETCHED_VECTOR,
    of.ZERO_ROWS.name: checks.DEAD_ROWS,
    of.UNCHANGED_ROWS.name: checks.STILL_ROWS,
    of.UPDATE_RELATIVE.name: checks.still_head(),
    **{f"{of.UPDATE_RELATIVE.name}_{part}": checks.still_head(part) for part in _PARTS},
    of.UNCHANGED_VALUES.name: checks.STILL_BLOCK,
    of.EXCHANGED_ROWS.name: checks.SWAPPED_ROWS,
    of.REPEATED_ROWS.name: checks.REPEATED_ROWS,
    of.RENEWED_ROWS.name: checks.RENEWED_ROWS,
    of.GROWTH.name: checks.SCALED_MATRIX,
    **{f"{of.GROWTH.name}_{part}": checks.scaled_part(part) for part in _PARTS},
}
"""Feature of the update probe -> its check."""

_BESIDE: dict[str, str] = {
    **{
        name: name.replace(of.GROWTH.name, of.GROWTH_PURITY.name)
        for name in CHECKS
        if name.startswith(of.GROWTH.name)
    },
    of.RENEWED_ROWS.name: of.RENEWED_COUNT.name,
    of.ALONG.name: of.TENSOR_RMS.name,
}
"""Feature -> the second feature that its check reads beside it."""


@dataclass(slots=True)
class Content:
    """Checks every matrix and head of one run, one checkpoint after another."""

    past: dict[Key, deque[float]] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    """The share of each matrix's rows that no update moved at the previous checkpoint."""
    learning: dict[str, float] = field(default_factory=dict)
    """The growth of vectors that were small beside the others, at the previous checkpoint."""

    def update(self, rows: pd.DataFrame) -> list[Fault]:
        """Take the features of one checkpoint; return what fails, in the order of the checks."""
        others = [*_BESIDE.values(), of.RESTING_ROWS.name]
        part = rows[rows["feature"].isin([*CHECKS, *others]) & rows["value"].notna()]
        beside = _values(part[part["feature"].isin(others)])
        part = part[part["feature"].isin(list(CHECKS))]
        numbers = self._less_usual(_values(part), beside)
        usual = _usual_vector(numbers, beside)
        faults, learning = [], {}
        for key, role in zip(numbers, _roles(part, numbers), strict=True):
            name, head, feature = key
            past = self.past.setdefault(key, deque(maxlen=checks.LATELY))
            second = beside.get((name, head, _BESIDE.get(feature, "")), 0.0)
            what = CHECKS[feature](numbers[key], past, role, second)
            if feature == of.ALONG.name:
                if what and 0 < second <= usual:
                    learning[name], what = numbers[key], ""
                elif name in self.learning and checks.came_back(numbers[key], self.learning[name]):
                    what = f"was multiplied by {1 + self.learning[name]:.3g} for one checkpoint"
            if what:
                faults.append(Fault(key, past[-1] if past else math.nan, numbers[key], what))
            past.append(numbers[key])
        self.learning = learning
        self.resting = {key[0]: share for key, share in beside.items() if key[2] == of.RESTING_ROWS.name}
        return _each_once(sorted(faults, key=lambda fault: _ORDER[fault.key[2]]))

    def _less_usual(self, numbers: dict[Key, float], beside: Mapping[Key, float]) -> dict[Key, float]:
        """Return the numbers that are judged.

        Values stand still in all matrices alike where updates are below the precision of the weights. Rows
        that no update had moved before become unlike themselves once they are used.
        """
        shares = [share for key, share in numbers.items() if key[2] == of.UNCHANGED_VALUES.name]
        still = float(np.median(shares)) if len(shares) >= SIBLINGS else 0.0
        judged = {}
        for key, number in numbers.items():
            name, head, feature = key
            if feature.startswith(of.UPDATE_RELATIVE.name) and head < 0:
                continue  # a whole matrix is judged by its rows
            if feature == of.UNCHANGED_VALUES.name:
                number = max(0.0, number - still)
            if feature == of.RENEWED_ROWS.name:
                number = max(0.0, number - self.resting.get(name, 0.0))
            judged[key] = number
        return judged


_ORDER = {feature: place for place, feature in enumerate(CHECKS)}


def _each_once(faults: Sequence[Fault]) -> list[Fault]:
    """Leave out the heads of a matrix that stands still as a whole, and the parts of such a head."""
    still = {fault.key[0] for fault in faults if fault.key[2] == of.UNCHANGED_ROWS.name}
    heads = {fault.key[:2] for fault in faults if fault.key[2] == of.UPDATE_RELATIVE.name}
    return [
        fault
        for fault in faults
        if not fault.key[2].startswith(of.UPDATE_RELATIVE.name)
        or (
            fault.key[0] not in still
            and (fault.key[2] == of.UPDATE_RELATIVE.name or fault.key[:2] not in heads)
        )
    ]


def _usual_vector(numbers: Mapping[Key, float], beside: Mapping[Key, float]) -> float:
    """Return the median root mean square of the vectors; 0 if there are fewer than three."""
    names = {key[0] for key in numbers if key[2] == of.ALONG.name}
    sizes = [size for key, size in beside.items() if key[0] in names and key[2] == of.TENSOR_RMS.name]
    return float(np.median(sizes)) if len(sizes) >= SIBLINGS else 0.0


def _roles(part: pd.DataFrame, numbers: Iterable[Key]) -> Iterator[str]:
    roles = dict(zip(part["name"], part["role"], strict=True))
    return (roles[key[0]] for key in numbers)


class ContentFault(Alarm):
    """A check of the content of a matrix or head fails at a checkpoint; all that fail are one alarm."""

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
            Culprit(CulpritKind.CONTENT, fault.key[0], fault.line(), fault.key[1]) for fault in faults
        ]
        checkpoint.culprits += [_learns(name, along) for name, along in self._content.learning.items()]
        if not faults:
            return []
        others = len({fault.key[:2] for fault in faults}) - 1
        more = and_more(others, form=", and {}")
        return self.alarm(checkpoint.step, faults[0].sentence + more)


def _learns(name: str, along: float) -> Culprit:
    """Return a small vector that was multiplied: no fault by itself, but a culprit if the loss has moved."""
    what = f"was multiplied by {1 + along:.3g}, as a small tensor is that begins to learn"
    line = {
        "name": name,
        "head": None,
        "feature": of.ALONG.name,
        "before": 0.0,
        "now": along,
        "sentence": what,
    }
    return Culprit(CulpritKind.CHANGE, name, line, size=abs(along))


def _values(rows: pd.DataFrame) -> dict[Key, float]:
    heads = rows["head"].fillna(-1).astype(int)
    return dict(zip(zip(rows["name"], heads, rows["feature"], strict=True), rows["value"], strict=True))
