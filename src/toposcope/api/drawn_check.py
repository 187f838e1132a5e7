"""The figure of a run that was checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from toposcope.forecasting.health.judgement import ALL_RIGHT, STOP
from toposcope.forecasting.health.symptoms import KINDS
from toposcope.page.figures.checked_runs import CheckedCurve, CheckMark

if TYPE_CHECKING:
    from toposcope.api.run_check import RunCheck
    from toposcope.forecasting.health.judgement import Ground


def drawn(one: RunCheck) -> CheckedCurve:
    """Return the curve of a run with its marks, and with its forecast if the answer has one."""
    step, loss = (np.empty(0), np.empty(0)) if one.logged is None else one.logged
    found = (*one.judgement.grounds, *one.judgement.noticed)
    marks = tuple(_mark(ground, float(ground.step)) for ground in found if ground.step is not None)
    made = one.forecast
    bounded = made is not None and made.bounded
    if made is None or not bounded or one.level == STOP or made.status in ("failed", "unhealthy"):
        return CheckedCurve(one.name, step, loss, marks)
    end = np.array([math.nan if one.horizon is None else one.horizon, made.final, made.low, made.high])
    ahead = np.empty((0, 4))
    if len(made.curve_low) and len(step):
        ahead = np.column_stack([made.step, made.loss, made.curve_low, made.curve_high])
        ahead = ahead[(ahead[:, 0] >= step.max()) & np.isfinite(ahead).all(axis=1)]
    return CheckedCurve(one.name, step, loss, marks, ahead, end, made.level, made.status == "ok")


def _mark(ground: Ground, step: float) -> CheckMark:
    audit = ground.sentence.startswith(("checkpoint", "audit"))
    what = "audit" if audit else "health" if ground.kind in KINDS else "alarm"
    return CheckMark(what, step, ground.kind, ground.level != ALL_RIGHT)
