"""Forecasts a run without siblings by a power law of the step, robust to its start and to outliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from toposcope.core.errors import InputError
from toposcope.forecasting.base import EARLIEST, Forecaster, Point, future_steps, point_from_curve
from toposcope.forecasting.families import warmup_end
from toposcope.logs.curve import FINAL_SHARE, Curve

START = 0.05
"""Share of the planned steps whose losses are left out: warm-up, and the fall of the first steps."""

_START_SEEN = 0.25
"""At most this share of the steps seen is left out; otherwise, nothing would remain early on."""

BINS = 40
"""Bins of equal width in log step, so that dense and sparse logs are fitted alike."""

MISFIT = 0.01
"""Deviations above this log loss count linearly, smaller ones by their square."""

EXPONENT, SPREAD = 0.5, 0.2
"""The expected exponent and its standard deviation in logarithm; few losses leave the exponent there."""

LEAST_AFTER_START = 2
"""The fewest losses after the start: two determine floor and height at an exponent of 1/2."""

CHECKED = (0.5, 0.7, 0.85)
"""The law fitted up to these shares of the steps seen forecasts the current losses, as a check."""

FREE = 0.5
"""The standard deviation of the exponent in logarithm in the fit that says how uncertain the law is."""

WEIGHTS = (0.25, 2.0, 1.25, 4.1)
"""The weights of the four squares of the half-width (`squares`), rounded. Their ratios minimise the pinball
loss on simulated curves and half of parameter_golf's runs; one factor then makes 90% of the intervals of
these simulated curves hold (benchmarks.forecast_alone --calibrate, 2026-11-27)."""

_ANNEALS = 0.9
"""A plan anneals if its learning rate will fall below this share of the current one."""

_LEAST_SCATTER = 2e-4
"""The least scatter of log losses about the law: that of a loss of about 2 printed with four digits."""

NOISE = 0.03
"""The assumed noise of a log loss with fewer than three differences: parameter_golf's median."""

_RECENT, _GAPS = 0.9, 5
"""The last tenth of the steps seen, and the number of gaps between losses whose median is the usual gap."""

_LOWEST, _EXPONENTS = -12.0, (0.01, 5.0)
"""Log floor and log height below the present loss, and exponents: bounds of the search, not a prior."""


@dataclass(frozen=True, slots=True)
class PlainLaw(Forecaster):
    """L = E + A s^-b of the step s, with E, A > 0 and the exponent b drawn towards 1/2.

    The form is the power law with a floor of Hestness et al. (2017) and Hoffmann et al. (2022), in the steps
    of one run as in Tissue et al. (2024), who find exponents of about 1/2. The losses are averaged in 40 bins
    of log step, without warm-up and the first 5% of the planned steps. With y the log of a bin's mean loss
    and n its number of losses, the fit minimises

        sum n / mean(n) soft(y - log L, .01) + ((log b - log .5) / .2)^2 / 2,

    soft(r, c) = sqrt(1 + (r / c)^2) - 1: quadratic for small deviations, linear for large ones.

    Raises
    ------
    InputError
        When fewer than two losses after the start have been seen.

    Examples
    --------
    >>> from toposcope.forecasting import curve_from_metrics
    >>> import pandas as pd
    >>> step = np.arange(10.0, 10_001.0, 10.0)
    >>> table = pd.DataFrame({"step": step, "loss": 2.0 + 30.0 * step**-0.5})
    >>> run = curve_from_metrics("a", table)
    >>> round(PlainLaw().predict(run.seen(3000)).final, 2), round(run.final_loss(), 2)
    (2.3, 2.3)
    """

    name: ClassVar[str] = "plain law"
    least_seen: ClassVar[int] = 5

    def predict(self, seen: Curve) -> Point:
        """Fit the law to the losses after the start and read off the rest of the run."""
        point: Point = seen.known(("fit of", self.name), lambda: _fitted(seen))
        return point


def after_start(seen: Curve) -> Curve:
    """Return the run without warm-up and its first 5%; at most a quarter of the steps seen is left out.

    >>> step = np.arange(1.0, 101.0)
    >>> run = Curve("a", step, 1 / step, np.full(100, np.nan), 1000)
    >>> after_start(run).step[0], after_start(replace(run, horizon=200)).step[0]
    (np.float64(26.0), np.float64(11.0))
    """
    start = max(min(START * seen.horizon, _START_SEEN * seen.last), warmup_end(seen), 0.0)
    keep = seen.step > start
    return replace(seen, step=seen.step[keep], loss=seen.loss[keep], rate=seen.rate[keep])


def _fitted(seen: Curve) -> Point:
    settled = after_start(seen)
    if len(settled.step) < LEAST_AFTER_START:
        raise InputError(
            f"run {seen.run}: {len(settled.step):,} losses seen after its start; "
            f"plain law needs at least {LEAST_AFTER_START}"
        )
    floor, height, exponent = law = _law(settled, seen.last)
    ahead = future_steps(seen)
    point = point_from_curve(seen, ahead, floor + height * (ahead / seen.last) ** -exponent)
    return replace(point, half=lambda: seen.known("half-width", lambda: half_width(seen, settled, law)))


def with_width(point: Point, seen: Curve) -> Point:
    """Return a forecast by another method with the half-widths of a run without siblings.

    Below, it is that of the plain law and how far the two are apart, as squares: both extrapolate the same
    losses. Above, it is the same of the law in steps that count by their rate (`counted_by_rate`), where the
    rate is planned to fall: no more of that decay's own gain need come. None if there are too few losses.
    """
    below = _from_law(seen, point.final)
    counted = counted_by_rate(seen)
    above = _from_law(counted, point.final) if counted is not seen and below is not None else None
    return replace(point, half=below, above=above)


def _from_law(seen: Curve, final: float) -> Callable[[], float] | None:
    """Return what computes the half-width of the plain law with its distance from a `final` loss."""
    try:
        law = PlainLaw().predict(seen) if len(seen.step) >= PlainLaw.least_seen else None
    except InputError:
        return None
    if law is None or not callable(law.half):
        return None
    width, apart = law.half, math.log(final / law.final)
    return lambda: math.hypot(width(), apart)


def counted_by_rate(seen: Curve) -> Curve:
    """Return the run with each step in proportion to its rate, if its plan falls: the last one seen stays.

    >>> from toposcope.logs.schedule import Schedule
    >>> step = np.arange(1.0, 101.0)
    >>> plan = Schedule(np.array([0.0, 100.0, 200.0]), np.array([1.0, 1.0, 0.0]))
    >>> run = Curve("a", step, 1 / step, np.ones(100), 200, schedule=plan)
    >>> counted_by_rate(run).horizon, counted_by_rate(replace(run, schedule=None)).horizon
    (150, 200)
    """
    plan = seen.schedule
    if plan is None or not anneals(seen):
        return seen
    after = seen.step > max(warmup_end(seen), 0.0)
    area = plan.area(np.array([seen.last, seen.horizon], float))
    if not after.any() or not area[0] > 0:
        return seen
    step = plan.area(seen.step[after]) / area[0] * seen.last
    end = max(math.ceil(area[1] / area[0] * seen.last), seen.last)
    return replace(
        seen, step=step, loss=seen.loss[after], rate=np.full(len(step), np.nan), horizon=end, schedule=None
    )


def anneals(seen: Curve) -> bool:
    """Return whether the planned rate falls after the last step seen."""
    plan = seen.plan()
    if plan is None:
        return False
    ahead = plan.at(np.linspace(seen.last, seen.horizon, 50))
    return bool(ahead.min() < _ANNEALS * ahead[0])


def half_width(seen: Curve, settled: Curve, law: tuple[float, float, float]) -> float:
    """Return the half-width of a 90% interval of the log final loss of a run without siblings.

    It is the root of the weighted sum of `squares`. NaN before 16% of the steps were seen.
    """
    if seen.last < EARLIEST * seen.horizon:
        return math.nan
    return math.sqrt(float(np.dot(WEIGHTS, squares(seen, settled, law))))


def squares(seen: Curve, settled: Curve, law: tuple[float, float, float]) -> tuple[float, ...]:
    """Return the squares that make the interval of the log final loss: c^2 r, p^2, g^2 and n^2.

    c^2 is the mean of e^2 / log(1 / q) over `CHECKED`: e is the log error, on the last tenth of the steps
    seen, of the law fitted to the first q of them, which grows like a random walk in log step. r is the log
    of the horizon over the last step. p is the standard error of the final loss by the law fitted once more,
    with the run's own scatter and an exponent that is nearly free; g is how far this moves the final loss. n
    is the noise of the final loss.
    """
    r = math.log(max(seen.horizon / seen.last, 1.0))
    rates = []
    for share in CHECKED:
        earlier = _until(settled, share * seen.last)
        if earlier is not None:
            off = _off(_law(earlier, seen.last), settled, seen.last)
            rates.append(off**2 / math.log(1 / share))
    error, moved = _refit(seen, settled, law)
    checked = float(np.mean(rates)) if rates else 0.0
    return checked * r, error**2, moved**2, _final_noise(seen, settled) ** 2


def _refit(seen: Curve, settled: Curve, law: tuple[float, float, float]) -> tuple[float, float]:
    """Return the error of the log final loss by a fit to the run's own scatter, and how far that moves it.

    The scatter is that of the bins about the law, the error the standard one of linear least squares.
    """
    step, log_loss, count = log_bins(settled.step, settled.loss)
    floor, height, exponent = law
    off = np.sqrt(count / count.mean()) * (
        np.log(floor + height * (step / seen.last) ** -exponent) - log_loss
    )
    # a bin with a spike counts as one of three standard deviations, these from the median deviation
    most = 3 * 1.4826 * float(np.median(np.abs(off)))
    off = np.clip(off, -most, most)
    scatter = math.sqrt(float(off @ off) / (len(off) - 3)) if len(off) > 3 else NOISE
    again, slopes = _fit(settled, seen.last, max(scatter, _LEAST_SCATTER), FREE, np.log(law))
    final, gradient = _final_of(np.exp(again), seen)
    covariance = np.linalg.pinv(slopes.T @ slopes)
    error = math.sqrt(max(float(gradient @ covariance @ gradient), 0.0))
    return error, final - _final_of(np.array(law), seen)[0]


def _final_of(law: np.ndarray, seen: Curve) -> tuple[float, np.ndarray]:
    """Return the log final loss of (E, A, b), and its gradient in their logarithms."""
    floor, height, exponent = law
    log_step = np.log(np.linspace(1 - FINAL_SHARE, 1.0, 11)[1:] * max(seen.horizon / seen.last, 1.0))
    falling = height * np.exp(-exponent * log_step)
    loss = floor + float(falling.mean())
    steeper = -exponent * float(np.mean(falling * log_step))
    return math.log(loss), np.array([floor, loss - floor, steeper]) / loss


def _until(settled: Curve, last: float) -> Curve | None:
    """Return the losses up to a step; None if there are too few for the law."""
    early = settled.step <= last
    if early.sum() < LEAST_AFTER_START:
        return None
    return replace(settled, step=settled.step[early], loss=settled.loss[early], rate=settled.rate[early])


def _off(law: tuple[float, float, float], settled: Curve, last: float) -> float:
    """Return the log error of a law for the mean loss of the last tenth of the steps."""
    floor, height, exponent = law
    late = settled.step > _RECENT * last
    predicted = floor + height * (settled.step[late] / last) ** -exponent
    return math.log(float(settled.loss[late].mean()) / float(predicted.mean()))


def _final_noise(seen: Curve, settled: Curve) -> float:
    """Return the standard error of the log final loss: robust noise over the root of its number of losses."""
    change = np.diff(np.log(settled.loss))
    noise = NOISE
    if len(change) > 2:
        noise = 1.4826 * float(np.median(np.abs(change - np.median(change)))) / math.sqrt(2)
    gap = float(np.median(np.diff(settled.step[-_GAPS - 1 :])))
    return noise / math.sqrt(max(1.0, FINAL_SHARE * seen.horizon / gap))


def log_bins(
    step: np.ndarray, loss: np.ndarray, bins: int = BINS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean log step, log of the mean loss and count for every non-empty bin of log step."""
    log = np.log(step)
    width = max(log[-1] - log[0], 1e-12) / bins
    index = np.minimum(((log - log[0]) / width).astype(int), bins - 1)
    count = np.bincount(index, minlength=bins)
    held = count > 0
    n = count[held]
    mean_step = np.bincount(index, log, minlength=bins)[held] / n
    mean_loss = np.bincount(index, loss, minlength=bins)[held] / n
    return np.exp(mean_step), np.log(mean_loss), n


def _law(settled: Curve, last: float) -> tuple[float, float, float]:
    """Return (E, A, b) of L = E + A (s / last)^-b, fitted to bins of log step."""
    fit, _ = _fit(settled, last, MISFIT, SPREAD)
    return math.exp(fit[0]), math.exp(fit[1]), math.exp(fit[2])


def _fit(
    settled: Curve, last: float, misfit: float, spread: float, begin: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logs of (E, A, b), and the slopes of the weighted residuals in them, shape (bins + 1, 3)."""
    from scipy.optimize import least_squares

    step, log_loss, count = log_bins(settled.step, settled.loss)
    u = np.log(step / last)
    root = np.sqrt(count / count.mean())
    now = float(np.mean(log_loss[-3:]))

    def residuals(theta: np.ndarray) -> np.ndarray:
        law = math.exp(theta[0]) + np.exp(theta[1] - math.exp(theta[2]) * u)
        off = root * (np.log(law) - log_loss) / misfit
        pull = (theta[2] - math.log(EXPONENT)) / spread
        return np.append(np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1)), pull)

    if begin is None:
        begin = np.array([now + math.log(0.8), now + math.log(0.2), math.log(EXPONENT)])
    low = np.array([now + _LOWEST, now + _LOWEST, math.log(_EXPONENTS[0])])
    high = np.array([now + 3.0, now + 8.0, math.log(_EXPONENTS[1])])
    inside = np.clip(begin, low + 1e-6, high - 1e-6)
    solution = least_squares(residuals, inside, bounds=(low, high))
    return solution.x, solution.jac
