"""Forecasts of losses that are known by now, and the intervals that follow from their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.core.distributions import normal_quantile, student_quantile
from toposcope.core.errors import InputError
from toposcope.forecasting.base import LEAST_SEEN, LEVEL, Forecaster, Point
from toposcope.logs.curve import FINAL_SHARE, Curve, level_and_slope

AHEAD = np.linspace(0.0, 1.0, 13)[1:]
"""Positions between the cut (0) and the end (1), in log step, at which backtest errors are read."""

LEAST_PATHS = 3
"""The fewest siblings for a band from their paths."""


@dataclass(frozen=True, slots=True)
class Backtest:
    """A forecast of a known loss: log(actual / predicted) of the final loss, and along the curve."""

    error: float
    path: np.ndarray
    level: float = math.nan
    """Smoothed log loss at the cut."""


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
    return [test.error for test in sibling_backtests(method, siblings, share)]


def sibling_backtests(method: Forecaster, siblings: Sequence[Curve], share: float) -> list[Backtest]:
    """Forecast each sibling from the others at `share`; siblings that cannot be forecast are left out."""
    if "siblings" in method.needs and len(siblings) <= method.least_siblings:
        return []
    tests = []
    for i, sibling in enumerate(siblings):
        tests.append(backtest_of(method, sibling, [c for j, c in enumerate(siblings) if j != i], share))
    return [test for test in tests if test is not None]


def backtest_of(method: Forecaster, sibling: Curve, others: Sequence[Curve], share: float) -> Backtest | None:
    """Forecast a finished sibling from others at `share`; None where the method cannot."""
    try:
        enough = sibling.step[min(method.least_seen, len(sibling.step)) - 1]
        seen = sibling.planned().seen(max(share * sibling.horizon, enough))
        check_needs(method, seen, others)
        return _scored(sibling, seen.last, method.fit(others, share).predict(seen))
    except (InputError, ValueError, np.linalg.LinAlgError):
        return None


def _scored(actual: Curve, cut: float, point: Point) -> Backtest:
    error = math.log(actual.final_loss() / point.final)
    seen = actual.seen(cut)
    level = level_and_slope(seen.step, seen.loss)[0]
    return Backtest(error, path_errors(actual, cut, point.step, point.loss), level)


def own_errors(method: Forecaster, seen: Curve, siblings: Sequence[Curve]) -> list[float]:
    """Backtest on the run itself: from steps c, forecast step c / share, for several c.

    Each backtest forecasts as far ahead in log steps as the forecast itself, on a run that "ended" earlier.
    """
    return [test.error for test in own_backtests(method, seen, siblings)]


def own_backtests(method: Forecaster, seen: Curve, siblings: Sequence[Curve]) -> list[Backtest]:
    """Forecast steps of the run that are known from earlier ones, as far ahead as the forecast itself."""
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
            check_needs(method, prefix, siblings)
            tests.append(_scored(shorter, prefix.last, method.fit(siblings, 1 / ahead).predict(prefix)))
        except (InputError, ValueError, np.linalg.LinAlgError):
            continue
    return tests


def _ended_at(seen: Curve, end: float) -> Curve:
    cut = seen.seen(end)
    return Curve(
        cut.run, cut.step, cut.loss, cut.rate, cut.last, cut.schedule, cut.parameters, cut.features,
        cut.covariates,
    )  # fmt: skip


def check_needs(method: Forecaster, seen: Curve, siblings: Sequence[Curve]) -> None:
    """Raise InputError if the method lacks something that it needs."""
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


def path_errors(actual: Curve, cut: float, step: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Return log(actual / predicted) at `AHEAD` of a curve predicted from `cut` on, shape (12,).

    Both are means over the logged steps in a window of `FINAL_SHARE` of the horizon that ends there and does
    not begin before the cut. All NaN if the method predicted no curve.
    """
    errors = np.full(len(AHEAD), np.nan)
    if not len(step) or cut <= 0:
        return errors
    for i, end in enumerate(cut * (actual.horizon / cut) ** AHEAD):
        begin = max(end - FINAL_SHARE * actual.horizon, cut)
        window = slice(*np.searchsorted(actual.step, [begin, end + 1e-9], side="right"))
        if window.start >= window.stop:
            continue
        predicted = _mean(np.interp(actual.step[window], step, loss))
        if predicted > 0:
            errors[i] = math.log(_mean(actual.loss[window]) / predicted)
    return errors


def _mean(values: np.ndarray) -> float:
    """Return the mean of a few values; `mean` takes four times as long as the sum inside it."""
    return float(np.add.reduce(values) / len(values))


def curve_interval(
    step: np.ndarray,
    loss: np.ndarray,
    *,
    cut: float,
    end: float,
    paths: Sequence[np.ndarray],
    half: float,
    noise: float,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper bound of the loss at `step`, each of shape (n,).

    With k >= 3 backtests at a distance ahead, the half-width in log loss there is t_k sqrt(1 + 1/k) times
    their root mean square error. At the end it is that of the final loss (`half`); between the distances it
    is linear in log step. With fewer backtests it is linear in log step, from `noise` (the standard error of
    the smoothed loss at the cut) times the normal quantile, to `half`. It is never narrower than the noise.
    """
    position = np.clip(np.log(np.maximum(step, cut) / cut) / math.log(end / cut), 0.0, 1.0)
    least = noise * float(normal_quantile(0.5 + level / 2)) if math.isfinite(noise) else 0.0
    table = np.array(paths).reshape(-1, len(AHEAD))
    count = np.isfinite(table).sum(axis=0)
    read = (count >= LEAST_PATHS) & (AHEAD < 1.0)
    k = count[read]
    spread = np.sqrt(np.nansum(table[:, read] ** 2, axis=0) / k)
    widths = student_quantile(0.5 + level / 2, k) * spread * np.sqrt(1 + 1 / k)
    known_shares = AHEAD[read]
    if not read[0]:
        known_shares, widths = np.insert(known_shares, 0, 0.0), np.insert(widths, 0, least)
    known_shares, widths = np.append(known_shares, 1.0), np.append(widths, half)
    width = np.maximum(np.interp(position, known_shares, widths), least)
    return loss * np.exp(-width), loss * np.exp(width)
