"""The shape of a curve in words: rose, fell, jumped, a dip, a peak, swings, or no clear trend.

Each turn of a shape is a move beyond the noise, so that a title says no more than the values show.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from toposcope.core.forms import number


class Course(StrEnum):
    """The shapes that words tell apart; the value is how several runs of one shape are counted."""

    POINT = "has one value"
    CONSTANT = "stayed the same"
    STILL = "shows no clear trend"
    ROSE = "rose"
    FELL = "fell"
    DIP = "fell, then rose"
    PEAK = "rose, then fell"
    SWINGS = "rose and fell several times"


MOVED = frozenset({Course.ROSE, Course.FELL, Course.DIP, Course.PEAK, Course.SWINGS})
FEWEST = 6
"""The fewest values from which the noise of a curve is estimated."""
_SPAN = 8.0
"""Noise spans more than this many of its standard deviations in under 3.5% of series of 6 to 300 values.

The standard deviation is `curve_noise`. tests/study/test_shapes.py simulates it.
"""
_DRAWN_SPAN = 6.0
"""The same where draws give the standard deviation: normal values span more in under 3% of 60 values."""
_SHARE = 0.1
"""A turn of less than this share of a curve's range is not told."""
_JUMP = 0.8
"""A change is a jump if this share of it lies between two neighbouring values."""


@dataclass(frozen=True, slots=True)
class CurveShape:
    """A curve's shape: its first value, its turns and its last value, as (step, value).

    `jump` are the steps of the two neighbours between which most of a rise or a fall lies.
    """

    kind: Course
    points: tuple[tuple[float, float], ...]
    low: float = float("nan")
    high: float = float("nan")
    jump: tuple[float, float] | None = None

    def words(self, form: str = "{:.4g}") -> str:
        """Return what the curve did, as the rest of a sentence that begins with its name.

        >>> shape_of([0, 25, 100, 200], [4.28, 0.23, 5.7, 10.0]).words()
        'fell from 4.28 to 0.23 at step 25, then rose to 10'
        >>> shape_of([0, 1, 2], [3.0, 3.0, 3.0]).words(), shape_of([7], [3.0]).words()
        ('stayed at 3', 'has one value (3, at step 7)')
        """
        if not self.points:
            return "has no value"
        values = [number(value, form) for _, value in self.points]
        if self.kind is Course.POINT:
            return f"has one value ({values[0]}, at step {self.points[0][0]:,.0f})"
        if self.kind is Course.CONSTANT:
            return f"stayed at {values[0]}"
        span = f"{number(self.low, form)} to {number(self.high, form)}"
        if self.kind is Course.STILL:
            return f"shows no clear trend ({span})"
        if self.kind is Course.SWINGS:
            return f"turned {len(self.points) - 2:,} times ({span}; {values[-1]} at the end)"
        if self.jump is not None:
            verb = "jumped" if self.kind is Course.ROSE else "dropped"
            between = f"between steps {self.jump[0]:,.0f} and {self.jump[1]:,.0f}"
            return f"{verb} from {values[0]} to {values[-1]}, mostly {between}"
        if len(values) == 2:
            return f"{self.kind} from {values[0]} to {values[1]}"
        first, then = ("fell", "rose") if self.kind is Course.DIP else ("rose", "fell")
        turned = f"{first} from {values[0]} to {values[1]} at step {self.points[1][0]:,.0f}"
        return f"{turned}, then {then} to {values[2]}"


def curve_noise(values: np.ndarray) -> float:
    """Return the standard deviation that a smooth curve through the values leaves.

    It is the median of the absolute second differences, scaled for normal noise. A straight line has none,
    and the few second differences at a turn or a jump do not change a median. `rules.rises.noise` takes the
    median of the second differences away first; of 6 values, noise would then span 8 such deviations in 10%
    of series instead of 2.5%, so the two stay apart.
    """
    if len(values) < 3:
        return 0.0
    return float(np.median(np.abs(np.diff(values, 2)))) / (0.6745 * np.sqrt(6.0))


def shape_of(steps: object, values: object, *, drawn: float = 0.0) -> CurveShape:
    """Return the shape of a curve; `drawn` is the standard error of a value over draws, 0 without draws.

    A rise or a fall counts if it is larger than what noise alone spans (of the draws, or of what a smooth
    curve leaves), and than a tenth of the curve's range. With fewer than `FEWEST` values and no draws the
    noise is unknown, and the values are told as they are.
    """
    at, curve = np.asarray(steps, float), np.asarray(values, float)
    at, curve = at[np.isfinite(curve)], curve[np.isfinite(curve)]
    if len(curve) < 2:
        return CurveShape(Course.POINT, tuple(zip(at.tolist(), curve.tolist(), strict=True)))
    low, high = float(curve.min()), float(curve.max())
    if low == high:
        return CurveShape(Course.CONSTANT, ((at[0], low), (at[-1], low)), low, high)
    noise = _DRAWN_SPAN * drawn
    if not drawn and len(curve) >= FEWEST:
        noise = _SPAN * curve_noise(curve)
    turns = _turns(curve, max(noise, _SHARE * (high - low)))
    if len(turns) < 2:
        return CurveShape(Course.STILL, ((at[0], curve[0]), (at[-1], curve[-1])), low, high)
    places = [0, *turns[1:-1], len(curve) - 1]
    points = tuple((float(at[i]), float(curve[i])) for i in places)
    kind = _kind([value for _, value in points])
    return CurveShape(
        kind, points, low, high, _jump(at, curve) if kind in (Course.ROSE, Course.FELL) else None
    )


def monotone(steps: object, values: object) -> CurveShape:
    """Return the rise or the fall from the first value to the last, which another test has shown."""
    at, curve = np.asarray(steps, float), np.asarray(values, float)
    points = ((float(at[0]), float(curve[0])), (float(at[-1]), float(curve[-1])))
    return CurveShape(
        _kind([curve[0], curve[-1]]), points, float(curve.min()), float(curve.max()), _jump(at, curve)
    )


def _kind(values: list[float]) -> Course:
    signs = np.sign(np.diff(values))
    if len(signs) == 1:
        return Course.ROSE if signs[0] > 0 else Course.FELL if signs[0] < 0 else Course.STILL
    alternate = bool((signs[1:] == -signs[:-1]).all() and signs[0])
    if len(signs) == 2 and alternate:
        return Course.PEAK if signs[0] > 0 else Course.DIP
    return Course.SWINGS


def _turns(values: np.ndarray, least: float) -> list[int]:
    """Return the places of the extremes between which the values move by more than `least`, in order."""
    turns: list[int] = []
    lowest = highest = 0
    up = 0
    for i, value in enumerate(values):
        lowest = i if up <= 0 and value < values[lowest] else lowest
        highest = i if up >= 0 and value > values[highest] else highest
        if up <= 0 and value - values[lowest] > least:
            turns, up, highest = [*turns, lowest], 1, i
        elif up >= 0 and values[highest] - value > least:
            turns, up, lowest = [*turns, highest], -1, i
    return [*turns, highest if up > 0 else lowest] if up else []


def _jump(at: np.ndarray, values: np.ndarray) -> tuple[float, float] | None:
    gaps = np.diff(values)
    change = values[-1] - values[0]
    if len(values) < FEWEST or not change:
        return None
    place = int(np.argmax(gaps * np.sign(change)))
    return (float(at[place]), float(at[place + 1])) if gaps[place] / change >= _JUMP else None
