"""Running means over rows: the smoothing that a log went through, found again from its series.

Logs are smoothed row by row. At uneven steps such a mean is delayed by a different number of steps at every
row. So two unrelated curves that were smoothed alike share these delays, and would seem to move together. But
a mean of a trend and noise is the mean of the trend and an autoregression. So if the trends are smoothed in
the same way before they are removed, nothing of the delays is left. Which mean it was is a parameter of the
model, chosen by its likelihood: an exponential mean with a weight from the continuum, or a moving mean of a
whole number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from toposcope.core.compiling import kernel

KEEPS = (0.7, 0.8, 0.9, 0.95, 0.98, 0.995)
"""Weights of the row before in exponential means; the best is refined between its neighbours."""
WIDTHS = range(3, 17)
"""Moving means of so many rows are tried, up to a quarter of the series."""
_REFINED = 1e-5
"""Precision of log(1 - keep): an error of 1e-3 still leaves shared delays in series with little noise."""


@dataclass(frozen=True, slots=True)
class RowMean:
    """An exponential mean that keeps this share of its last value, or a moving mean of a number of rows.

    The first value of an exponential mean is the series' first; a moving mean begins with fewer rows.

    >>> RowMean(keep=0.5).of(np.array([[0.0, 4.0, 4.0]])).tolist()
    [[0.0, 2.0, 3.0]]
    >>> RowMean(width=2).of(np.array([[0.0, 4.0, 4.0]])).tolist()
    [[0.0, 2.0, 4.0]]
    """

    keep: float = 0.0
    width: int = 1

    def of(self, series: np.ndarray) -> np.ndarray:
        """Return the running means of each row of an array (series, n)."""
        if self.width > 1:
            total = np.cumsum(np.pad(series, ((0, 0), (1, 0))), axis=1)
            end = np.arange(1, series.shape[1] + 1)
            start = np.maximum(end - self.width, 0)
            return np.asarray((total[:, end] - total[:, start]) / (end - start))
        means = np.array(series, float, order="C")
        _exponential(means, self.keep)
        return means


@kernel
def _exponential(means, keep):  # type: ignore[no-untyped-def]
    """Put the exponential means of each row in its place."""
    for row in means:
        for t in range(1, len(row)):
            row[t] = keep * row[t - 1] + (1.0 - keep) * row[t]


def likeliest(score: Callable[[RowMean], float], rows: int, penalty: float) -> RowMean | None:
    """Return the mean with the smallest `score`; None if no mean lowers it by the `penalty`."""
    widths = [RowMean(width=width) for width in WIDTHS if width <= rows // 4]
    scores = {mean: score(mean) for mean in [*(RowMean(keep=keep) for keep in KEEPS), *widths]}
    best = min(scores, key=lambda mean: scores[mean])
    if scores[best] + penalty >= score(RowMean()):
        return None
    return _refined(score, best) if best.keep else best


def _refined(score: Callable[[RowMean], float], mean: RowMean) -> RowMean:
    """Return the best exponential mean between the neighbours of one."""
    from scipy.optimize import minimize_scalar

    at = KEEPS.index(mean.keep)
    low = KEEPS[at - 1] if at else KEEPS[0] - 0.15
    high = KEEPS[at + 1] if at + 1 < len(KEEPS) else 0.999
    optimum = minimize_scalar(
        lambda free: score(RowMean(keep=1.0 - np.exp(free))),
        bounds=(np.log(1.0 - high), np.log(1.0 - low)), method="bounded", options={"xatol": _REFINED},
    )  # fmt: skip
    return RowMean(keep=float(1.0 - np.exp(optimum.x)))
