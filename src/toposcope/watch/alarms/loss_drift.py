"""A loss that rises slowly, block after block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from toposcope.statistics.alarms.drift import Drift
from toposcope.watch.alarms.back import LOGGED, first_below, medians
from toposcope.watch.alarms.base import Alarm, Alert, LogRow, Watched

if TYPE_CHECKING:
    import pandas as pd


class LossDrift(Alarm):
    """A cumulative sum of the rises between medians of blocks; each block is one test."""

    test = "loss drift"
    share = 1.0
    rest = 8
    next = "check the latest data and the learning rate; go back{back} or lower the rate"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._drift = Drift(self.spending)

    def on_metrics(self, row: LogRow) -> list[Alert]:
        """Add the newest loss to its block."""
        if row.loss is None or not math.isfinite(row.loss):
            return []
        height = self._drift.update(math.log(max(row.loss, 1e-30)))
        if height is None:
            return []
        return self.alarm_once(row.step, "the loss has been rising for several stretches of the run")

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step at which the loss was as low as its earlier minimum again."""
        before = rows.loc[rows["step"] <= alert.step, "loss"].to_numpy(float)
        after = rows.loc[rows["step"] > alert.step, ["step", "loss"]]
        if int(np.isfinite(after["loss"].to_numpy(float)).sum()) < LOGGED:
            return None
        return first_below(after, "loss", float(medians(before[np.isfinite(before)]).min()))
