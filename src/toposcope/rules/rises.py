"""Finds rises of a loss above its lowest level, and their kind.

Constants were set on every second run of each set and on draws below 1000. The rates on the others are in
docs/forecasting-evidence.md, "How often the health of a loss curve is right" (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile
from toposcope.logs.glitches import median_of
from toposcope.logs.remarks import DIVERGING
from toposcope.statistics.alarms.residuals import levels, lowest_level

DIVERGED = 0.05
"""Recent losses must exceed the lowest level of the run by this log loss."""
SPREADS = 6.0
"""They must also exceed it by this many standard errors of a window's level."""
WON = 0.01
"""A rise below this share of the run's fall (first level less lowest) is negligible."""
SOLVED, LOST, UNSOLVED = 0.05, 0.1, 0.25
"""A loss below a twentieth of the fall has solved its task; there, a rise up to a tenth is negligible. From
there to a quarter of the fall, the share that is negligible goes down to `WON`."""
LEAST = 40
"""The fewest losses for windows of seven; with fewer, the last three must have risen by 35%."""
FEWEST = 6
"""With fewer losses only the rule for losses that are not finite applies."""
SHARES = (0.05, 0.01)
"""Windows at the end of a log that are compared with the lowest level: a slow climb, a sudden jump."""
REGAINED, FEW_REGAINED = 0.1, 0.25
"""Share of a rise that a run must have won back to be falling again; the same with fewer than 40 losses."""
STILL, LATE = (0.1, 0.25), 0.1
"""Share of the remaining rise that the run must keep winning back: at first, and later than a tenth of the
log after the top."""
COLLAPSED = (0.25, 0.1)
"""A level that stays is a collapse if it is higher by 25% of the loss and a tenth of the run's fall; if not,
it is a shift."""
HALVED, BEFORE = 12, 20
"""With this many losses since a rise's top, only their second half counts; and the fewest before the rise."""
RATE_RAISED, KNOWN, RECENT = 1.25, 1.1, 0.2
"""A rate was raised if it grew by a quarter, to at most 1.1 of its earlier peak, in the log's last fifth."""
CONFIRMED = 1 / 3
"""Share of a rise that the second-to-last loss must show to confirm it; an even climb over three has 1/2."""
_TAKEN = 0.5
"""A rise that a higher rate excuses may take at most this share of what was won."""
_KNEES = 60
"""The largest number of positions tried for a bend in a line; the time of a judgement grows with it."""

RESTART, FALLING, SHIFT, AGAIN = "rate raised", "falling again", "higher level", "rose before"

_WINDOW, _FEW_WINDOW, _FEW_DIVERGED = 7, 3, 0.3
"""Losses in a window; in a log of fewer than `LEAST`; and the log loss by which these must have risen."""
_SHORT, _LINE = 200, 0.03
"""With fewer losses, the end of a line through the last fifth is tested; and how far it has to rise."""
_LAST = {2: math.log(1.5), 1: math.log(3.0)}
"""The last two losses, or the last one alone, must exceed the lowest level by this log loss."""
_SWINGS, _SWUNG, _SWUNG_WON = 3.0, 0.1, 0.05
"""Swings have grown if they are threefold, and at least 10% of the loss and a twentieth of what was won."""
_BLOCKS, _TURNS, _QUARTERS = 5, 3, (0.25, 0.75)
"""Parts of each half whose widths are compared, turns that make a swing, and the quantiles of a width."""


@dataclass(frozen=True, slots=True)
class Rise:
    """A rise: its kind, the position before it, the lowest level, the highest since, and the level now."""

    kind: str
    start: int
    low: float
    top: float
    now: float
    width: float = 0.0
    """Size of the swings at the end, as a share of the loss, where these grow."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Losses on the scale that rises are judged on: log(loss + `floor`), 1% of what the run has `won`.

    Changes far below the floor do not show: a loss of 3e-7 that jitters is 0. `trifle` is the share of the
    run's fall below which a rise does not count.
    """

    value: np.ndarray
    won: float
    floor: float
    trifle: float = WON

    def loss(self, value: float) -> float:
        """Return the loss at a value of the scale."""
        return max(0.0, math.exp(value) - self.floor)

    def share(self, low: float, high: float) -> float:
        """Return a rise as a share of what the run had won; infinite if it never won anything."""
        return (math.exp(high) - math.exp(low)) / self.won if self.won > 0 else math.inf


def scaled(loss: np.ndarray) -> Scale:
    """Return the finite losses of one run, none below 0, on the scale of rises.

    >>> made = scaled(np.array([4.0, 4.0, 4.0, 1e-6, 1e-4, 1e-7]))
    >>> round(made.won, 3), bool(np.ptp(made.value[3:]) < 0.01)
    (4.0, True)
    """
    window = _FEW_WINDOW if len(loss) < LEAST else _WINDOW
    low = float(np.min(levels(loss, min(window, len(loss)))))
    won = max(0.0, float(np.median(loss[:3])) - low)
    floor = WON * won or 1e-12
    unsolved = float(np.clip((low / won - SOLVED) / (UNSOLVED - SOLVED), 0.0, 1.0)) if won else 1.0
    return Scale(np.log(loss + floor), won, floor, LOST + unsolved * (WON - LOST))


def find(scale: Scale, rate: np.ndarray | None = None) -> Rise | None:
    """Return the rise at the end of a log with its kind; None if there is none.

    diverging: the rise continues, or stays 25% and a tenth of the run's fall above the lowest level. rate
    raised: it came after the learning rate (`rate`, for each loss, NaN if unknown) went back up. falling
    again: a tenth of the rise was won back, or the loss surely falls faster than before. higher level: the
    rise stays, but at a lower level than that. rose before: the run came back from an equally high and long
    rise. Growing swings are diverging as well. A single value never diverges: if a log diverges only through
    its last value, it has a higher level until a second value confirms the rise.
    """
    rise = _found(scale, rate)
    if rise is None or rise.kind != DIVERGING or rise.width or _confirmed(scale, rise):
        return rise
    before = _found(replace(scale, value=scale.value[:-1]), None if rate is None else rate[:-1])
    return rise if before is not None and before.kind == DIVERGING else _of(rise, SHIFT)


def _confirmed(scale: Scale, rise: Rise) -> bool:
    """Return whether the second-to-last loss is a third as far above the lowest level as the last."""
    low = math.log(rise.low + scale.floor)
    return bool(scale.value[-2] - low >= CONFIRMED * (scale.value[-1] - low))


def _found(scale: Scale, rate: np.ndarray | None) -> Rise | None:
    """Return the rise that all losses show, even if only the last one makes it."""
    value = scale.value
    if len(value) < FEWEST:
        return None
    low, level = _lowest(value)
    strongest = None
    for width, now in _recent(value, low, level):
        if now - level <= 0 or scale.share(level, now) < scale.trifle:
            continue
        symptom = _symptom(scale, rate, low, level, width)
        if symptom is not None and (strongest is None or symptom.kind == DIVERGING):
            strongest = symptom
        if strongest is not None and strongest.kind == DIVERGING:
            return strongest
    if strongest is not None and strongest.kind == RESTART:
        return strongest
    return _swings(scale) or strongest


def noise(values: np.ndarray) -> float:
    """Return the robust standard deviation of a series about its neighbours' mean."""
    bend = values[:-2] + values[2:]
    bend /= 2
    np.subtract(values[1:-1], bend, out=bend)
    bend -= median_of(bend)
    np.abs(bend, out=bend)
    return 1.4826 * float(np.median(bend, overwrite_input=True)) / math.sqrt(1.5)


def _lowest(value: np.ndarray) -> tuple[int, float]:
    """Return where the window of the lowest level begins, and that level."""
    least = _FEW_WINDOW if len(value) < LEAST else _WINDOW
    return lowest_level(value, max(least, int(SHARES[0] * len(value))))


def _recent(value: np.ndarray, low: int, level: float) -> Iterator[tuple[int, float]]:
    """Yield window and level for each rule by which the end of a log is surely above its lowest level."""
    count = len(value)
    few = count < LEAST
    least, floor = (_FEW_WINDOW, _FEW_DIVERGED) if few else (_WINDOW, DIVERGED)
    error = 0.0
    for share in SHARES:
        width = max(least, int(share * count))
        error = max(error, _level_error(value, width, few=few))
        now = float(np.median(value[max(low, count - width) :]))
        if now - level > max(floor, SPREADS * error):
            yield width, now
    if few:
        return
    if count < _SHORT:
        now, error = _line_end(value[count - count // 5 :])
        if now - level > max(_LINE, SPREADS * error):
            yield _FEW_WINDOW, now
    spread = noise(value)
    for width, rise in _LAST.items():
        now = float(value[count - width :].min())
        if now - level > max(rise, 10 * spread):
            yield width, now


def _line_end(value: np.ndarray) -> tuple[float, float]:
    """Return the end of the straight line through a series and its error; minus infinity if it falls."""
    place = np.arange(len(value)) - (len(value) - 1) / 2
    slope = float(place @ value / (place @ place))
    rest = value - value.mean() - slope * place
    kin = float(np.clip(rest[1:] @ rest[:-1] / max(float(rest @ rest), 1e-300), 0.0, 0.9))
    spread = math.sqrt(float(rest @ rest) / (len(value) - 2) * (1 + kin) / (1 - kin))
    if slope <= 4 * spread / math.sqrt(float(place @ place)):
        return -math.inf, 0.0
    return float(value.mean() + slope * place[-1]), 2 * spread / math.sqrt(len(value))


def _symptom(scale: Scale, rate: np.ndarray | None, low: int, level: float, width: int) -> Rise | None:
    """Return the rise above `level` in the last `width` losses, with its kind; None if it is over."""
    value = scale.value
    recent = levels(value[low:], width)
    now = float(recent[-1])
    well = np.flatnonzero(recent <= level + 0.1 * (now - level))  # the middle of the last low window
    start = low + (int(well[-1]) if len(well) else 0) + width // 2
    after = value[start + 1 :]
    after = after if len(after) else value[-1:]
    part = max(1, len(after) // 5)
    high = levels(after, part)
    top, end = float(high.max()), float(high[-1])
    error = 1.2533 * _spread(value[: start + 1], after) / math.sqrt(part)
    if end - level <= max(REGAINED * (top - level), 0.0):
        return None
    rise = Rise(DIVERGING, start, scale.loss(level), scale.loss(top), scale.loss(end))
    if _restarted(scale, rate, low, start, level, top):
        return _of(rise, RESTART)
    since = after[int(np.argmax(high)) :]
    still = STILL[len(since) > LATE * len(value)]
    regained = (math.exp(top) - math.exp(end)) / (math.exp(top) - math.exp(level))
    won_back = regained > (FEW_REGAINED if len(value) < LEAST else REGAINED)
    sure = top - end > 3 * math.sqrt(2) * error
    falls = won_back and sure and _falling(since, still, level, error * math.sqrt(part))
    if falls or _falls_faster(value[: start + 1], since):
        return _of(rise, FALLING)
    if _rose_before(value[: start + 1], top - level, len(after), width):
        return _of(rise, AGAIN)
    grown = (top if width < _FEW_WINDOW else end) - level
    small = grown <= math.log1p(COLLAPSED[0]) or scale.share(level, level + grown) <= COLLAPSED[1]
    return _of(rise, SHIFT) if small and not _rising(value[low:]) else rise


def _of(rise: Rise, kind: str) -> Rise:
    return Rise(kind, rise.start, rise.low, rise.top, rise.now)


def _spread(before: np.ndarray, after: np.ndarray) -> float:
    """Return the noise of one loss: the larger of that before a rise and, with enough losses, since."""
    return max([noise(part) for part in (before, after) if len(part) >= _WINDOW], default=0.0)


def _rising(value: np.ndarray) -> bool:
    """Return whether the end of a series is a rising line rather than a step."""
    value = levels(value, _FEW_WINDOW) if len(value) > 2 * _FEW_WINDOW else value
    count = len(value)
    place = np.arange(count)
    if count < _FEW_WINDOW:
        return False
    knees = np.unique(np.linspace(1, count - 2, min(count - 2, _KNEES)).astype(int))
    steps, lines = [], []
    for knee in knees:
        before, after = value[:knee], value[knee:]
        steps.append(float(np.sum((before - before.mean()) ** 2) + np.sum((after - after.mean()) ** 2)))
        line = np.clip(place - knee, 0, None)
        line = line - line.mean()
        slope = max(0.0, float(line @ value / (line @ line)))
        lines.append(float(np.sum((value - value.mean() - slope * line) ** 2)))
    return min(lines) < min(steps)


def _falling(since: np.ndarray, still: float, level: float, error: float) -> bool:
    """Return whether the losses after a rise's top still fall, by a share of what is left of the rise."""
    half = len(since) // 2
    if half < 2:
        return len(since) > 2
    early, late = float(np.median(since[:half])), float(np.median(since[-half:]))
    left = (math.exp(late) - math.exp(level)) / math.exp(late)
    return math.expm1(early - late) > still * left and early - late > 3 * error * math.sqrt(2 / half)


def _falls_faster(before: np.ndarray, since: np.ndarray) -> bool:
    """Return whether the losses after a rise's top surely fall (99%), and faster than before the rise."""
    if min(len(before), len(since)) <= 2:
        return False
    late = since[len(since) // 2 :] if len(since) > HALVED else since
    slope, error = _line(late)
    most = slope + float(student_quantile(0.99, len(late) - 2)) * error
    return most < min(0.0, _line(before[-max(BEFORE, len(late)) :])[0])


def _line(value: np.ndarray) -> tuple[float, float]:
    """Return the slope of the straight line through a series, and its standard error."""
    place = np.arange(len(value)) - (len(value) - 1) / 2
    spread = float(place @ place)
    slope = float(place @ value) / spread
    rest = value - value.mean() - slope * place
    return slope, math.sqrt(float(rest @ rest) / (len(value) - 2) / spread)


def _restarted(scale: Scale, rate: np.ndarray | None, low: int, start: int, level: float, top: float) -> bool:
    """Return whether a rise, by at most 25% or half of what was won, follows a rate that went back up."""
    lost = top - level > math.log1p(COLLAPSED[0]) and scale.share(level, top) > _TAKEN
    if rate is None or not np.isfinite(rate).any() or lost:
        return False
    filled_rate = pd.Series(rate).ffill().bfill().to_numpy(float)
    since = filled_rate[low:]
    lowest = low + int(np.argmin(since))
    highest = lowest + int(np.argmax(filled_rate[lowest:]))
    raised = (
        filled_rate[highest] >= RATE_RAISED * filled_rate[lowest]
        and filled_rate[highest] <= KNOWN * filled_rate[: low + 1].max()
    )
    rises = lowest + int(np.argmax(filled_rate[lowest:] >= RATE_RAISED * filled_rate[lowest]))
    slack = max(_FEW_WINDOW, int(SHARES[0] * len(filled_rate)))
    return bool(
        raised and rises <= start + slack and len(filled_rate) - highest <= RECENT * len(filled_rate) + slack
    )


def _rose_before(value: np.ndarray, rise: float, length: int, width: int) -> bool:
    """Return whether the run was as far above its lowest level before, for at least half as long."""
    if len(value) < 2 * width:
        return False
    level = levels(value, width)
    above = level - np.minimum.accumulate(level)
    edges = np.flatnonzero(np.diff(np.r_[False, above > rise / 2, False].astype(int)))
    return any(
        above[first:stop].max() >= 0.9 * rise and length <= 2 * (stop - first)
        for first, stop in zip(edges[::2], edges[1::2], strict=True)
    )


def _level_error(value: np.ndarray, window: int, *, few: bool) -> float:
    """Return the standard error of a window's median, from the noise of its values or of such medians.

    Medians of neighbouring windows also scatter by what neighbours have in common. With `few` values, there
    are too few of these medians.
    """
    error = 1.2533 * noise(value) / math.sqrt(window)
    if few:
        return error
    apart = value[len(value) % window :].reshape(-1, window)[::-1]
    return max(error, noise(np.median(apart, axis=1)))


def _swings(scale: Scale) -> Rise | None:
    """Return swings that grow both ways over the last half of a log, beyond all of the first half."""
    value = scale.value
    if len(value) < LEAST:
        return None
    half = len(value) // 2
    blocks = np.array_split(np.arange(half, len(value)), _BLOCKS)
    size = [_breadth(value[block]) for block in blocks]
    before = [_breadth(part) for part in np.array_split(value[:half], _BLOCKS)[2:]]
    last = value[blocks[-1]]
    low, high = np.quantile(last, _QUARTERS)
    grown = size[-1] > _SWINGS * max(size[0], min(before)) and size[-1] > max(*size[:-1], *before)
    if not grown or size[-2] < max(size[:2]):
        return None
    if _turns(value[blocks[2][0] :], max(size[-1] / 2, 4 * min(before))) < _TURNS:
        return None
    if size[-1] <= _SWUNG or scale.share(float(low), float(high)) < max(_SWUNG_WON, scale.trifle):
        return None
    wide = np.array([swing > size[-1] / _SWINGS for swing in size])
    start = int(blocks[int(np.argmax(wide))][0])
    ends = (scale.loss(float(low)), scale.loss(float(high)))
    return Rise(DIVERGING, start, ends[0], ends[1], scale.loss(float(value[-1])), size[-1])


def _turns(value: np.ndarray, size: float) -> int:
    """Return how often a series reverses by more than `size`.

    >>> _turns(np.array([0.0, 1.0, 0.9, 3.0, 0.0, 2.0]), 0.5)
    2
    """
    turns, way, end = 0, 0, value[0]
    for extreme in value:
        if way * (extreme - end) >= 0 and way:
            end = extreme
        elif abs(extreme - end) > size:
            turns += way != 0
            way, end = (1 if extreme > end else -1), extreme
    return turns


def _breadth(value: np.ndarray) -> float:
    """Return the interquartile range."""
    return float(np.ptp(np.quantile(value, _QUARTERS)))
