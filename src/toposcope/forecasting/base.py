"""Forecasters: one small interface, and an interval that is made in the same way for all."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.core.distributions import normal_quantile, student_quantile
from toposcope.core.errors import InputError
from toposcope.core.types import Estimate
from toposcope.core.wording import rendered
from toposcope.forecasting import beyond
from toposcope.forecasting.band import curve_interval, path_errors
from toposcope.forecasting.curve import FINAL_SHARE, Curve, level_and_slope, level_error
from toposcope.forecasting.schedule import Schedule
from toposcope.forecasting.unplanned import NO_PLAN, coverage, lowered, may_anneal, ranges

LEVEL = 0.9
"""Coverage that an interval aims at; others are scaled from it by the normal quantile."""

WIDE = 4.0
"""An interval whose upper end is this many times its lower end, or more, says nothing of the final loss."""

OWN_WIDTH = "its own slope, fit and noise"
"""The source of the interval of a run without siblings (`toposcope.forecasting.plain_law.half_width`)."""
EARLIEST = 0.16
"""A run without siblings has an interval from this share of its steps on: earlier, 38 to 80% of them held."""

_TOO_SHORT = (
    "there are too few siblings, and the run is too short, for an interval",
    "give three finished siblings, or log more losses",
)

LEAST_SEEN = 8
"""The fewest losses for a forecast."""


@dataclass(frozen=True, slots=True)
class Point:
    """A central forecast: the final loss, and the loss at future steps (empty when the method has none).

    `used` are the methods of an average with their weights, the largest first. `half` is the half-width of
    the log of a 90% interval, if the method states its own; it is used with fewer than three siblings. NaN
    means that there is no interval yet.
    """

    final: float
    step: np.ndarray = field(default_factory=lambda: np.empty(0))
    loss: np.ndarray = field(default_factory=lambda: np.empty(0))
    used: tuple[tuple[str, float], ...] = ()
    note: str = ""
    half: float | None = None


class Forecaster(abc.ABC):
    """A way to forecast the final loss. Subclasses set `name` and `needs` and implement `predict`.

    `needs` is a subset of {"siblings", "schedule", "features"}. `predict` sees the unfinished run. A method
    that learns from other runs implements `fit`, too: it sees finished siblings and the share of the horizon
    that will have been seen, and returns a fitted copy. Neither may use a loss of the run beyond what it was
    given.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    least_seen: ClassVar[int] = LEAST_SEEN
    """The fewest losses for the method."""
    least_siblings: ClassVar[int] = 2
    """The fewest finished siblings for the method, if it needs any."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method in tables."""

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Return a copy that has learnt from finished `siblings`, cut at `share` of their horizon.

        A method that uses only the run's own losses learns nothing, and is returned as it is.
        """
        return self

    @abc.abstractmethod
    def predict(self, seen: Curve) -> Point:
        """Forecast the run of which `seen` is the beginning; raises InputError when it cannot."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast as a row: the final loss with its interval, or a status with its reason.

    `errors` has the log errors log(actual / predicted) behind the interval: one per left-out sibling, or one
    per earlier cut of the same run. `curve_low` and `curve_high` are the interval of `loss` at every `step`
    (`toposcope.forecasting.band`); empty if there is no curve or no interval. `used` are the methods of an
    average with their weights.

    `status` is "ok"; "no plan" if the rest of the learning rate is unknown and no sibling shows it: `low` is
    lower by the most that an annealing gained in published runs, and `coverage` says how often that held;
    "ill" if the log shows a fault that no forecast can take into account (`forecasting.health.assess`), so
    that no coverage is known; "degenerate" without an interval; "failed" without a forecast. `reason` says
    why.
    """

    run: str
    method: str
    share: float
    final: float
    low: float
    high: float
    level: float
    step: np.ndarray
    loss: np.ndarray
    interval_from: str
    errors: tuple[float, ...] = ()
    status: str = "ok"
    reason: str = ""
    curve_low: np.ndarray = field(default_factory=lambda: np.empty(0))
    curve_high: np.ndarray = field(default_factory=lambda: np.empty(0))
    used: tuple[tuple[str, float], ...] = ()

    @property
    def coverage(self) -> str:
        """How often such intervals hold: their level, a measured share without a plan, or unknown."""
        return coverage(self.status, self.level, own=self.interval_from == OWN_WIDTH)

    @property
    def bounded(self) -> bool:
        """Whether there is an interval that is narrow enough to be useful."""
        return math.isfinite(self.low) and not _anything(self.low, self.high)

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval as it may be shown: NaN twice if it is too wide to say anything."""
        return (self.low, self.high) if self.bounded else (math.nan, math.nan)

    @property
    def not_yet(self) -> str:
        """Why it is too early to say where the run ends; "" if it can be said, or if the forecast failed.

        Every answer that shows a forecast asks this: none prints an interval that says nothing. Of a run
        that is ill it is said where it would end if it were not: that needs no interval.
        """
        ill = self.status == "ill" and math.isfinite(self.final)
        if self.bounded or ill or self.status == "failed":
            return ""
        return _anything(self.low, self.high) or "no interval can be given"

    @property
    def estimate(self) -> Estimate:
        """The final loss with its interval; n counts the left-out errors behind it."""
        n = len(self.errors)
        return Estimate(self.final, self.low, self.high, self.level, n, self.status, self.reason)


def _anything(low: float, high: float) -> str:
    """Return what an interval is worth that says nothing of the final loss, else "".

    >>> _anything(2.0, 2.5), _anything(0.1, 30.0)
    ('', 'its final loss may be anything from 0.1 to 30')
    """
    wide = math.isfinite(low) and not high <= WIDE * low
    return f"its final loss may be anything from {low:.2g} to {high:.2g}" if wide else ""


@dataclass(frozen=True, slots=True)
class Backtest:
    """A forecast of a known loss: log(actual / predicted) of the final loss, and along the curve."""

    error: float
    path: np.ndarray
    level: float = math.nan
    """Smoothed log loss at the cut."""


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
    try:
        _check(method, seen, finished)
        point = method.fit(finished, share).predict(seen)
        if not (math.isfinite(point.final) and point.final > 0):
            raise InputError(
                f"{method.name}: no finite final loss came out; use another method for {seen.run}"
            )
    except (InputError, np.linalg.LinAlgError) as error:
        return _failed(method, seen, share, level, str(error))
    tests, source = _sibling_backtests(method, finished, share), ""
    if len(tests) >= 3:
        source = f"{len(tests):,} held-out siblings"
        half = leverage_half_width(tests, level_and_slope(seen.step, seen.loss)[0], level)
    elif point.half is not None:
        tests, source = [], OWN_WIDTH
        half = point.half * _of_level(level)
    else:
        tests = _own_backtests(method, seen, finished)
        half = half_width([test.error for test in tests], level) if tests else math.nan
    left = f"siblings that diverged or rose are left out: {', '.join(risen)}" if risen else ""
    strangers = (
        f"runs that do not belong with {seen.run} are left out: {', '.join(strange)}" if strange else ""
    )
    widened = ""
    if len(tests) >= 3 and (more := _beyond(method, seen, finished, share) * _of_level(level)):
        half, widened = math.hypot(half, more), beyond.said(seen, finished)
    said = [note for note in (borrowed, point.note, widened, left, strangers) if note]
    return _with_interval(method, seen, point, tests, half, source, said, level)


def _beyond(method: Forecaster, seen: Curve, siblings: Sequence[Curve], share: float) -> float:
    """Return the square that is added to the half-width of a run beyond the sizes of all its siblings."""
    made = [
        (test.error, beyond.distance(one, rest))
        for one, rest in beyond.outward(seen, siblings)
        if (test := _tested(method, one, rest, share)) is not None
    ]
    return beyond.term(made, beyond.distance(seen, siblings)) if made else 0.0


def _of_level(level: float) -> float:
    """Return the half-width of a normal interval of a level in units of that of 90%."""
    return float(normal_quantile(0.5 + level / 2) / normal_quantile(0.5 + LEVEL / 2))


def _with_interval(
    method: Forecaster, seen: Curve, point: Point, tests: Sequence[Backtest], half: float, source: str,
    said: list[str], level: float,
) -> Forecast:  # fmt: skip
    """Return the forecast with final * exp(-+ half), or with the reason why it has no interval."""
    errors, none = [test.error for test in tests], np.empty(0)
    own = source == OWN_WIDTH
    unplanned = (own or not source) and may_anneal(seen)
    source = source or "earlier cuts of the same run"
    low, high = point.final * math.exp(-half), point.final * math.exp(half)
    band, status = (none, none), "ok"
    if math.isnan(half) or (len(errors) < 3 and not own):
        early = own and seen.last < EARLIEST * seen.horizon
        said = [*said, *(_too_early(seen) if early else _TOO_SHORT), *([NO_PLAN] if unplanned else [])]
        source = "nothing"
        low, high, status = math.nan, math.nan, "degenerate"
    elif not own and not any(errors):
        said = [f"{source} were forecast without any error, so that there is no interval"]
        low, high, status = math.nan, math.nan, "degenerate"
    else:
        if len(point.step) and seen.horizon > seen.last > 0:
            band = curve_interval(
                point.step, point.loss, cut=seen.last, end=seen.horizon, paths=[t.path for t in tests],
                half=half, noise=level_error(seen.step, seen.loss), level=level,
            )  # fmt: skip
        if unplanned:
            lower = low * (1 - lowered(own))
            mine, shared = ranges(point.final, low, high, lower, level, own)
            said = [NO_PLAN, *said] if _anything(lower, high) else [*mine, *shared, *said]
            low, status = lower, "no plan"
        if wide := _anything(low, high):
            said = [wide, *said]
        if grave := [symptom.kind for symptom in seen.symptoms if symptom.grave]:
            said, status = [f"{', '.join(grave)}: forecast as if the run were healthy", *said], "ill"
    return Forecast(
        seen.run, method.name, seen.last / seen.horizon, point.final, low, high, level, point.step,
        point.loss, source, tuple(errors), status, rendered("; ".join(said)), *band, point.used,
    )  # fmt: skip


def _too_early(seen: Curve) -> tuple[str, str]:
    enough = math.ceil(EARLIEST * seen.horizon)
    return (
        f"a run without siblings gets an interval from {EARLIEST:.0%} of its steps on",
        f"repeat the forecast at step {enough:,}, or give three finished siblings",
    )


def interval(final: float, errors: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Return final * exp(-+ t_k(level) s sqrt(1 + 1/k)) from k log errors of root mean square s.

    >>> low, high = interval(2.0, [0.01, -0.01, 0.01])
    >>> round(low, 3), round(high, 3)
    (1.946, 2.055)
    """
    half = half_width(errors, level)
    return final * math.exp(-half), final * math.exp(half)


def half_width(errors: Sequence[float], level: float = LEVEL) -> float:
    """Return t_k(level) s sqrt(1 + 1/k) of k log errors of root mean square s."""
    k = len(errors)
    spread = math.sqrt(sum(e * e for e in errors) / k)
    return float(student_quantile(0.5 + level / 2, k)) * spread * math.sqrt(1 + 1 / k)


def leverage_half_width(tests: Sequence[Backtest], at: float, level: float = LEVEL) -> float:
    """Return the half-width of log loss for a run whose log loss at the cut is `at`.

    That of a regression line's prediction interval, t_(k-2) s sqrt(1 + h), with h = 1/k + (x - mean)^2 / Sxx
    the leverage of a run at x among its k siblings and s^2 the mean of (1 - h_i) e_i^2, because a left-out
    error at leverage h_i has variance s^2 / (1 - h_i). A run beyond all siblings is less certain than one
    between them. It is never narrower than `half_width` of the same errors.
    """
    errors, x = np.array([t.error for t in tests]), np.array([t.level for t in tests])
    k = len(errors)
    spread = float(np.sum((x - x.mean()) ** 2))
    reach = (lambda values: (values - x.mean()) ** 2 / spread) if spread > 1e-12 else np.zeros_like
    s = math.sqrt(float(np.mean(errors**2 * (1 - 1 / k - reach(x)))))
    h = 1 / k + float(reach(np.array(at)))
    line = float(student_quantile(0.5 + level / 2, k - 2)) * s * math.sqrt(1 + h)
    return max(line, half_width(list(errors), level))


def sibling_errors(method: Forecaster, siblings: Sequence[Curve], share: float) -> list[float]:
    """Forecast each sibling from the others at `share`; return log(actual / predicted) if this works.

    A sibling with too few losses by then is cut at the step at which it had enough.
    """
    return [test.error for test in _sibling_backtests(method, siblings, share)]


def _sibling_backtests(method: Forecaster, siblings: Sequence[Curve], share: float) -> list[Backtest]:
    if "siblings" in method.needs and len(siblings) <= method.least_siblings:
        return []
    tests = []
    for i, sibling in enumerate(siblings):
        tests.append(_tested(method, sibling, [c for j, c in enumerate(siblings) if j != i], share))
    return [test for test in tests if test is not None]


def _tested(method: Forecaster, sibling: Curve, others: Sequence[Curve], share: float) -> Backtest | None:
    """Forecast a finished sibling from others at `share`; None where the method cannot."""
    try:
        enough = sibling.step[min(method.least_seen, len(sibling.step)) - 1]
        seen = sibling.planned().seen(max(share * sibling.horizon, enough))
        _check(method, seen, others)
        return _backtest(sibling, seen.last, method.fit(others, share).predict(seen))
    except (InputError, ValueError, np.linalg.LinAlgError):
        return None


def _backtest(actual: Curve, cut: float, point: Point) -> Backtest:
    error = math.log(actual.final_loss() / point.final)
    seen = actual.seen(cut)
    level = level_and_slope(seen.step, seen.loss)[0]
    return Backtest(error, path_errors(actual, cut, point.step, point.loss), level)


def own_errors(method: Forecaster, seen: Curve, siblings: Sequence[Curve]) -> list[float]:
    """Backtest on the run itself: from steps c, forecast step c / share, for several c.

    Each backtest forecasts as far ahead in log steps as the forecast itself, on a run that "ended" earlier.
    """
    return [test.error for test in _own_backtests(method, seen, siblings)]


def _own_backtests(method: Forecaster, seen: Curve, siblings: Sequence[Curve]) -> list[Backtest]:
    if "siblings" in method.needs:
        return []
    ahead = seen.horizon / seen.last
    tests = []
    for end in np.linspace(0.5, 1.0, 4) * seen.last:
        if np.sum(seen.step <= end / ahead) < LEAST_SEEN:
            continue
        shorter = _ended_at(seen, float(end))
        prefix = shorter.seen(end / ahead) if ahead > 1 else shorter
        try:
            _check(method, prefix, siblings)
            tests.append(_backtest(shorter, prefix.last, method.fit(siblings, 1 / ahead).predict(prefix)))
        except (InputError, ValueError, np.linalg.LinAlgError):
            continue
    return tests


def _ended_at(seen: Curve, end: float) -> Curve:
    cut = seen.seen(end)
    return Curve(
        cut.run, cut.step, cut.loss, cut.rate, cut.last, cut.schedule, cut.parameters, cut.features,
        cut.covariates,
    )  # fmt: skip


def _check(method: Forecaster, seen: Curve, siblings: Sequence[Curve]) -> None:
    if len(seen.step) < method.least_seen:
        raise InputError(
            f"run {seen.run}: {len(seen.step):,} losses seen; {method.name} needs at least "
            f"{method.least_seen}"
        )
    if "siblings" in method.needs and len(siblings) < method.least_siblings:
        raise InputError(
            f"{method.name}: {len(siblings):,} finished siblings; it needs at least {method.least_siblings}"
        )
    if "schedule" in method.needs and seen.plan() is None:
        raise InputError(f"{method.name}: the learning rate of {seen.run} is unknown; give a schedule")
    if "features" in method.needs and not len(seen.features):
        raise InputError(
            f"{method.name}: no features of {seen.run} were measured; measure some or use another method"
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


def _failed(method: Forecaster, seen: Curve, share: float, level: float, reason: str) -> Forecast:
    nan, none = math.nan, np.empty(0)
    return Forecast(
        seen.run, method.name, share, nan, nan, nan, level, none, none, "nothing", (), "failed", reason
    )


def future_steps(seen: Curve, points: int = 60) -> np.ndarray:
    """Return steps from the last one seen to the horizon, with enough of them in the final window."""
    ahead = np.linspace(seen.last, seen.horizon, points)
    window = np.linspace(seen.horizon * (1 - FINAL_SHARE), seen.horizon, 11)[1:]
    return np.unique(np.concatenate([ahead, window]))


def point_from_curve(seen: Curve, step: np.ndarray, loss: np.ndarray) -> Point:
    """Return the forecast whose final loss is the mean over the final window of a predicted curve."""
    window = step > seen.horizon * (1 - FINAL_SHARE)
    return Point(float(loss[window].mean()), step, loss)
