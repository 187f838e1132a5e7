"""Logged losses that are NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from toposcope.logs.remarks import NOT_FINITE
from toposcope.logs.run import wanted_rows
from toposcope.rules.back import LOGGED, finite_again
from toposcope.rules.rule import LOOK, STOP, JudgedRun, LogRow, LogRows, Remark, Rule, Signal
from toposcope.statistics.alarms.spending import Spending

if TYPE_CHECKING:
    import pandas as pd

GAP = "not finite for a while"
LOST = 2
"""This many consecutive losses that are not finite raise an alarm, after three consecutive finite ones."""
_NEAR = 4096
"""How many rows are searched together for a loss that is NaN."""
_HABIT = 3
"""With at least this many gaps, rows without a loss count as normal for a log."""


class LossNotFinite(Rule):
    """The last logged losses are NaN or infinite, or some within the log are.

    A row that does not log training has no loss that could be lost; nor do rows that regularly lack a loss
    (rates are logged separately).
    """

    name = NOT_FINITE
    kinds = (NOT_FINITE, GAP)
    level = STOP
    of_trend = False
    rate = "0 of 37 healthy runs at five readings (docs/check.md); a fixed rule"
    says = (
        "the last N logged losses, from step M on, are not finite; or: N logged losses from step A to B are"
    )
    alarm = "loss not finite"
    next = "stop, and resume{back} with a lower learning rate or clipped gradients"

    def __init__(self, spending: Spending | None = None) -> None:
        super().__init__(spending)
        self._finite = self._lost = 0

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Look for losses that are not finite at the end of the log, and within it."""
        rows = wanted_rows(run.rows, run.training)
        step, bad = rows["step"].to_numpy(float), ~np.isfinite(rows[run.column].astype(float).to_numpy())
        if bad.all():
            return []
        edges = np.flatnonzero(np.diff(np.r_[False, bad, False]))
        first, stop = edges[::2], edges[1::2]
        amid = (first > 0) & (stop < len(bad))
        lengths = (stop - first)[amid]
        habit = float(np.median(lengths)) if len(lengths) >= _HABIT else 0.0
        remarks = []
        if bad[-1] and (count := len(bad) - int(first[-1])) > 2 * habit:
            remarks.append(_at_the_end(int(step[first[-1]]), count))
        if 0 < len(lengths) < _HABIT:
            last = int(step[stop[amid][-1] - 1])
            remarks.append(_within(int(step[first[amid][0]]), last, int(lengths.sum())))
        return remarks

    def on_row(self, row: LogRow) -> Sequence[Signal]:
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
        return self.signal(row.step, f"the last {LOST} logged losses are not finite")

    def pass_over(self, rows: LogRows, start: int) -> int:
        """Take the rows before the first loss that is NaN."""
        loss, training = rows.loss[start : start + _NEAR], rows.training[start : start + _NEAR]
        lost = np.flatnonzero(training & np.isnan(loss))
        taken = int(lost[0]) if len(lost) else len(loss)
        values = loss[:taken][training[:taken]]
        if len(values):
            infinite = np.flatnonzero(np.isinf(values))
            before = -1 - (0 if self._lost else self._finite)
            self._finite = len(values) - 1 - (int(infinite[-1]) if len(infinite) else before)
            self._lost = 0
        return taken

    def passed(self, signal: Signal, rows: pd.DataFrame) -> int | None:
        """Return the step of the third finite loss in a row after it."""
        after = rows[rows["step"] > signal.step]
        return finite_again(after["step"].to_numpy(), after["loss"].to_numpy(float))

    def once(self, judged: Sequence[Remark], replayed: Sequence[Remark]) -> Sequence[Remark]:
        """Return what the whole log shows, which has the alarm's losses too; else the alarms."""
        return judged or replayed


def _at_the_end(at: int, count: int) -> Remark:
    sentence = f"the last {count:,} logged losses, from step {at:,} on, are not finite"
    if count == 1:
        sentence = f"the last logged loss, at step {at:,}, is not finite"
    return Remark(STOP, NOT_FINITE, at, sentence, f"go back to a checkpoint before step {at:,}")


def _within(at: int, until: int, count: int) -> Remark:
    where = f"losses from step {at:,} to {until:,} are" if until > at else f"loss at step {at:,} is"
    return Remark(
        LOOK, GAP, at, f"{count} logged {where} not finite", "look at the data and the gradient norm there"
    )
