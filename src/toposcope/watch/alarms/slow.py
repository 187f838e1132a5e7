"""Slow changes: the common part of the growth and update-level alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toposcope.core.forms import and_more
from toposcope.statistics.alarms.growth import Change
from toposcope.watch.alarms.base import Alarm, Alert, Culprit, CulpritKind, SeenCheckpoint

Key = tuple[str, int, str]
"""Name of the tensor, head (-1: none), feature."""

WHOLE_MODEL = "model"
"""The name of the update of all tensors together; it is not a culprit."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A slow change, with a description in words."""

    change: Change[Key]
    how: str

    @property
    def sentence(self) -> str:
        """Return the sentence with the name of the tensor."""
        return f"{self.change.key[0]}: {self.how}"

    def culprit(self) -> Culprit:
        """Return its line of a culprit table."""
        name, head, feature = self.change.key
        line = {
            "name": name, "head": None if head < 0 else head, "feature": feature,
            "before": math.exp(self.change.before), "now": math.exp(self.change.now), "sentence": self.how,
        }  # fmt: skip
        return Culprit(CulpritKind.CHANGE, name, line, head, self.change.size)


def slow_alerts(alarm: Alarm, checkpoint: SeenCheckpoint, slow: Sequence[Slow]) -> list[Alert]:
    """Count a test, name what changed, and report the largest change."""
    checkpoint.culprits += [change.culprit() for change in slow if change.change.key[0] != WHOLE_MODEL]
    alarm.spending.count()
    if not slow:
        return []
    more = and_more(len(slow) - 1, form=", and {}")
    since = min(change.change.since for change in slow)
    return alarm.alarm_once(checkpoint.step, slow[0].sentence + more, since=since)
