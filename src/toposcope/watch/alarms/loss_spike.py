"""A loss far above the median of the eight before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.statistics.alarms.residuals import OneStepAhead
from toposcope.watch.alarms.back import spike_passed
from toposcope.watch.alarms.base import Alarm, Alert, LogRow, Watched
from toposcope.watch.alarms.spikes import spike

if TYPE_CHECKING:
    import pandas as pd

FLOOR = 0.02
"""Smallest scale of the logarithms: a steady series may jump by a few of these without an alarm."""

DEGREES = 6.0
"""The loss's tail is at most as heavy as Student's t with this many degrees of freedom; see docs/watch.md."""


class LossSpike(Alarm):
    """The newest loss against its prediction, one step ahead."""

    test = "loss spike"
    share = 1.0
    next = "look at the batch of this step, and go back{back} if the loss does not come down"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._series = OneStepAhead(floor=FLOOR, least_degrees=DEGREES)

    def on_metrics(self, row: LogRow) -> list[Alert]:
        """Judge the newest loss."""
        return spike(self, self._series, row.step, row.loss, "loss")

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step at which the loss was back at its expected level."""
        return spike_passed(alert, rows, "loss")
