"""Forecasts from the run's own losses: the last value, and parametric families of decreasing curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from toposcope.forecasting.base import Forecaster, Point, future_steps, point_from_curve
from toposcope.logs.curve import FINAL_SHARE, Curve, binned

_RATES = np.geomspace(0.02, 3.0, 60)
"""Candidate exponents; the other parameters of a family follow by least squares."""


_RECENT = 0.2
"""At most this share of the steps seen counts as the last ones: early on, the final window covers all."""


@dataclass(frozen=True, slots=True)
class LastValue(Forecaster):
    """The mean loss over the last steps seen: as many as in the final window, at most a fifth."""

    name: ClassVar[str] = "last value"

    def predict(self, seen: Curve) -> Point:
        """Return the recent mean, constant up to the end."""
        window = min(FINAL_SHARE * seen.horizon, _RECENT * seen.last)
        recent = seen.loss[seen.step > seen.last - window]
        step = future_steps(seen)
        return Point(float(recent.mean()), step, np.full(len(step), recent.mean()))


class _Family(Forecaster):
    """Curves c + a g(x), x = step + 1: for each shape g the best (a >= 0, c >= 0) is linear."""

    def predict(self, seen: Curve) -> Point:
        """Fit the family to the losses after warm-up and read off the rest of the run."""
        point: Point = seen.known(("fit of", self.name), lambda: self._fitted(seen))
        return point

    def _fitted(self, seen: Curve) -> Point:
        data = binned(seen, 150, after=warmup_end(seen))
        shapes = self._shapes(data.step + 1.0, seen)
        a, c, index = _best_line(shapes, data.loss, data.count, *self._pin(seen))
        step = future_steps(seen)
        return point_from_curve(seen, step, c + a * self._shapes(step + 1.0, seen)[index])

    def _shapes(self, x: np.ndarray, seen: Curve) -> np.ndarray:
        raise NotImplementedError

    def _pin(self, seen: Curve) -> tuple[float | None]:
        return (None,)


@dataclass(frozen=True, slots=True)
class Pow3(_Family):
    """L = c + a x^-alpha."""

    name: ClassVar[str] = "pow3"

    def _shapes(self, x: np.ndarray, seen: Curve) -> np.ndarray:
        return (x[None, :] / (seen.last + 1.0)) ** -_RATES[:, None]


@dataclass(frozen=True, slots=True)
class Pow4(_Family):
    """L = c + a (x + b)^-alpha."""

    name: ClassVar[str] = "pow4"

    def _shapes(self, x: np.ndarray, seen: Curve) -> np.ndarray:
        scale = seen.last + 1.0
        shifts = np.concatenate([[0.0], np.geomspace(0.003, 3.0, 40)])
        shapes = (x[None, None, :] / scale + shifts[:, None, None]) ** -_RATES[None, :, None]
        return shapes.reshape(-1, len(x))


@dataclass(frozen=True, slots=True)
class Exp4(_Family):
    """L = c + a exp(-(x / b)^alpha)."""

    name: ClassVar[str] = "exp4"

    def _shapes(self, x: np.ndarray, seen: Curve) -> np.ndarray:
        return _stretched(x, seen)


@dataclass(frozen=True, slots=True)
class Janoschek(_Family):
    """L = c + (L_0 - c) exp(-(x / b)^delta), L_0 the first loss of the run."""

    name: ClassVar[str] = "janoschek"

    def _shapes(self, x: np.ndarray, seen: Curve) -> np.ndarray:
        return _stretched(x, seen)

    def _pin(self, seen: Curve) -> tuple[float | None]:
        return (float(seen.loss[: max(1, len(seen.loss) // 200)].mean()),)


@dataclass(frozen=True, slots=True)
class ILog2(_Family):
    """L = c + a / log x."""

    name: ClassVar[str] = "ilog2"

    def _shapes(self, x: np.ndarray, seen: Curve) -> np.ndarray:
        return 1.0 / np.log(np.maximum(x, 2.0))[None, :]


@dataclass(frozen=True, slots=True)
class SmoothedPow3(Forecaster):
    """pow3 fitted to the isotonic (never rising) version of the losses, with equal weight per log step."""

    name: ClassVar[str] = "smoothed pow3"

    def predict(self, seen: Curve) -> Point:
        """Smooth, fit, extrapolate."""
        point: Point = seen.known(("fit of", self.name), lambda: self._fitted(seen))
        return point

    def _fitted(self, seen: Curve) -> Point:
        data = binned(seen, 150, after=warmup_end(seen))
        falling = -_isotonic(-data.loss, data.count)
        scale = seen.last + 1.0
        shapes = ((data.step + 1.0)[None, :] / scale) ** -_RATES[:, None]
        a, c, index = _best_line(shapes, falling, data.count / (data.step + 1.0), None)
        step = future_steps(seen)
        return point_from_curve(seen, step, c + a * ((step + 1.0) / scale) ** -_RATES[index])


def warmup_end(seen: Curve) -> float:
    """Return the first step at the highest rate seen; -1 if no rate is known or it never rose.

    If the rate is still rising, nothing is left out.
    """
    if not np.isfinite(seen.rate).any():
        return -1.0
    at = float(seen.step[int(np.nanargmax(seen.rate))])
    return at if at < 0.5 * seen.last else -1.0


def _stretched(x: np.ndarray, seen: Curve) -> np.ndarray:
    scales = np.geomspace(0.003, 30.0, 40) * (seen.last + 1.0)
    powers = np.linspace(0.1, 1.5, 29)
    grown = (x[None, None, :] / scales[:, None, None]) ** powers[None, :, None]
    return np.exp(-np.minimum(grown, 700.0)).reshape(-1, len(x))


def _best_line(
    shapes: np.ndarray, loss: np.ndarray, weight: np.ndarray, pinned: float | None
) -> tuple[float, float, int]:
    """Return (a, c, index) that minimise the weighted squares of loss - c - a * shape; a >= 0, c >= 0.

    With `pinned` the curve starts there: a = pinned - c.
    """
    w = weight / weight.sum()
    if pinned is not None:
        # loss - pinned * g = c (1 - g)
        u, v = 1.0 - shapes, loss - pinned * shapes
        c = np.clip((u * v) @ w / np.maximum((u * u) @ w, 1e-300), 0.0, pinned)
        a = pinned - c
    else:
        mean_g, mean_y = shapes @ w, float(loss @ w)
        cross = (shapes * loss) @ w - mean_g * mean_y
        spread = np.maximum((shapes * shapes) @ w - mean_g**2, 1e-300)
        a = np.maximum(cross / spread, 0.0)
        c = mean_y - a * mean_g
        through_zero = (shapes * loss) @ w / np.maximum((shapes * shapes) @ w, 1e-300)
        a, c = np.where(c < 0, through_zero, a), np.maximum(c, 0.0)
    sse = (loss - c[:, None] - a[:, None] * shapes) ** 2 @ w
    best = int(np.argmin(sse))
    return float(a[best]), float(c[best]), best


def _isotonic(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the closest non-decreasing sequence (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values, weights=weight).x
