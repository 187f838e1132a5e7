"""A restart after which the loss is higher than the first time, or schedule or batches begin again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.logs.remarks import LOOK
from toposcope.watch.alarms.base import Alarm, Alert

if TYPE_CHECKING:
    from toposcope.watch.journal import Event


class RestartFault(Alarm):
    """A restart that did not work, by the steps that were trained twice; it passes when the loss is back."""

    test = "restart"
    next = "compare what the restart loaded with what was saved"

    def on_event(self, event: Event) -> list[Alert]:
        """Report a restart that calls for a look."""
        if event.kind != "restart" or event.step is None or event.data["verdict"] != LOOK:
            return []
        return self.alarm(
            event.step, str(event.data["sentence"]), of=event.data["of"], last_good=None, compared=event.step,
            quiet=f"{event.data['rows']:,} steps were trained twice so far",
        )  # fmt: skip
