"""Steps that were trained twice: what the second pass differs in, and what it points to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from toposcope.core.forms import step_text
from toposcope.logs.remarks import LOOK, NOTICED, Remark
from toposcope.rules.judged_run import JudgedRun

FEWEST = 5
"""Pairs of losses that are compared at least: the spread of fewer says nothing."""
LEVEL = 0.01
"""The level of the test of one restart; a run may have several."""
SMALLEST = 0.05
"""A mean difference below this share of the noise of one row changes nothing, however certain it is."""
_GAP = 10.0
"""Replaced rows that are this many times as far apart as usual belong to two restarts."""
_BEFORE = 200
"""Rows before a restart, or five times as many as were trained twice, that show how means of rows vary."""
_STRETCHES = 8
"""The fewest stretches of rows whose means are compared."""
AT_FIRST = 5
"""Rows after a restart whose gradient norm is compared: what a lost state does, it does at once."""
RAISED = 1.5
"""A gradient norm above this multiple of the first time's, in each of these rows, is raised."""
SAME_RATE = 0.02
"""Learning rates that differ by less than 2% are equal: logs round them."""
_SAME_BATCHES = 0.5
"""The least rank correlation of the rows' noise if the batches are the same; it must be far from 0, too."""
_FAR = 3.0
"""That many standard errors from 0."""


class Mean(NamedTuple):
    """A mean difference, and half its interval of 99%."""

    value: float
    error: float

    def differs(self, noise: float) -> bool:
        """Whether it is beyond its error, and large enough to matter beside the noise of one row."""
        return abs(self.value) > max(self.error, SMALLEST * noise)


@dataclass(frozen=True, slots=True)
class TrainedTwice:
    """One stretch of steps that were trained twice; differences are losses of the second pass less the first.

    `whole`, `early` and `late` are their means over all rows, the first third and the last third, `noise` is
    that of one row, `first` the first difference. `rate` and `norm` are ratios, second to first, None where
    nothing is logged; `anew` says that the learning rates are the run's first ones again. `batches` are
    "same", "the first of the run" or "" (others).
    """

    step: float
    rows: int
    whole: Mean
    early: Mean
    late: Mean
    noise: float
    first: float
    rate: float | None = None
    anew: bool = False
    norm: float | None = None
    batches: str = ""

    @property
    def lasts(self) -> bool:
        """Whether all rows differ, and the last third still does, in the same direction."""
        both = self.whole.differs(self.noise) and self.late.differs(self.noise)
        return both and self.whole.value * self.late.value > 0

    @property
    def faulty(self) -> bool:
        """Whether it calls for a look: a loss that stays higher, a schedule or batches that begin again."""
        return (self.lasts and self.late.value > 0) or self.anew or self.batches == BEGINNING

    def remark(self) -> Remark:
        """Return what is said of the restart."""
        return remark_of_restart(self.step, [self._loss(), *self._beside()], faulty=self.faulty)

    @property
    def _shown(self) -> Mean:
        """The mean that is told: of the first rows, if they alone differ."""
        return self.early if self.early.differs(self.noise) and not self.lasts else self.whole

    def _loss(self) -> str:
        over, noise = f"over {self.rows:,} rows", f"(noise {_short(self.noise)})"
        if self._shown.differs(self.noise):
            back = "" if self.lasts else ", and back in the last third"
            first = " at first" if self._shown is self.early else ""
            return f"the loss is {_apart(self._shown)} than the first time{first} {over} {noise}{back}"
        if self.whole == (0, 0):
            return f"the loss continues as the first time, the same over {self.rows:,} rows"
        mean = f"{self.whole.value:+.2g} +- {_short(self.whole.error)}"
        return f"the loss continues as the first time, {mean} {over} {noise}"

    def _beside(self) -> Iterator[str]:
        changed = self.rate is not None and abs(self.rate - 1) > SAME_RATE
        if changed:
            again = ", as at the run's beginning: the schedule began again" if self.anew else ""
            yield f"the learning rate is {_short(self.rate or 0)} times that of the first time{again}"
        elif self.rate is not None:
            yield "the learning rate continues"
        raised = self.norm is not None and self.norm > RAISED
        if raised:
            yield f"the gradient norm starts at {_short(self.norm or 0)} times its level"
        if self.batches == BEGINNING:
            yield "the batches are the first of the run again: the data loader was probably not resumed"
        if self._shown.differs(self.noise) and self._shown.value > 0 and not changed:
            yield self._cause(raised=raised)

    def _cause(self, *, raised: bool) -> str:
        if self.batches == SAME and self.first > max(self.noise, self.early.error):
            return (
                "the first row differs already: other weights, or weights of another precision, were loaded"
            )
        if raised or self.batches == SAME:
            return "the optimiser's state was probably lost"
        return "the optimiser's state, the weights or the data may not be those of the first time"


SAME, BEGINNING = "same", "the first of the run"


def remark_of_restart(step: float, said: Sequence[str], *, faulty: bool) -> Remark:
    """Return what is said of a restart, with or without steps that were trained twice."""
    remedy = "compare what the restart loaded with what was saved" if faulty else ""
    sentence = f"restarted at step {step_text(step)}: {'; '.join(said)}"
    return Remark(LOOK if faulty else NOTICED, "restart", step, sentence, remedy)


def trained_twice(run: JudgedRun) -> list[TrainedTwice]:
    """Return the stretches of a run's log that were trained twice and can be compared, by step.

    >>> step = np.arange(1.0, 61)
    >>> noise = np.random.default_rng(1).normal(0, 0.02, 100)
    >>> first = pd.DataFrame({"step": step, "loss": 2 + 3 / step + noise[:60]})
    >>> again = first[40:].assign(loss=first["loss"][40:] + 0.3)
    >>> run = JudgedRun.of(pd.concat([first[:40], again]), replaced=first[40:])
    >>> [restart] = trained_twice(run)
    >>> restart.step, round(restart.whole.value, 2), restart.batches
    (41.0, 0.3, 'same')
    """
    kept = run.losses
    return [comparison for rows in _stretches(run) if (comparison := _compared(run, kept, rows)) is not None]


def _stretches(run: JudgedRun) -> Iterator[pd.DataFrame]:
    """Yield the replaced rows of each restart: their steps rise without a gap."""
    if run.replaced is None or run.column not in run.replaced:
        return
    rows = run.replaced[np.isfinite(run.replaced[run.column].to_numpy(float))]
    apart = np.diff(rows["step"].to_numpy(float))
    usual = np.median(apart[apart > 0]) if (apart > 0).any() else 1.0
    begins = np.flatnonzero((apart < 0) | (apart > _GAP * usual)) + 1
    for part in np.split(np.arange(len(rows)), begins):
        yield rows.iloc[part].drop_duplicates("step", keep="last")


def _compared(run: JudgedRun, kept: pd.DataFrame, rows: pd.DataFrame) -> TrainedTwice | None:
    both = rows.merge(kept, on="step", suffixes=(" first", ""))
    first, second = both[f"{run.column} first" if run.column == "loss" else run.column], both["loss"]
    if len(both) < FEWEST:
        return None
    before, after = first.to_numpy(float), second.to_numpy(float)
    step = both["step"].to_numpy(float)
    earlier = kept["loss"].to_numpy(float)[kept["step"].to_numpy(float) < step[0]]
    apart = after - before
    third = max(FEWEST, len(apart) // 3)
    so_far = np.r_[earlier, before]
    history = so_far[len(so_far) // 2 :][
        -max(_BEFORE, 5 * len(apart)) :
    ]  # a parabola follows half of a curve
    batches = _batches(before, after, earlier)
    # two passes over the same batches differ by less than those over others: their own spread is taken
    source = apart[-max(len(apart) // 2, FEWEST) :] if batches == SAME else np.sqrt(2) * history
    whole, early, late = (
        Mean(float(part.mean()), _error(source, len(part))) for part in (apart, apart[:third], apart[-third:])
    )
    ratio = _ratio(run, rows, "learning_rate")
    anew = ratio is not None and abs(ratio - 1) > SAME_RATE and _began_again(run, rows)
    return TrainedTwice(
        float(step[0]), len(both), whole, early, late, _noise(history), float(apart[0]),
        ratio, anew, _raised(run, rows, step[0]),
        batches,
    )  # fmt: skip


def _noise(loss: np.ndarray) -> float:
    """Return the noise of one row, by its median change to the next: trends and spikes hardly move it."""
    return float(1.4826 * np.median(np.abs(np.diff(loss))) / np.sqrt(2))


def _error(values: np.ndarray, rows: int) -> float:
    """Return half the 99% interval of a mean of some rows, from the spread of others about their trend.

    The larger of two errors: neighbours of a smoothed log are correlated, so that n rows are worth
    n (1 - r) / (1 + r); and data come in stretches, whose means then differ by more than that.
    """
    n = len(values)
    place = np.linspace(-1, 1, n)
    rest = values - np.polyval(np.polyfit(place, values, min(2, n - 3)), place)
    squares = float((rest**2).sum())
    near = float((rest[1:] * rest[:-1]).sum()) / squares if squares > 0 else 0.0
    near += (1 + 4 * near) / n  # the estimate is too low by this (Marriott and Pope 1954)
    free = (1 - min(max(near, 0.0), 0.99)) / (1 + min(max(near, 0.0), 0.99))
    errors = [np.sqrt(squares / (n - 2) / max(rows * free, 1.0)) * _quantile(n * free - 3)]
    width = min(rows, n // _STRETCHES)
    if width > 1:
        means = rest[: n // width * width].reshape(-1, width).mean(axis=1)
        errors.append(means.std(ddof=1) * np.sqrt(width / rows) * _quantile(len(means) - 3))
    return float(max(errors))


def _quantile(free: float) -> float:
    return float(special.stdtrit(max(free, 2.0), 1 - LEVEL / 2))


def _ratio(run: JudgedRun, rows: pd.DataFrame, name: str) -> float | None:
    """Return the median ratio of a column, second pass to first; None where it is not logged in both."""
    if name not in rows or name not in run.rows:
        return None
    both = rows[["step", name]].merge(run.rows[["step", name]], on="step", suffixes=("", " again")).dropna()
    both = both[both[name] > 0]
    return float((both[f"{name} again"] / both[name]).median()) if len(both) else None


def _began_again(run: JudgedRun, rows: pd.DataFrame) -> bool:
    """Return whether the learning rates of the second pass are those of the run's first rows."""
    step, rate = run.values("learning_rate")
    start = int(np.searchsorted(step, rows["step"].min()))
    after = rate[start : start + min(len(rows), start)]
    first = rate[: len(after)]
    if len(after) < FEWEST or not (first > 0).all():
        return False
    return bool((np.abs(after / first - 1) <= SAME_RATE).all())


def _raised(run: JudgedRun, rows: pd.DataFrame, start: float) -> float | None:
    """Return the ratio of the gradient norms in the first rows after a restart to their level before it."""
    step, norm = run.values("grad_norm")
    if "grad_norm" not in rows or not len(step):
        return None
    first = rows["grad_norm"].dropna().to_numpy(float)
    after = norm[step >= start][:AT_FIRST]
    if len(first) < FEWEST or len(after) < 2 or not np.median(first) > 0:
        return None
    return float(np.median(after) / np.median(first))


def _batches(before: np.ndarray, after: np.ndarray, earlier: np.ndarray) -> str:
    """Return whether the second pass saw the batches of the first, or those of the run's beginning."""
    if _alike(before, after):
        return SAME
    rows = min(len(earlier), len(after))
    return BEGINNING if _alike(earlier[:rows], after[:rows]) else ""


def _alike(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether the noise of two series of rows is that of the same batches."""
    changes = [np.argsort(np.argsort(np.diff(curve, 2))) for curve in (left, right)]
    n = len(changes[0])
    if n < FEWEST:
        return False
    correlation = min(float(np.corrcoef(changes[0], changes[1])[0, 1]), 0.9999)
    # second differences of white noise are correlated with their neighbours (-2/3): half as many are free
    return correlation > _SAME_BATCHES and float(np.arctanh(correlation)) * max(n / 2 - 3, 1) ** 0.5 > _FAR


def _apart(mean: Mean) -> str:
    return f"{_short(abs(mean.value))} {'higher' if mean.value > 0 else 'lower'}"


def _short(value: float) -> str:
    return f"{value:.2g}"
