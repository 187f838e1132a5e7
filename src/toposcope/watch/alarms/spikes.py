"""Spikes of a logged series: the common part of the loss and gradient alarms."""

from __future__ import annotations

import math

from toposcope.statistics.alarms.residuals import OneStepAhead
from toposcope.watch.alarms.base import Alarm, Alert


def spike(alarm: Alarm, series: OneStepAhead, step: int, value: float, what: str) -> list[Alert]:
    """Take a value of an alarm's series; return an alarm if it is far above its prediction."""
    if value is None or math.isnan(value):
        return []
    if not math.isfinite(value):
        return alarm.alarm_once(step, f"{what} is not finite")
    residual = series.update(math.log(max(value, 1e-30)))
    if residual is None or residual.p > alarm.spending.level():
        return []
    series.forget()
    expected = math.exp(residual.predicted)
    sentence = f"{what} is {value:.4g} where {expected:.4g} was expected"
    return alarm.alarm_once(
        step, sentence, p=residual.p, sizes=residual.size, expected=expected, value=float(value)
    )
