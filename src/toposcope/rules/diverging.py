"""A loss that rises: at the end of a log, seen from both sides, and slowly, seen as the log grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.logs.remarks import DIVERGING
from toposcope.rules.accuracy import ACCURACY
from toposcope.rules.back import LOGGED, first_below, medians
from toposcope.rules.overfitting import FEWEST as FEWEST_HELD
from toposcope.rules.overfitting import OVERFITTING, Overfitting
from toposcope.rules.rises import AGAIN, FALLING, FEWEST, RESTART, SHIFT, Rise, find, noise, scaled
from toposcope.rules.rule import LOOK, NOTICED, STOP, JudgedRun, LogRow, LogRows, Remark, Rule, Signal
from toposcope.statistics.alarms.drift import Drift
from toposcope.statistics.alarms.residuals import levels
from toposcope.statistics.alarms.spending import Spending

OTHER = "another objective"
KINDS = (DIVERGING, RESTART, FALLING, AGAIN, SHIFT, OTHER)
_NEWEST = 2
"""A rise of at most this many losses is not yet confirmed."""
_HELD = 3
"""The number of held-out losses whose median is a level."""


class Diverging(Rule):
    """The loss is above its lowest level at the end of the log: diverging, or one of the milder rises.

    It diverges if it keeps rising, or is higher by 25% and by a tenth of the run's fall (`rises.find`). While
    the held-out loss of the same log falls all the way, a loss that diverges calls for a look: it may be
    another objective. Looking back, medians of blocks that rise again and again are a drift.
    """

    name = DIVERGING
    kinds = KINDS
    level = STOP
    unless = (ACCURACY,)
    rate = "0 of 317 healthy runs are diverging, 1 has a rise (docs/check.md)"
    says = "the loss rose from A at step N to B at step M, and how it went on"
    alarm = "loss drift"
    share = 1.0
    rest = 8
    next = "check the latest data and the learning rate; go back{back} or lower the rate"

    def __init__(self, spending: Spending | None = None) -> None:
        super().__init__(spending)
        self._drift = Drift(self.spending)

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Find the rise at the end of the log."""
        if len(run.losses) < FEWEST or (run.column == "heldout_loss" and _overfits(run)):
            return []
        rate = run.losses["rate"].to_numpy(float) if "rate" in run.losses else None
        rise = find(run.scale, rate)
        if rise is None:
            return []
        remark = _in_words(rise, run.losses["step"].to_numpy(float), rate)
        return [_beside_held_out(remark, run) if rise.kind == DIVERGING else remark]

    def on_row(self, row: LogRow) -> Sequence[Signal]:
        """Add the newest loss to its block."""
        if row.loss is None or not math.isfinite(row.loss):
            return []
        if self._drift.update(math.log(max(row.loss, 1e-30))) is None:
            return []
        return self.signal_once(row.step, "the loss has been rising for several stretches of the run")

    def pass_over(self, rows: LogRows, start: int) -> int:
        """Add the losses before the last one of their block, whose median is judged."""
        near = rows.loss[start : start + self._drift.missing - 1]
        finite = near[np.isfinite(near)].tolist()
        self._drift.fill([math.log(max(loss, 1e-30)) for loss in finite])
        return len(near)

    def passed(self, signal: Signal, rows: pd.DataFrame) -> int | None:
        """Return the step at which the loss was as low as its earlier minimum again."""
        before = rows.loc[rows["step"] <= signal.step, "loss"].to_numpy(float)
        after = rows.loc[rows["step"] > signal.step, ["step", "loss"]]
        if int(np.isfinite(after["loss"].to_numpy(float)).sum()) < LOGGED:
            return None
        return first_below(after, "loss", float(medians(before[np.isfinite(before)]).min()))

    def once(self, judged: Sequence[Remark], replayed: Sequence[Remark]) -> Sequence[Remark]:
        """Return the rise of the whole log, and the drifts that it does not contain."""
        return (*judged, *(remark for remark in replayed if not judged or remark.level == NOTICED))


def _overfits(run: JudgedRun) -> bool:
    return any(remark.kind == OVERFITTING for remark in Overfitting().judge(run))


def _in_words(rise: Rise, step: np.ndarray, rate: np.ndarray | None) -> Remark:
    at, last = int(step[rise.start]), int(step[-1])
    went = f"the loss rose from {rise.low:.3g} at step {at:,} to {rise.now:.3g} at step {last:,}"
    back = f"the loss rose from {rise.low:.3g} at step {at:,} to {rise.top:.3g} and is back at {rise.now:.3g}"
    if rise.width:
        went = f"the loss has swung wider and wider since step {at:,}, by {rise.width:.0%} at step {last:,}"
    again = f"look again after {max(1, last - at):,} more steps"
    sentence, remedy = {
        DIVERGING: (went, f"go back to a checkpoint before step {at:,}, with a lower rate"),
        RESTART: (f"{went}, after the learning rate went back up{_raised(rate, rise.start)}", again),
        FALLING: (back, f"look at the data there; {again}"),
        AGAIN: (f"{went}; it came back from an earlier rise at least as large", again),
        SHIFT: _shifted(went, again, alone=len(step) - rise.start <= _NEWEST),
    }[rise.kind]
    return Remark(STOP if rise.kind == DIVERGING else LOOK, rise.kind, at, sentence, remedy)


def _shifted(went: str, again: str, *, alone: bool) -> tuple[str, str]:
    """Return sentence and remedy for a higher level; if only the newest losses show it, to look again."""
    if alone:
        return f"{went}, but so far only in its newest losses", again
    return f"{went} and has stopped rising", "check whether the data or the batch changed there"


def _raised(rate: np.ndarray | None, start: int) -> str:
    """Return the learning rates before and after it was raised, around a rise of the loss."""
    if rate is None:
        return ""
    near = pd.Series(rate).ffill().bfill().to_numpy()[max(0, start - max(3, len(rate) // 20)) :]
    return f" from {near.min():.3g} to {near.max():.3g}"


def _beside_held_out(remark: Remark, run: JudgedRun) -> Remark:
    """Return a divergence as a look if the held-out loss of the same log falls all the way."""
    held = run.losses_of("heldout_loss") if run.column == "loss" else pd.DataFrame()
    if len(held) < FEWEST_HELD:
        return remark
    value = scaled(held["loss"].to_numpy(float)).value
    level, after = levels(value, _HELD), value[held["step"].to_numpy(float) > float(remark.step or 0)]
    if not _HELD < len(after) < len(value) - _HELD:
        return remark
    error = 1.2533 * noise(value) / math.sqrt(_HELD)
    lower = level[-1] <= level.min() + error and level[-1] < level[: -len(after)].min() - error
    early, late = np.array_split(after, 2)
    if not lower or np.median(late) >= np.median(early):
        return remark
    first, last = held["loss"].iloc[0], held["loss"].iloc[-1]
    sentence = f"{remark.sentence}, while the held-out loss fell from {first:.3g} to {last:.3g}"
    remedy = "is it another objective, such as a masked or an auxiliary loss? Judge the one that should fall"
    return Remark(LOOK, OTHER, remark.step, sentence, remedy)
