"""The interval of a forecast's whole curve, from the errors of backtests at each distance ahead."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from toposcope.core.distributions import normal_quantile, student_quantile
from toposcope.logs.curve import FINAL_SHARE, Curve

AHEAD = np.linspace(0.0, 1.0, 13)[1:]
"""Positions between the cut (0) and the end (1), in log step, at which backtest errors are read."""

LEAST_PATHS = 3
"""The fewest siblings for a band from their paths."""


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
    known = AHEAD[read]
    if not read[0]:
        known, widths = np.insert(known, 0, 0.0), np.insert(widths, 0, least)
    known, widths = np.append(known, 1.0), np.append(widths, half)
    width = np.maximum(np.interp(position, known, widths), least)
    return loss * np.exp(-width), loss * np.exp(width)
