"""Logged losses that are NaN or infinite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toposcope.rules.judgement import LOSS_LOST
from toposcope.watch.alarms.back import LOGGED, finite_again
from toposcope.watch.alarms.base import Alarm, Alert, LogRow, Watched

if TYPE_CHECKING:
    import pandas as pd

LOST = 2
"""This many consecutive losses that are not finite raise an alarm, after three consecutive finite ones."""


class LossNotFinite(Alarm):
    """The last logged losses are NaN; single rows without a loss are normal and do not count."""

    test = LOSS_LOST
    next = "stop, and resume{back} with a lower learning rate or clipped gradients"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._finite = self._lost = 0

    def on_metrics(self, row: LogRow) -> list[Alert]:
        """Count consecutive losses that are finite, and that are not."""
        if not row.training:
            return []
        if not math.isnan(row.loss):
            before = 0 if self._lost else self._finite
            self._finite, self._lost = (before + 1 if math.isfinite(row.loss) else 0), 0
            return []
        self._lost += 1
        if self._lost != LOST or self._finite < LOGGED:
            return []
        return self.alarm(row.step, f"the last {LOST} logged losses are not finite")

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step of the third finite loss in a row after it."""
        after = rows[rows["step"] > alert.step]
        return finite_again(after["step"].to_numpy(), after["loss"].to_numpy(float))
