"""Training losses that are lower than learning makes them: beside a held-out loss, or all at once.

The rates are in docs/forecasting-evidence.md, "How often the health of a loss curve is right". No constant
was set on the runs and draws of that table (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.rules.accuracy import ACCURACY
from toposcope.rules.rises import noise, scaled
from toposcope.rules.rule import HEALTH_RATE, LOOK, JudgedRun, Remark, Rule
from toposcope.statistics.alarms.residuals import levels

OVERFITTING, FAR_BELOW, SUDDEN_FALL = "overfitting", "far below held-out", "sudden fall"

RISEN = 0.03
"""Each of the last three held-out losses must exceed the lowest level of three by this log loss."""
SPREADS = 4.0
"""They must also exceed it by this many standard errors of such a level."""
FAR, BESIDE = 0.5, 0.75
"""A training loss below half of the held-out one is far below it, if it was at least three quarters of it."""
LEVEL, SHORTEST, AT_LEAST = 8, 16, 64
"""Losses in a level, in the shortest stretch over which it may fall, and in a log that is judged."""
FELL, TIMES, SKIPPED = 0.5, 2.5, 10
"""The least fall of the logarithm below the lowest level before, how many times the largest fall before, and
the share of first falls that are skipped, as a divisor, since a run begins with its steepest fall. At least
as many are skipped as a stretch has losses. On 1,172 healthy curves no such fall is 1.5 times as large."""
LOWERED = 0.5
"""A learning rate that fell to half at once explains a fall."""
FEWEST = 8
"""The fewest losses of each kind for a judgement."""
_WINDOW = 3
"""The number of held-out losses whose median is a level; the last ones must all exceed the lowest level."""
_TOGETHER = 1 << 18
"""Places that are searched together for a sudden fall: 2 MB for each number of them."""


class Overfitting(Rule):
    """The held-out loss rises while the training loss falls, or the training loss is far below it.

    It is far below if it is at least three quarters of the held-out loss at one evaluation, and less than
    half of it three evaluations later and ever after: a gap that opens slowly is learning by heart.
    """

    name = OVERFITTING
    kinds = (OVERFITTING, FAR_BELOW)
    reads = ("loss", "heldout_loss")
    rate = HEALTH_RATE
    next = "take an earlier checkpoint, or use more data or regularization"
    says = "the held-out loss rose from A at step N to B at step M, while the training loss fell from C to D"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare the last three held-out losses with the lowest level of three."""
        held = run.losses_of("heldout_loss")
        if len(held) < FEWEST:
            return []
        train = run.losses_of("loss")
        if len(train) < FEWEST:
            return []
        return self._rising(held, train) or self._far_below(held, train)

    def _rising(self, held: pd.DataFrame, train: pd.DataFrame) -> Sequence[Remark]:
        step, scale = held["step"].to_numpy(float), scaled(held["loss"].to_numpy(float))
        of = levels(scale.value, _WINDOW)
        low = int(np.argmin(of))
        level, now = float(of[low]), float(scale.value[-_WINDOW:].min())
        error = 1.2533 * noise(scale.value) / math.sqrt(_WINDOW)
        if now - level <= max(RISEN, SPREADS * error) or scale.share(level, now) < scale.trifle:
            return []
        at = step[low + _WINDOW // 2]
        was, last = _level_at(train, at), _level_at(train, float(step[-1]))
        if last >= was:
            return []
        held_now = scale.loss(float(of[-1]))
        sentence = (
            f"the held-out loss rose from {scale.loss(level):.3g} at step {int(at):,} to {held_now:.3g} at "
            f"step {int(step[-1]):,}, while the training loss fell from {was:.3g} to {last:.3g}"
        )
        remedy = f"take a checkpoint near step {int(at):,}, or use more data or regularization"
        return [Remark(LOOK, OVERFITTING, int(at), sentence, remedy)]

    def _far_below(self, held: pd.DataFrame, train: pd.DataFrame) -> Sequence[Remark]:
        step, level = (
            held["step"].to_numpy(float)[_WINDOW - 1 :],
            levels(held["loss"].to_numpy(float), _WINDOW),
        )
        share = np.array([_level_at(train, at) for at in step]) / np.maximum(level, 1e-300)
        beside = np.flatnonzero(share >= BESIDE)
        if (
            not len(beside)
            or not share[beside[-1] + _WINDOW :].max(initial=0.0) < FAR
            or beside[-1] + _WINDOW >= len(share)
        ):
            return []
        at = step[beside[-1]]
        sentence = (
            f"the training loss was {share[beside[-1]]:.0%} of the held-out loss at step {int(at):,} and is "
            f"{share[-1]:.0%} of it at step {int(step[-1]):,}: {share[-1] * level[-1]:.3g} against "
            f"{level[-1]:.3g}"
        )
        remedy = (
            "check whether batches are repeated or targets are in the input; else it memorizes: use more data"
        )
        return [Remark(LOOK, FAR_BELOW, int(at), sentence, remedy)]


class SuddenFall(Rule):
    """The level of the loss falls by far more, in a stretch of the log, than it ever did before, and stays.

    A level is the median of eight losses. Over 16, 32, 64, ... losses it falls to 60% or less of its lowest
    value, and two and a half times as far as in any stretch of that length before. A learning rate that fell
    to half at once there explains it.
    """

    name = SUDDEN_FALL
    reads = ("loss", "learning_rate")
    unless = (ACCURACY,)
    rate = "0 of 1,172 healthy curves (docs/forecasting.md)"
    next = "check whether batches are repeated, targets are in the input, or the data changed there"
    says = (
        "the loss fell from A at step N to B at step M, over 2.5 times as far as in any such stretch before"
    )

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare each fall of the level with those before it, the shortest stretches first."""
        if len(run.losses) < AT_LEAST:
            return []
        level, stretch = levels(run.scale.value, LEVEL), SHORTEST
        while stretch <= len(level) // 3:
            start = _sudden(level, stretch)
            if start is not None and not _rate_fell(run, start, start + stretch + LEVEL):
                return [_fall_in_words(run, start, start + stretch + LEVEL - 1)]
            stretch *= 2
        return []


def _sudden(level: np.ndarray, stretch: int) -> int | None:
    """Return where the level begins to fall as it never did over so many losses; None if it does not."""
    count = len(level) - stretch
    first, apart = max(count // SKIPPED, stretch), stretch + LEVEL
    start = _beyond(level, stretch, first, apart)
    if start is None:
        return None
    start += int(np.argmax(_fell(level, stretch, start, min(start + apart, count))))
    stays = level[start + stretch :].max() <= (level[start] + level[start + stretch]) / 2
    return start if stays else None


def _fell(level: np.ndarray, stretch: int, first: int, stop: int) -> np.ndarray:
    """Return how far the level falls over a stretch that begins at each place from `first` to `stop`."""
    fell: np.ndarray = level[first:stop] - level[first + stretch : stop + stretch]
    return fell


def _beyond(level: np.ndarray, stretch: int, first: int, apart: int) -> int | None:
    """Return the first place where the level falls by far more than from `first` on, and below all before.

    The falls that count as before had ended, `apart` places earlier. A long log is searched part by part.
    """
    begin, count = first + apart, len(level) - stretch
    most, lowest = -np.inf, level[:begin].min(initial=np.inf)
    for place in range(begin, count, _TOGETHER):
        stop = min(place + _TOGETHER, count)
        before = np.maximum.accumulate(_fell(level, stretch, place - apart, stop - apart))
        before, low = np.maximum(before, most), np.minimum(np.minimum.accumulate(level[place:stop]), lowest)
        most, lowest = before[-1], low[-1]
        far = _fell(level, stretch, place, stop) >= TIMES * np.maximum(before, 0.0)
        beyond = np.flatnonzero((low - level[place + stretch : stop + stretch] >= FELL) & far)
        if len(beyond):
            return place + int(beyond[0])
    return None


def _rate_fell(run: JudgedRun, first: int, last: int) -> bool:
    """Return whether the learning rate fell to half from one loss to the next, as on a staircase."""
    if "rate" not in run.losses:
        return False
    rate = run.losses["rate"].to_numpy(float)[first : last + 1]
    return bool((rate[1:] <= LOWERED * rate[:-1]).any())


def _fall_in_words(run: JudgedRun, first: int, last: int) -> Remark:
    step, loss = run.losses["step"].to_numpy(float), run.losses["loss"].to_numpy(float)
    was, now = (
        float(np.median(loss[first : first + LEVEL])),
        float(np.median(loss[last - LEVEL + 1 : last + 1])),
    )
    sentence = (
        f"the loss fell from {was:.3g} at step {int(step[first]):,} to {now:.3g} at step "
        f"{int(step[last]):,}, over {TIMES:g} times as far as in any such stretch before"
    )
    remedy = "check whether batches are repeated, targets are in the input, or the data changed there"
    return Remark(LOOK, SUDDEN_FALL, int(step[first]), sentence, remedy)


def _level_at(train: pd.DataFrame, step: float) -> float:
    """Return the median of the last 5% of the training losses up to a step, at least three."""
    seen = train.loc[train["step"] <= step, "loss"].to_numpy(float)
    if not len(seen):
        return math.inf
    return float(np.median(seen[-max(_WINDOW, len(train) // 20) :]))
