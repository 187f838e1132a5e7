"""A gradient norm far above the eight before it, followed by three more high ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from toposcope.rules.judgement import back_by
from toposcope.statistics.alarms.residuals import OneStepAhead
from toposcope.watch.alarms.back import LOGGED, back_below, spike_passed
from toposcope.watch.alarms.base import Alarm, Alert, LogRow, Watched
from toposcope.watch.alarms.spikes import spike

if TYPE_CHECKING:
    import pandas as pd

FLOOR = 0.2
"""Smallest scale of the logarithms."""


class GradientSpike(Alarm):
    """The newest gradient norm against its prediction.

    A spike is held back for three gradients: it becomes an alarm if their level is high, else a notice,
    since a single odd batch causes a single odd gradient.
    """

    test = "gradient spike"
    share = 1.0
    next = "look at the batch of this step; clip gradients if spikes recur"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._series = OneStepAhead(floor=FLOOR)
        self._held: Alert | None = None
        self._since: list[float] = []

    def on_metrics(self, row: LogRow) -> list[Alert]:
        """Judge the newest gradient norm, and a spike that is held back."""
        norm = row.grad_norm
        if norm is None or math.isnan(norm):
            return []
        found = self._settled(row.step, norm)
        spikes = spike(self, self._series, row.step, norm, "gradient norm")
        if spikes and "expected" in spikes[0].data:
            self._held, self._since = spikes[0], []
            return found
        return found + spikes

    def _settled(self, step: int, norm: float) -> list[Alert]:
        if self._held is None:
            return []
        self._since.append(norm)
        if len(self._since) < LOGGED:
            return []
        held, self._held = self._held, None
        if float(np.median(self._since)) > back_below(held):
            return [held]
        said = f"{held.sentence}, {back_by(step)}"
        return [
            replace(
                held, kind="notice", sentence=said, data={**held.data, "spike": held.sentence, "back": step}
            )
        ]

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step at which the norm was back at its expected level."""
        if "back" in alert.data:
            return int(alert.data["back"])
        return spike_passed(alert, rows, "grad_norm")
