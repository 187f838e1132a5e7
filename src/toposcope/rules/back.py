"""Spikes of a logged series one step ahead, and when it is back at the expected level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.statistics.alarms.residuals import LEVEL_WINDOW, OneStepAhead

if TYPE_CHECKING:
    from toposcope.rules.rule import Rule, Signal

LOGGED = 3
"""This many consecutive values show that a series is back, or that it was sound before."""

BACK = 2.0
"""A series is back when its level is at most this many standard deviations (of one value) too high."""


def spike(rule: Rule, series: OneStepAhead, step: int, value: float, what: str) -> list[Signal]:
    """Take a value of a rule's series; return a signal if it is far above its prediction."""
    if value is None or math.isnan(value):
        return []
    if not math.isfinite(value):
        return rule.signal_once(step, f"{what} is not finite")
    residual = series.update(math.log(max(value, 1e-30)))
    if residual is None or residual.p > rule.spending.level():
        return []
    series.forget()
    expected = math.exp(residual.predicted)
    sentence = f"{what} is {value:.4g} where {expected:.4g} was expected"
    return rule.signal_once(
        step, sentence, p=residual.p, sizes=residual.size, expected=expected, value=float(value)
    )


def pass_over(rule: Rule, series: OneStepAhead, values: np.ndarray) -> int:
    """Take at once the first values of a rule's series that surely are no spike; return how many.

    It looks at as many values as the series wants (`OneStepAhead.block`).
    """
    near = values[: series.block]
    infinite = np.flatnonzero(np.isinf(near))
    near = near[: infinite[0]] if len(infinite) else near
    known_places = np.flatnonzero(~np.isnan(near))
    # numpy's logarithm may differ from that of `spike` in the last digit
    logarithms = np.array([math.log(max(value, 1e-30)) for value in near[known_places].tolist()])
    taken = series.pass_over(logarithms, rule.spending.next_level())
    rule.spending.count(taken)
    return len(near) if taken == len(known_places) else int(known_places[taken])


def back_below(signal: Signal) -> float:
    """Return the level below which a series counts as back after a spike."""
    there, expected, size = (float(signal.data[name]) for name in ("value", "expected", "sizes"))
    return expected * math.exp(BACK * math.log(there / expected) / size)


def spike_passed(signal: Signal, rows: pd.DataFrame, column: str) -> int | None:
    """Return the step at which a column was back after a spike, or finite again after a NaN or infinity."""
    after = rows.loc[rows["step"] > signal.step, ["step", column]]
    if "expected" not in signal.data:
        return finite_again(after["step"].to_numpy(), after[column].to_numpy(float))
    return first_below(after, column, back_below(signal))


def first_below(after: pd.DataFrame, column: str, bound: float) -> int | None:
    """Return the step at which the median of 8 values (of all, if there are 3 to 7) first meets a bound."""
    after = after[np.isfinite(after[column].astype(float))]
    values = after[column].to_numpy(float)
    if len(values) < LOGGED:
        return None
    level = medians(values)
    below = np.flatnonzero(level <= bound)
    width = len(values) - len(level) + 1
    return int(after["step"].iloc[int(below[0]) + width - 1]) if len(below) else None


def medians(values: np.ndarray) -> np.ndarray:
    """Return the median of every 8 consecutive values; if there are fewer, the median of all."""
    width = min(LEVEL_WINDOW, len(values))
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    middle: np.ndarray = np.median(windows, axis=1)
    return middle


def finite_again(steps: np.ndarray, values: np.ndarray) -> int | None:
    """Return the step of the third finite value in a row among the logged values."""
    run = 0
    for step, value in zip(steps, values, strict=True):
        run = run + 1 if math.isfinite(value) else 0
        if run == LOGGED:
            return int(step)
    return None
