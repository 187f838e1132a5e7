"""A loss that stands out: far above the eight before it, or from both sides above or below its neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.core.forms import step_text
from toposcope.logs.glitches import HALF_WINDOW, glitches, medians_in_parts
from toposcope.rules.accuracy import ACCURACY
from toposcope.rules.back import pass_over, spike, spike_passed
from toposcope.rules.rises import FEWEST, LEAST, Scale, noise
from toposcope.rules.rule import LOOK, NOTICED, JudgedRun, LogRow, LogRows, Remark, Rule, Signal
from toposcope.statistics.alarms.residuals import OneStepAhead
from toposcope.statistics.alarms.spending import Spending

LOSS_SPIKE, LOSS_DIP, SPIKES = "loss spike", "loss dip", "spikes"
SEVERAL = 3
"""The fewest spikes of two losses or more in the last half of the log that call for a look."""
FLOOR = 0.02
"""Smallest scale of the logarithms: a steady series may jump by a few of these without an alarm."""
DEGREES = 6.0
"""The loss's tail is at most as heavy as Student's t with this many degrees of freedom; see docs/watch.md."""
_MOST = 20
"""The most spikes that are named one by one."""
_APART = 10
"""Spikes with fewer losses between them count as one of several."""

_SPIKE = 0.1
"""The smallest height of a spike above the median around it, in log loss."""
_AROUND = 51
"""The largest number of losses in that median."""


class LossSpike(Rule):
    """A loss that stands out and comes back is noticed; one that is not back yet calls for a look.

    Looking back, the newest loss is compared with its prediction, one step ahead. From both sides, a loss
    stands out if it exceeds the loss before by 10%, and the running median by 10% and ten robust spreads, and
    the next one does not; or if up to three in a row differ from their neighbours by 28% (`logs.glitches`:
    forecasts leave these out).
    Three or more spikes of at least two losses in the last half of the log call for a look.
    """

    name = LOSS_SPIKE
    kinds = (LOSS_SPIKE, LOSS_DIP, SPIKES)
    unless = (ACCURACY,)
    rate = "0 of 1,135 healthy runs of parameter_golf need a look; in 209 a spike that came back is noticed"
    says = "loss spike at step N (loss is A where B was expected), back to normal by step M, or not back yet"
    share = 1.0
    next = "look at the batch of this step, and go back{back} if the loss does not come down"

    def __init__(self, spending: Spending | None = None) -> None:
        super().__init__(spending)
        self._series = OneStepAhead(floor=FLOOR, least_degrees=DEGREES)

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Look for losses that stand out from both sides."""
        if len(run.losses) < FEWEST:
            return []
        step, loss = run.losses["step"].to_numpy(), run.losses["loss"].to_numpy(float)
        off = _off(loss)
        spikes = excursions(run.scale)
        several = _several(step, spikes) if np.count_nonzero(loss) >= LEAST else None
        late = (step[spikes.first] > step[-1] / 2) & (spikes.length > 1)
        alone = spikes.single | (late if several is None else False)
        # a spike rises from the loss before it: at the end of a dense, steep beginning only the median is low
        back = alone & (spikes.stop < len(step)) & (spikes.first > 1) & spikes.rises
        back &= ~(off[np.maximum(spikes.first - 1, 0)] & ~off[spikes.first])  # the end of a dip is no spike
        passed = [*_spikes(loss, spikes, back), *_glitches(loss, off, spikes, taken=back | late)]
        passed.sort(key=lambda passing: passing.first)
        remarks = [] if several is None else [several]
        return [*remarks, *_noticed(step, passed)]

    def on_row(self, row: LogRow) -> Sequence[Signal]:
        """Judge the newest loss."""
        return spike(self, self._series, row.step, row.loss, "loss")

    def pass_over(self, rows: LogRows, start: int) -> int:
        """Take the losses that are not far above their predictions."""
        return pass_over(self, self._series, rows.loss[start:])

    def passed(self, signal: Signal, rows: pd.DataFrame) -> int | None:
        """Return the step at which the loss was back at its expected level."""
        return spike_passed(signal, rows, "loss")

    def once(self, judged: Sequence[Remark], replayed: Sequence[Remark]) -> Sequence[Remark]:
        """Return what both found, with a spike that the alarm names only in the alarm's words.

        From both sides the end of a dip is no spike, though it is one step ahead.
        """
        replayed = [alarm for alarm in replayed if not any(_ends_dip(remark, alarm) for remark in judged)]
        return [
            *(remark for remark in judged if not any(_same(remark, alarm) for alarm in replayed)),
            *replayed,
        ]


@dataclass(frozen=True, slots=True)
class _Passed:
    """Losses `first` to `stop` that stood out: the farthest one, the level around it, and how far."""

    first: int
    stop: int
    loss: float
    around: float

    @property
    def factor(self) -> float:
        """How many times as high as its neighbours, or as low."""
        ratio = max(self.loss, 1e-12) / max(self.around, 1e-12)
        return max(ratio, 1 / ratio)


def _several(step: np.ndarray, spikes: Excursions) -> Remark | None:
    """Return three or more excursions of at least two losses in the last half; None if there are fewer."""
    late = (step[spikes.first] > step[-1] / 2) & (spikes.length > 1)
    first = spikes.first[late]
    separate = np.r_[True, np.diff(first) > _APART] if len(first) else np.zeros(0, bool)
    if np.count_nonzero(separate) < SEVERAL:
        return None
    at, highest = int(step[first[0]]), max(spikes.factor(k) for k in np.flatnonzero(late))
    sentence = (
        f"{np.count_nonzero(separate)} spikes since step {at:,}, the highest by a factor of {highest:.2g}"
    )
    return Remark(
        LOOK, SPIKES, at, sentence, "look at the data and the gradient norm there, or lower the rate"
    )


def _spikes(loss: np.ndarray, spikes: Excursions, back: np.ndarray) -> Iterator[_Passed]:
    for k in np.flatnonzero(back):
        top = spikes.top(k)
        yield _Passed(int(spikes.first[k]), int(spikes.stop[k]), float(loss[top]), spikes.around(top))


def _off(loss: np.ndarray) -> np.ndarray:
    """Return which losses are glitches, bool of shape (n,)."""
    positive = loss > 0
    if positive.all():
        return glitches(loss)
    off = np.zeros(len(loss), bool)
    off[np.flatnonzero(positive)[glitches(loss[positive])]] = True
    return off


def _glitches(
    loss: np.ndarray, off: np.ndarray, spikes: Excursions, *, taken: np.ndarray
) -> Iterator[_Passed]:
    """Yield the glitches that came back and are not among the excursions that are `taken`."""
    off = off.copy()
    for k in np.flatnonzero(taken):
        off[spikes.first[k] : spikes.stop[k]] = False
    edges = np.flatnonzero(np.diff(np.r_[False, off, False]))
    for first, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop == len(loss):
            continue
        near = loss[max(0, first - HALF_WINDOW) : stop + HALF_WINDOW]
        around = float(np.median(near))
        farthest = first + int(np.argmax(np.abs(np.log(loss[first:stop] / max(around, 1e-300)))))
        yield _Passed(int(first), int(stop), float(loss[farthest]), around)


def _noticed(step: np.ndarray, passed: Sequence[_Passed]) -> list[Remark]:
    """Return a remark for each spike that passed, or a single one where they are many."""
    if len(passed) > _MOST:
        worst = max(passed, key=lambda passing: passing.factor)
        sentence = (
            f"{len(passed):,} losses stood out, the farthest at step {step_text(step[worst.first])}, by a "
            f"factor of {worst.factor:.2f}, and each came back"
        )
        first, last = float(step[passed[0].first]), float(step[passed[-1].stop])
        return [Remark(NOTICED, LOSS_SPIKE, first, sentence, passed=last)]
    return [_in_words(passing, float(step[passing.first]), float(step[passing.stop])) for passing in passed]


def _in_words(passed: _Passed, at: float, back: float) -> Remark:
    kind = LOSS_SPIKE if passed.loss > passed.around else LOSS_DIP
    sentence = (
        f"{kind} at step {step_text(at)} (loss is {passed.loss:.4g} where {passed.around:.4g} is around it), "
        f"back to normal by step {step_text(back)}"
    )
    return Remark(NOTICED, kind, at, sentence, passed=back)


def _ends_dip(judged: Remark, alarm: Remark) -> bool:
    """Return whether an alarm that passed is the return from a dip."""
    if judged.kind != LOSS_DIP or None in (judged.passed, judged.step, alarm.step, alarm.passed):
        return False
    return bool(judged.step <= alarm.step <= judged.passed)  # type: ignore[operator]


def _same(judged: Remark, alarm: Remark) -> bool:
    """Return whether a spike that passed is the one that an alarm names."""
    if judged.passed is None or judged.step is None or alarm.step is None:
        return False
    ends = np.inf if alarm.passed is None else alarm.passed
    return bool(judged.step <= ends and alarm.step <= judged.passed)


@dataclass(frozen=True, slots=True)
class Excursions:
    """Where losses are above the running median: `first` and `stop` (k,) of each stretch.

    `above` (n,) is how far each loss is above it, on the `scale`.
    """

    scale: Scale
    above: np.ndarray
    first: np.ndarray
    stop: np.ndarray

    @property
    def length(self) -> np.ndarray:
        """The number of losses in each, int of shape (k,)."""
        return self.stop - self.first

    @property
    def single(self) -> np.ndarray:
        """Which are one loss, bool of shape (k,)."""
        return self.length == 1

    @property
    def rises(self) -> np.ndarray:
        """Which exceed the loss before them by the height of a spike, bool of shape (k,)."""
        value = self.scale.value
        tops = np.array([self.top(k) for k in range(len(self.first))], int)
        return value[tops] - value[np.maximum(self.first - 1, 0)] > _SPIKE

    def top(self, k: int | np.integer) -> int:
        """Return the place of the highest loss of an excursion above the running median."""
        return int(self.first[k]) + int(np.argmax(self.above[self.first[k] : self.stop[k]]))

    def around(self, place: int) -> float:
        """Return the running median at a place, as a loss."""
        return self.scale.loss(float(self.scale.value[place] - self.above[place]))

    def factor(self, k: int | np.integer) -> float:
        """Return the ratio of the highest loss of an excursion to the running median."""
        place = self.top(k)
        return self.scale.loss(float(self.scale.value[place])) / max(self.around(place), 1e-12)


def excursions(scale: Scale) -> Excursions:
    """Return the stretches above the running median by 10% and ten robust spreads, and by 1% of the fall."""
    value = scale.value
    around = min(_AROUND, len(value) // 2 * 2 - 1) if len(value) >= 3 else 1
    limit = max(_SPIKE, 10 * noise(value) if len(value) > 3 else math.inf)
    above = np.empty(len(value))
    out = np.zeros(len(value), bool)
    for part, middle in medians_in_parts(value, around, (around + 1) // 2):
        np.subtract(value[part], middle, out=above[part])
        high = np.flatnonzero(above[part] > limit)
        rise = np.exp(value[part][high]) - np.exp(middle[high])
        out[part][high] = rise > scale.trifle * scale.won
    edges = np.flatnonzero(np.diff(np.r_[False, out, False]))
    return Excursions(scale, above, edges[::2], edges[1::2])
