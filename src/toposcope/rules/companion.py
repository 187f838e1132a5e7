"""What the rules of the columns beside a policy's loss have in common: they look back, record by record.

A record is a row that has a number in the column. A rule compares the last five records with a level from
records that are old enough to be from before the change. It sets its limit at the record where it first
finds something wrong, and keeps this limit until all of the last five are back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd

from toposcope.core.forms import step_text
from toposcope.logs.described import loss_column
from toposcope.logs.objective import Companion, Direction, companions
from toposcope.rules.rule import LOOK, NOTICED, JudgedRun, Remark, Rule, Signal

RECENT = 5
"""A single record may be an accident of one batch: all of the last five must agree."""
GAP = 20
"""A collapse takes up to 20 records, so the level before it is read from records that are older."""
HISTORY = 20
"""The fewest records that make a level to compare with."""


class Limits(NamedTuple):
    """What is wrong at each record (n,): the last five all below `below`, or above `above`; NaN: unknown."""

    below: np.ndarray
    above: np.ndarray


class Episode(NamedTuple):
    """A stretch of records at which something is wrong, `stop` excluded, and whether the column fell."""

    start: int
    stop: int
    fell: bool


class CompanionRule(Rule):
    """A rule of one direction; a subclass has `directions`, `next` and `limits`.

    `judge` says what still holds at the last record at the level `LOOK`, and what has passed as `NOTICED`.
    """

    directions: ClassVar[tuple[Direction, ...]] = ()
    """The directions of the columns that it judges."""
    rate = (
        "2 of 1,200 simulated healthy runs have an alarm of any of these rules at their end (docs/check.md)"
    )
    """What to do."""
    of_trend = False

    def limits(self, values: np.ndarray) -> Limits:
        """Return the limits at each record of a column (n,), from the records up to it."""
        raise NotImplementedError

    def level_of(self, run: JudgedRun, step: float) -> str:
        """Return the level of something wrong that still holds and began at a step."""
        return LOOK

    def series(self, run: JudgedRun, column: Companion) -> tuple[np.ndarray, np.ndarray]:
        """Return step and value of every record that is judged."""
        return records(run, column)

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Return a remark for each judged column in which something is or was wrong."""
        if not run.by_companions:
            return ()
        return [remark for column in self.judged(run) for remark in self._remarks(run, column)]

    def judged(self, run: JudgedRun) -> list[Companion]:
        """Return the columns that it judges in a run."""
        return [
            companion
            for companion in companions(run.rows, run.column)
            if companion.direction in self.directions
        ]

    def signals(self, run: JudgedRun) -> list[Signal]:
        """Return a signal at each record at which something begins to be wrong; later records change none."""
        return [
            Signal(
                int(step[episode.start]),
                self._sentence(column, step, values[: episode.start + 1], episode),
                noticed=mild,
            )
            for column, step, values in self._series(run)
            for episode in episodes(values, self.limits(values))
            for mild in [self._is_mild(run, step, episode)]
        ]

    def passed(self, signal: Signal, rows: pd.DataFrame) -> int | None:
        """Return the step of the log at which all of the last five are back; None while they are not."""
        run = JudgedRun.of(rows, column=loss_column(rows))
        return next(
            (
                int(step[episode.stop])
                for _, step, values in self._series(run)
                for episode in episodes(values, self.limits(values))
                if step[episode.start] == signal.step and episode.stop < len(values)
            ),
            None,
        )

    def _series(self, run: JudgedRun) -> list[tuple[Companion, np.ndarray, np.ndarray]]:
        """Return each judged column of a run with step and value of its records; none for another loss."""
        if not run.by_companions:
            return []
        histories = [(column, *self.series(run, column)) for column in self.judged(run)]
        return [history for history in histories if len(history[1])]

    def _is_mild(self, run: JudgedRun, step: np.ndarray, episode: Episode) -> bool:
        """Return whether something wrong needs no action, by the log up to the record where it is found."""
        seen = replace(run, rows=run.rows[run.rows["step"] <= step[episode.start]])
        return self.level_of(seen, float(step[max(0, episode.start - RECENT)])) == NOTICED

    def _sentence(self, column: Companion, step: np.ndarray, values: np.ndarray, episode: Episode) -> str:
        """Return how far a column went by the last of some records, in words."""
        since = f"step {step_text(float(step[max(0, episode.start - RECENT)]))}"
        return _sentence(_called(column), values, episode._replace(stop=len(values)), since)

    def _remarks(self, run: JudgedRun, column: Companion) -> list[Remark]:
        step, values = self.series(run, column)
        episodes_found = list(episodes(values, self.limits(values))) if len(values) else []
        if not episodes_found:
            return []
        last = episodes_found[-1]
        since = float(step[max(0, last.start - RECENT)])
        sentence = _sentence(_called(column), values, last, f"step {step_text(since)}")
        if last.stop == len(values):
            level = self.level_of(run, since)
            return [Remark(level, self.name, since, sentence, "" if level == NOTICED else self.next)]
        over = float(step[last.stop])
        return [Remark(NOTICED, self.name, since, f"{sentence}, back by step {step_text(over)}", passed=over)]


def records(run: JudgedRun, column: Companion) -> tuple[np.ndarray, np.ndarray]:
    """Return step and value of every record of a column, with the sign of its direction."""
    step, values = run.values(column.name)
    return step, -values if column.negated else values


def level_before(
    values: np.ndarray, quantile: float, *, window: int, gap: int = GAP, fewest: int = HISTORY
) -> np.ndarray:
    """Return at each record a quantile of the `window` records that end `gap` before it; NaN for too few."""
    rolled = pd.Series(values).rolling(window, min_periods=fewest).quantile(quantile).shift(gap)
    return rolled.to_numpy(float, copy=True)


def unlimited(values: np.ndarray) -> np.ndarray:
    """Return a limit that nothing exceeds, NaN at each record."""
    return np.full(len(values), math.nan)


def episodes(values: np.ndarray, limits: Limits) -> Iterator[Episode]:
    """Yield the stretches at which the last five records all lie beyond a limit, in order.

    >>> never = np.full(8, math.nan)
    >>> low = np.array([9, 9, 0, 0, 0, 0, 0, 9.0])
    >>> [(one.start, one.stop) for one in episodes(low, Limits(np.ones(8), never))]
    [(6, 8)]
    """
    if len(values) < RECENT:
        return
    recent = np.lib.stride_tricks.sliding_window_view(values, RECENT)
    highest = np.r_[np.full(RECENT - 1, math.nan), recent.max(axis=1)]
    lowest = np.r_[np.full(RECENT - 1, math.nan), recent.min(axis=1)]
    place = 0
    while place < len(values):
        fell = highest[place:] < limits.below[place:]
        wrong = np.flatnonzero(fell | (lowest[place:] > limits.above[place:]))
        if not len(wrong):
            return
        start = place + int(wrong[0])
        down = bool(fell[wrong[0]])
        back = lowest[start:] >= limits.below[start] if down else highest[start:] <= limits.above[start]
        stop = start + int(np.argmax(back)) if back.any() else len(values)
        first_back = stop - RECENT + 1 if stop < len(values) else stop
        yield Episode(start, max(start + 1, first_back), down)
        place = stop


def _sentence(label: str, values: np.ndarray, episode: Episode, since: str) -> str:
    """Return how far a column went since a step, in words."""
    before = values[max(0, episode.start - RECENT - GAP - HISTORY) : max(1, episode.start - GAP)]
    now = float(np.median(values[max(0, episode.stop - RECENT) : episode.stop]))
    way = "fell" if episode.fell else "rose"
    return f"{label} {way} from {float(np.median(before)):.3g} to {now:.3g} since about {since}"


def _called(column: Companion) -> str:
    """Return a column by what it is, with its name where that is another."""
    direction = column.direction.value
    return direction if column.name == direction else f"{direction} ({column.name})"
