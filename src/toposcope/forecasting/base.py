"""A way to forecast the final loss of a run, and what comes out of it."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from toposcope.forecasting.unplanned import coverage
from toposcope.logs.curve import FINAL_SHARE, Curve

LEVEL = 0.9
"""Coverage that an interval aims at; others are scaled from it by the normal quantile."""

WIDE = 4.0
"""An interval whose upper end is this many times its lower end, or more, says nothing of the final loss."""

OWN_WIDTH = "its own slope, fit and noise"
"""The source of the interval of a run without siblings (`toposcope.forecasting.plain_law.half_width`)."""
EARLIEST = 0.16
"""A run without siblings has an interval from this share of its steps on: earlier, 38 to 80% of them held."""

LEAST_SEEN = 8
"""The fewest losses for a forecast."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty: `value` within [`low`, `high`] at confidence `level`, from `n` data.

    `status` is "ok" or a problem, and `reason` states it in words. Without an interval the bounds are NaN.

    >>> Estimate(2.0, 1.5, 2.5, level=0.95, n=12).status
    'ok'
    """

    value: float
    low: float
    high: float
    level: float
    n: int
    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A central forecast: the final loss, and the loss at future steps (empty when the method has none).

    `used` are the methods of an average with their weights, the largest first. `half` is the half-width of
    the log of a 90% interval, or a function that returns it, if the method states its own; it is used with
    fewer than three siblings. NaN means that there is no interval yet. `above` is that of the upper end, if
    it is another one.
    """

    final: float
    step: np.ndarray = field(default_factory=lambda: np.empty(0))
    loss: np.ndarray = field(default_factory=lambda: np.empty(0))
    used: tuple[tuple[str, float], ...] = ()
    note: str = ""
    half: float | Callable[[], float] | None = None
    above: Callable[[], float] | None = None

    @property
    def stated(self) -> float | None:
        """The half-width that the method states; None if it states none."""
        return self.half() if callable(self.half) else self.half


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


NO_TREND = "does not apply"
"""The status of a forecast of a loss that has no trend."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast as a row: the final loss with its interval, or a status with its reason.

    `errors` has the log errors log(actual / predicted) behind the interval: one per left-out sibling, or one
    per earlier cut of the same run. `curve_low` and `curve_high` are the interval of `loss` at every `step`
    (`toposcope.forecasting.backtests`); empty if there is no curve or no interval. `used` are the methods of
    an average with their weights.

    `status` is "ok"; "no plan" if the rest of the learning rate is unknown and no sibling shows it: `low` is
    lower by the most that an annealing gained in published runs, and `coverage` says how often the interval
    contained the end; "unhealthy" if the log shows a fault that no forecast can take into account
    (`toposcope.rules`), so that no coverage is known; "degenerate" without an interval; "failed"
    without a forecast; "does not apply" for a loss that has no trend, such as that of a policy. `reason` says
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
        own = self.interval_from == OWN_WIDTH
        return coverage(self.status, self.level, own=own, steps=self.horizon)

    @property
    def measured(self) -> bool:
        """Whether it was measured how often such intervals hold."""
        return not self.coverage.startswith("not")

    @property
    def horizon(self) -> float:
        """The step of the final loss; infinite if there is no path to it."""
        return float(self.step[-1]) if len(self.step) else math.inf

    @property
    def bounded(self) -> bool:
        """Whether there is an interval that is narrow enough to be useful."""
        return math.isfinite(self.low) and not anything(self.low, self.high)

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval as it may be shown: NaN twice if it is too wide to say anything."""
        return (self.low, self.high) if self.bounded else (math.nan, math.nan)

    @property
    def not_yet(self) -> str:
        """Why it is too early to say where the run ends; "" if it can be said, or if the forecast failed.

        Every answer that shows a forecast asks this: none prints an interval that says nothing. Of a run
        that is unhealthy it is said where it would end if it were healthy: that needs no interval.
        """
        unhealthy = self.status == "unhealthy" and math.isfinite(self.final)
        if self.bounded or unhealthy or self.status in ("failed", NO_TREND):
            return ""
        return anything(self.low, self.high) or "no interval can be given"

    @property
    def estimate(self) -> Estimate:
        """The final loss with its interval; n counts the left-out errors behind it."""
        n = len(self.errors)
        return Estimate(self.final, self.low, self.high, self.level, n, self.status, self.reason)


def anything(low: float, high: float) -> str:
    """Return what an interval is worth that says nothing of the final loss, else "".

    >>> anything(2.0, 2.5), anything(0.1, 30.0)
    ('', 'its final loss may be anything from 0.1 to 30')
    """
    wide = math.isfinite(low) and not high <= WIDE * low
    return f"its final loss may be anything from {low:.2g} to {high:.2g}" if wide else ""


def future_steps(seen: Curve, points: int = 60) -> np.ndarray:
    """Return steps from the last one seen to the horizon, with enough of them in the final window."""
    ahead = np.linspace(seen.last, seen.horizon, points)
    window = np.linspace(seen.horizon * (1 - FINAL_SHARE), seen.horizon, 11)[1:]
    return np.unique(np.concatenate([ahead, window]))


def point_from_curve(seen: Curve, step: np.ndarray, loss: np.ndarray) -> Point:
    """Return the forecast whose final loss is the mean over the final window of a predicted curve."""
    window = step > seen.horizon * (1 - FINAL_SHARE)
    return Point(float(loss[window].mean()), step, loss)
