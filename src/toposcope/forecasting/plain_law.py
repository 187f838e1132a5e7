"""Forecasts a run without siblings by a power law of the step, robust to its start and to outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from toposcope.core.distributions import normal_quantile
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

SLOPE = 0.4
"""The share of the fall at the present slope that counts as uncertain. This and `unplanned.DECAY` were set on
half of parameter_golf's runs and the schedules of 25M (benchmarks.forecast_alone --calibrate)."""

CHECKED = 0.7
"""From this share of the steps seen, the law forecasts the current losses as a check."""

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
    return replace(point, half=half_width(seen, settled, law))


def half_width(seen: Curve, settled: Curve, law: tuple[float, float, float]) -> float:
    """Return the half-width of a 90% interval of the log final loss of a run without siblings.

    It is sqrt((.4 d r)^2 + e^2 r / log(1 / .7) + 1.645^2 (m^2 + n^2)). d is the law's slope -d log L / d
    log s at the last step, and r the log of the horizon over that step. e is the log error, on the last tenth
    of the steps seen, of the law fitted to the first 70% of them; it grows like a random walk in log step. m
    is the error of the law itself on the last tenth, and n the noise of the final loss. NaN before 16% of the
    steps were seen.
    """
    if seen.last < EARLIEST * seen.horizon:
        return math.nan
    floor, height, exponent = law
    r = math.log(max(seen.horizon / seen.last, 1.0))
    slope = exponent * height / (floor + height)
    earlier = _without_last(settled, seen.last)
    checked = _off(_law(earlier, seen.last), settled, seen.last) if earlier is not None else 0.0
    here = float(normal_quantile(0.95)) * math.hypot(
        _off(law, settled, seen.last), _final_noise(seen, settled)
    )
    return math.sqrt((SLOPE * slope * r) ** 2 + checked**2 * r / math.log(1 / CHECKED) + here**2)


def _without_last(settled: Curve, last: float) -> Curve | None:
    """Return the losses of the first 70% of the steps; None if there are too few for the law."""
    early = settled.step <= CHECKED * last
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
    from scipy.optimize import least_squares

    step, log_loss, count = log_bins(settled.step, settled.loss)
    u = np.log(step / last)
    root = np.sqrt(count / count.mean())
    now = float(np.mean(log_loss[-3:]))

    def residuals(theta: np.ndarray) -> np.ndarray:
        law = math.exp(theta[0]) + np.exp(theta[1] - math.exp(theta[2]) * u)
        off = root * (np.log(law) - log_loss) / MISFIT
        pull = (theta[2] - math.log(EXPONENT)) / SPREAD
        return np.append(np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1)), pull)

    begin = [now + math.log(0.8), now + math.log(0.2), math.log(EXPONENT)]
    low = [now + _LOWEST, now + _LOWEST, math.log(_EXPONENTS[0])]
    high = [now + 3.0, now + 8.0, math.log(_EXPONENTS[1])]
    found = least_squares(residuals, begin, bounds=(low, high)).x
    return math.exp(found[0]), math.exp(found[1]), math.exp(found[2])
