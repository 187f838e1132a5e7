"""A new checkpoint from which training cannot be resumed, although its weights may be sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.sources.optimizer.resumption import NOT_RESUMABLE
from toposcope.watch.alarms.base import Alarm, Alert

if TYPE_CHECKING:
    from toposcope.watch.journal import Event


class TrainingStateFault(Alarm):
    """Moments, counts, schedule or data position of a new checkpoint are missing or do not agree.

    The alarm passes when a later checkpoint of the run can be resumed.
    """

    test = "training state"
    next = "keep an earlier checkpoint, and resume{back}"

    def on_event(self, event: Event) -> list[Alert]:
        """Report a checkpoint that cannot be resumed, for another reason than its weights."""
        if event.kind != "resume" or event.step is None or event.data["verdict"] != NOT_RESUMABLE:
            return []
        facets = event.data["facets"]
        if not any(facet.get("fault") and facet.get("facet") != "weights" for facet in facets):
            return []  # the alarms on the weights say it
        statuses = ", ".join(f"{facet.get('facet')}: {facet.get('status')}" for facet in facets)
        return self.alarm(
            event.step, str(event.data["sentence"]), of=event.data["of"],
            last_good=event.data.get("earlier"), compared=event.step, quiet=statuses,
        )  # fmt: skip
