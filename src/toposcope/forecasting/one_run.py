"""The forecast of one run by one method, with an interval that is made in the same way for all methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toposcope.core.distributions import normal_quantile
from toposcope.core.errors import InputError
from toposcope.forecasting.backtests import (
    Backtest,
    backtest_of,
    check_needs,
    curve_interval,
    half_width,
    leverage_half_width,
    own_backtests,
    sibling_backtests,
)
from toposcope.forecasting.base import (
    EARLIEST,
    LEVEL,
    NO_TREND,
    OWN_WIDTH,
    Forecast,
    Forecaster,
    Point,
    anything,
)
from toposcope.forecasting.unplanned import lowered, may_anneal, no_plan, ranges, too_short
from toposcope.logs.curve import Curve, level_and_slope, level_error
from toposcope.logs.schedule import Schedule

_TOO_SHORT = (
    "there are too few siblings, and the run is too short, for an interval",
    "give three finished siblings, or log more losses",
)


def forecast(
    method: Forecaster, seen: Curve, siblings: Sequence[Curve] = (), *, level: float = LEVEL
) -> Forecast:
    """Forecast the final loss of the run of which `seen` is the beginning, with an interval.

    The interval comes from forecasting each sibling from the others at the same share of its horizon (k >= 3
    siblings; `leverage_half_width`). For a run that is larger (smaller) than all of them it is widened by the
    errors of larger (smaller) siblings that are forecast from the smaller (larger) ones alone (`beyond`).
    With fewer siblings it is the one that the method states (`Point.half`), else it comes from k earlier cuts
    of the same run that forecast equally far ahead in log steps (`half_width`).

    If a method cannot forecast the run, its row has the status "failed" and the reason.
    """
    if not len(seen.step):  # a cut before the first loss
        return _failed(method, seen, 0.0, level, f"run {seen.run}: no loss was logged so far")
    share = seen.last / seen.horizon
    if seen.endless:
        return _failed(method, seen, math.nan, level, seen.endless)
    others = [curve for curve in siblings if curve.finished and curve.run != seen.run]
    ended = [curve for curve in others if curve.akin(seen)]
    strange = [curve.run for curve in others if not curve.akin(seen)]
    finished = [curve for curve in ended if not (curve.rose() or curve.broke)]
    risen = [curve.run for curve in ended if curve.rose() or curve.broke]
    seen, lender = with_borrowed_plan(seen, finished)
    borrowed = (
        f"the planned learning rate is that of {lender}" if lender and "schedule" in method.needs else ""
    )
    # finished siblings show the rest of the rate by themselves, and what it gains
    if not finished and (plan := _begun(seen)) is not None:
        seen = replace(seen, schedule=plan)
        end = plan.rate[-1] / plan.peak
        borrowed = f"its learning rate falls, and is taken to fall on to {end:.0%} of its peak at its end"
    try:
        check_needs(method, seen, finished)
        point = method.fit(finished, share).predict(seen)
        if not (math.isfinite(point.final) and point.final > 0):
            raise InputError(
                f"{method.name}: no finite final loss came out; use another method for {seen.run}"
            )
    except (InputError, np.linalg.LinAlgError) as error:
        return _failed(method, seen, share, level, str(error))
    tests, source = sibling_backtests(method, finished, share), ""
    above: float | None = None
    if len(tests) >= 3:
        source = f"{len(tests):,} held-out siblings"
        half = leverage_half_width(tests, level_and_slope(seen.step, seen.loss)[0], level)
    elif point.half is not None:
        tests, source = [], OWN_WIDTH
        half = (point.stated or 0.0) * _of_level(level)
        above = point.above() * _of_level(level) if point.above is not None else None
    else:
        tests = own_backtests(method, seen, finished)
        half = half_width([test.error for test in tests], level) if tests else math.nan
    left = f"siblings that diverged or rose are left out: {', '.join(risen)}" if risen else ""
    strangers = (
        f"runs that do not belong with {seen.run} are left out: {', '.join(strange)}" if strange else ""
    )
    widened = ""
    if len(tests) >= 3:
        more, widened = _beyond(method, seen, finished, share)
        half = math.hypot(half, more * _of_level(level))
    remarks = [note for note in (borrowed, point.note, widened, left, strangers) if note]
    return _with_interval(
        method, seen, point, tests, (half, half if above is None else above), source, remarks, level
    )


def _begun(seen: Curve) -> Schedule | None:
    """Return the plan that a logged rate shows once its decay has begun; None if another is known."""
    if seen.schedule is not None or not np.isfinite(seen.rate).any():
        return None
    from toposcope.forecasting._begun_decay import continued

    return continued(seen)


def _beyond(method: Forecaster, seen: Curve, siblings: Sequence[Curve], share: float) -> tuple[float, str]:
    """Return what widens the interval of a run beyond the sizes of all its siblings, and the note on it."""
    from toposcope.forecasting import _beyond as beyond

    distances = [
        (test.error, beyond.distance(curve, rest))
        for curve, rest in beyond.outward(seen, siblings)
        if (test := backtest_of(method, curve, rest, share)) is not None
    ]
    more = beyond.term(distances, beyond.distance(seen, siblings)) if distances else 0.0
    return more, beyond.said(seen, siblings) if more else ""


def _of_level(level: float) -> float:
    """Return the half-width of a normal interval of a level in units of that of 90%."""
    return float(normal_quantile(0.5 + level / 2) / normal_quantile(0.5 + LEVEL / 2))


def _with_interval(
    method: Forecaster, seen: Curve, point: Point, tests: Sequence[Backtest], halves: tuple[float, float],
    source: str, remarks: list[str], level: float,
) -> Forecast:  # fmt: skip
    """Return the forecast with final * exp(-+ half), a half for each end, or why it has no interval."""
    errors, none = [test.error for test in tests], np.empty(0)
    of_own_width = source == OWN_WIDTH
    unplanned = (of_own_width or not source) and may_anneal(seen)
    source = source or "earlier cuts of the same run"
    half, above = halves
    low, high = point.final * math.exp(-half), point.final * math.exp(above)
    band, status = (none, none), "ok"
    if math.isnan(half) or (len(errors) < 3 and not of_own_width):
        early = of_own_width and seen.last < EARLIEST * seen.horizon
        remarks = [
            *remarks,
            *(_too_early(seen) if early else _TOO_SHORT),
            *([no_plan()] if unplanned else []),
        ]
        source = "nothing"
        low, high, status = math.nan, math.nan, "degenerate"
    elif not of_own_width and not any(errors):
        remarks = [f"{source} were forecast without any error, so that there is no interval"]
        low, high, status = math.nan, math.nan, "degenerate"
    else:
        if len(point.step) and seen.horizon > seen.last > 0:
            noise, paths = level_error(seen.step, seen.loss), [test.path for test in tests]
            sides = [
                curve_interval(
                    point.step, point.loss, cut=seen.last, end=seen.horizon, paths=paths, half=half_of_curve,
                    noise=noise, level=level,
                )
                for half_of_curve in halves
            ]  # fmt: skip
            band = sides[0][0], sides[1][1]
        useless = [remark.kind for remark in seen.remarks if remark.useless_on]
        if unplanned:
            lower = low * (1 - lowered(of_own_width))
            mine, shared = ranges(point.final, low, high, lower, level, of_own_width, seen.horizon)
            quoted = not useless and not anything(lower, high)  # the rate was measured on healthy runs
            remarks = [*mine, *shared, *remarks] if quoted else [no_plan(), *remarks]
            low, status = lower, "no plan"
        elif short := too_short(seen.horizon, own=of_own_width):
            remarks = [short, *remarks]
        if wide := anything(low, high):
            remarks = [wide, *remarks]
        if useless:
            remarks, status = (
                [f"{', '.join(useless)}: forecast as if the run were healthy", *remarks],
                "unhealthy",
            )
    return Forecast(
        seen.run, method.name, seen.last / seen.horizon, point.final, low, high, level, point.step,
        point.loss, source, tuple(errors), status, "; ".join(remarks), *band, point.used,
    )  # fmt: skip


def _too_early(seen: Curve) -> tuple[str, str]:
    enough = math.ceil(EARLIEST * seen.horizon)
    return (
        f"a run without siblings gets an interval from {EARLIEST:.0%} of its steps on",
        f"repeat the forecast at step {enough:,}, or give three finished siblings",
    )


def with_borrowed_plan(seen: Curve, siblings: Sequence[Curve]) -> tuple[Curve, str]:
    """Return the run with a sibling's schedule and that sibling's name, when the run has no plan of its own.

    A run cut short knows only the part of its schedule that it logged. It takes the plan of a sibling of the
    same length whose rate its log follows. If such siblings differ later on, it takes none.
    """
    if seen.schedule is not None or not np.isfinite(seen.rate).any():
        return seen, ""
    lender: tuple[Schedule, str] | None = None
    for sibling in siblings:
        plan = sibling.plan()
        if plan is None or sibling.horizon != seen.horizon or plan.mismatch(seen.step, seen.rate):
            continue
        if lender is not None and lender[0].mismatch(plan.step, plan.rate):
            return seen, ""
        lender = lender or (plan, sibling.run)
    return (seen, "") if lender is None else (replace(seen, schedule=lender[0]), lender[1])


def not_applicable(run: str, reason: str, level: float = LEVEL) -> Forecast:
    """Return the forecast of a run whose loss has no trend: its status and the reason."""
    nan, none = math.nan, np.empty(0)
    return Forecast(run, "none", nan, nan, nan, nan, level, none, none, "nothing", (), NO_TREND, reason)


def _failed(method: Forecaster, seen: Curve, share: float, level: float, reason: str) -> Forecast:
    nan, none = math.nan, np.empty(0)
    return Forecast(
        seen.run, method.name, share, nan, nan, nan, level, none, none, "nothing", (), "failed", reason
    )
