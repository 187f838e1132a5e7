"""Tensors that hold NaN or infinite values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.core.forms import and_more
from toposcope.core.types import Scope
from toposcope.sources.content import NOT_FINITE, SPOILT
from toposcope.watch.alarms.base import Alarm, Alert, Culprit, CulpritKind, SeenCheckpoint, Watched

if TYPE_CHECKING:
    from toposcope.watch.journal import Event

OWN = (Scope.MATRIX, Scope.HEAD)
"""The scopes that have a name of their own in the model."""


class NotFinite(Alarm):
    """A matrix or head that could not be measured, or a checkpoint without one finite tensor."""

    test = "not finite"
    next = "stop, and resume{back}: this checkpoint is unusable"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._broken: set[str] = set()

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Report the tensors that are broken now and were not at the previous checkpoint."""
        rows = checkpoint.rows
        assert rows is not None
        failed = (rows["feature"] == SPOILT) & rows["scope"].isin(OWN)
        broken = sorted(set(rows.loc[failed, "name"]))
        new = [name for name in broken if name not in self._broken]
        self._broken = set(broken)
        checkpoint.culprits += [broken_tensor(name) for name in broken]
        if not new:
            return []
        more = and_more(len(new) - 1, form=", and {}")
        return self.alarm(checkpoint.step, f"{new[0]} {NOT_FINITE}{more}")

    def on_event(self, event: Event) -> list[Alert]:
        """Report a checkpoint without a finite tensor; such a checkpoint has no rows to judge."""
        if event.kind != "measured" or event.step is None or event.data.get("units"):
            return []
        notes = [str(note) for note in event.data.get("problems", ()) if NOT_FINITE in str(note)]
        if not notes:
            return []
        first = notes[0].partition(f" {NOT_FINITE}")[0].partition("tensor ")[2].strip("'")
        return self.alarm(event.step, f"{first} {NOT_FINITE}, and no other tensor could be measured")


def broken_tensor(name: str) -> Culprit:
    """Return the culprit for a tensor without finite values."""
    line = {"name": name, "head": None, "feature": "finite", "sentence": NOT_FINITE}
    return Culprit(CulpritKind.BROKEN, name, line)
