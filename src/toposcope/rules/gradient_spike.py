"""A gradient norm far above the eight before it, followed by three more high ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.forms import step_text
from toposcope.rules.back import LOGGED, back_below, pass_over, spike, spike_passed
from toposcope.rules.rule import BACK, LogRow, LogRows, Rule, Signal
from toposcope.statistics.alarms.residuals import OneStepAhead
from toposcope.statistics.alarms.spending import Spending

if TYPE_CHECKING:
    import pandas as pd

FLOOR = 0.2
"""Smallest scale of the logarithms."""


class GradientSpike(Rule):
    """The newest gradient norm is far above its prediction.

    A spike is held back for three gradients: it becomes an alarm if their level is high, else it is noticed,
    since a single odd batch causes a single odd gradient.
    """

    name = "gradient spike"
    looks = BACK
    reads = ("grad_norm",)
    of_trend = False
    rate = "at most .6% of healthy runs by design (docs/watch.md)"
    says = "gradient spike at step N (gradient norm is A where B was expected), not back yet"
    share = 1.0
    next = "look at the batch of this step; clip gradients if spikes recur"

    def __init__(self, spending: Spending | None = None) -> None:
        super().__init__(spending)
        self._series = OneStepAhead(floor=FLOOR)
        self._held: Signal | None = None
        self._since: list[float] = []

    def on_row(self, row: LogRow) -> Sequence[Signal]:
        """Judge the newest gradient norm, and a spike that is held back."""
        norm = row.grad_norm
        if norm is None or math.isnan(norm):
            return []
        settled = self._settled(row.step, norm)
        spikes = spike(self, self._series, row.step, norm, "gradient norm")
        if spikes and "expected" in spikes[0].data:
            self._held, self._since = spikes[0], []
            return settled
        return settled + spikes

    def pass_over(self, rows: LogRows, start: int) -> int:
        """Take the norms that are not far above their predictions, unless a spike is held back."""
        return 0 if self._held else pass_over(self, self._series, rows.grad_norm[start:])

    def _settled(self, step: int, norm: float) -> list[Signal]:
        if self._held is None:
            return []
        self._since.append(norm)
        if len(self._since) < LOGGED:
            return []
        held, self._held = self._held, None
        if float(np.median(self._since)) > back_below(held):
            return [held]
        sentence = f"{held.sentence}, back to normal by step {step_text(step)}"
        data = {**held.data, "spike": held.sentence, "back": step}
        return [replace(held, sentence=sentence, data=data, noticed=True)]

    def passed(self, signal: Signal, rows: pd.DataFrame) -> int | None:
        """Return the step at which the norm was back at its expected level."""
        if "back" in signal.data:
            return int(signal.data["back"])
        return spike_passed(signal, rows, "grad_norm")
