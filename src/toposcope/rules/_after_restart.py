"""Restarts without a step that was trained twice: the rows after one against the trend of those before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from toposcope.logs.remarks import Remark
from toposcope.rules.judged_run import JudgedRun
from toposcope.rules.trained_twice import (
    AT_FIRST,
    LEVEL,
    RAISED,
    SAME_RATE,
    SMALLEST,
    remark_of_restart,
)

LENGTHS = (5, 20, 80)
"""So many rows after a restart are compared: a state that is lost shows at once, weights for longer."""
LASTS = 20
"""A loss that is higher over at least so many rows calls for a look; one over fewer is noticed."""
_TREND = 4
"""The trend is that of this many times as many rows before."""
_FEWEST = 8
"""Earlier places in the log at which the same comparison is made, at least: they say how often it is off."""
_MOST = 24
"""Of earlier places the latest count: at the begin of a run the loss falls otherwise."""
_MANY = 10
"""A log that says more often that it was resumed says it for another reason, such as an evaluation."""
_BEFORE = 50
"""Rows before a restart that show the level of the gradient norm."""


@dataclass(frozen=True, slots=True)
class AfterRestart:
    """A marked restart: by how much the loss of some rows after it is above the trend of those before.

    `apart` is the mean difference over `rows`, `error` half its interval, `noise` that of one row. `rate` is
    the ratio of the learning rates after and before, `anew` says that they are the run's first ones again,
    `norm` is the ratio of the gradient norms; None where nothing is logged.
    """

    step: float
    rows: int
    apart: float
    error: float
    noise: float
    rate: float | None = None
    anew: bool = False
    norm: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the loss is off its trend by more than it was at earlier places."""
        return abs(self.apart) > max(self.error, SMALLEST * self.noise)

    @property
    def faulty(self) -> bool:
        """Whether it calls for a look: a loss that stays higher, or a schedule that begins again."""
        return (self.differs and self.apart > 0 and self.rows >= LASTS) or self.anew

    def remark(self) -> Remark:
        """Return what is said of the restart."""
        return remark_of_restart(self.step, [self._loss(), *self._beside()], faulty=self.faulty)

    def _loss(self) -> str:
        over = f"over {self.rows:,} rows (noise {self.noise:.2g})"
        if self.differs:
            side = "higher" if self.apart > 0 else "lower"
            return f"the loss is {abs(self.apart):.2g} {side} than the rows before it predict {over}"
        return f"the loss continues as predicted, {self.apart:+.2g} +- {self.error:.2g} {over}"

    def _beside(self) -> Iterator[str]:
        changed = self.rate is not None and abs(self.rate - 1) > SAME_RATE
        if self.anew:
            yield "the learning rates are the run's first ones again: the schedule began again"
        elif changed:
            yield f"the learning rate is {self.rate:.2g} times the one before"
        elif self.rate is not None:
            yield "the learning rate continues"
        raised = self.norm is not None and self.norm > RAISED
        if raised:
            yield f"the gradient norm starts at {self.norm:.2g} times its level"
        if self.differs and self.apart > 0 and not changed and not self.anew:
            yield (
                "the optimiser's state was probably lost"
                if raised
                else "the optimiser's state, the weights or the data may not be those that were saved"
            )


def after_restarts(run: JudgedRun) -> list[AfterRestart]:
    """Return the marked restarts of a run that trained no step twice and can be compared, by step.

    >>> import pandas as pd
    >>> step = np.arange(1.0, 601)
    >>> noise = np.random.default_rng(1).normal(0, 0.02, 600)
    >>> loss = 2 + 3 / step**0.5 + noise + np.where(step > 400, 0.2, 0)
    >>> run = JudgedRun.of(pd.DataFrame({"step": step, "loss": loss}), restarts=(401.0,))
    >>> [restart] = after_restarts(run)
    >>> restart.step, restart.rows, round(restart.apart, 1), restart.faulty
    (401.0, 20, 0.2, True)
    """
    if len(run.restarts) > _MANY:
        return []
    again = set() if run.replaced is None else set(run.replaced["step"].astype(float))
    step, loss = (run.losses[name].to_numpy(float) for name in ("step", "loss"))
    marks = sorted({mark for mark in run.restarts if mark not in again})
    remarks = []
    for place, mark in enumerate(marks):
        at = int(np.searchsorted(step, mark))
        end = int(np.searchsorted(step, marks[place + 1])) if place + 1 < len(marks) else len(step)
        begin = int(np.searchsorted(step, marks[place - 1])) if place else 0
        compared = _compared(step[begin:end], loss[begin:end], at - begin)
        if compared is not None:
            remarks.append(_with_beside(run, float(mark), *compared))
    return remarks


def _compared(step: np.ndarray, loss: np.ndarray, at: int) -> tuple[int, float, float, float] | None:
    """Return rows, mean difference, its error and the noise: of the longest that is off, else the longest."""
    best: tuple[float, tuple[int, float, float, float]] | None = None
    lengths = [rows for rows in LENGTHS if rows < len(loss) - at]
    noise = float(1.4826 * np.median(np.abs(np.diff(loss[:at]))) / np.sqrt(2)) if at > 1 else 0.0
    for rows in lengths:
        places = np.arange(at - rows - 1, _TREND * rows, -rows)[:_MOST]
        if len(places) < _FEWEST:
            continue
        earlier = np.array([_off(step, loss, int(place), rows) for place in places])
        typical = float(np.sqrt(np.mean(earlier**2)))  # with their mean: a curve bends at each of them
        quantile = float(special.stdtrit(len(places) - 1, 1 - LEVEL / 2 / len(lengths)))
        apart = _off(step, loss, at, rows)
        error = typical * quantile * np.sqrt(1 + 1 / len(places))
        candidate = (rows, apart, float(error), noise)
        over = abs(apart) / error if error > 0 else 0.0
        # of lengths that differ the longest is told, and if none does, the longest
        if best is None or over > 1 or best[0] <= 1:
            best = (over, candidate)
    return None if best is None else best[1]


def _off(step: np.ndarray, loss: np.ndarray, at: int, rows: int) -> float:
    """Return the mean of some rows less the line in log step through the medians of the rows before.

    The row of the mark is left out: some readers see a line before they have finished the row above it.
    """
    before = slice(max(at - _TREND * rows, 0), at)
    x, y = np.log(step[before] - step[0] + 1), loss[before]
    halves = np.array_split(np.arange(len(y)), 2)
    (x0, x1), (y0, y1) = ([float(np.median(v[half])) for half in halves] for v in (x, y))
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    after = slice(at + 1, at + 1 + rows)
    ahead = np.log(step[after] - step[0] + 1)
    return float(np.mean(loss[after] - (y1 + slope * (ahead - x1))))


def _with_beside(
    run: JudgedRun, mark: float, rows: int, apart: float, error: float, noise: float
) -> AfterRestart:
    """Return a restart with what the learning rate and the gradient norm show."""
    step, rate = run.values("learning_rate")
    at = int(np.searchsorted(step, mark))
    ratio, anew = None, False
    if 2 <= at < len(rate) and rate[at - 1] > 0:
        ratio = float(rate[at] / rate[at - 1])
        many = min(AT_FIRST, at, len(rate) - at)
        first, after = rate[:many], rate[at : at + many]
        varies = abs(ratio - 1) > SAME_RATE and many == AT_FIRST and bool((first > 0).all())
        anew = varies and bool((np.abs(after / np.where(first > 0, first, 1) - 1) <= SAME_RATE).all())
    norm_step, norms = run.values("grad_norm")
    here = int(np.searchsorted(norm_step, mark))
    before, later = norms[max(here - _BEFORE, 0) : here], norms[here : here + AT_FIRST]
    norm = None
    if len(before) >= AT_FIRST and len(later) >= 2 and np.median(before) > 0:
        norm = float(np.median(later) / np.median(before))
    return AfterRestart(mark, rows, apart, error, noise, ratio, anew, norm)
