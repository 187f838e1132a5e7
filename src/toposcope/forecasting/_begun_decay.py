"""A decay of the learning rate that has begun in a log, and the rest of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from toposcope.forecasting.unplanned import ANNEALED
from toposcope.logs.curve import Curve
from toposcope.logs.schedule import Schedule

_BEGUN, _ALONG, _TOLERANCE = 0.05, 20.0, 0.005
"""A decay is read from a log once the rate has fallen by the first share of its peak, if it is off the decay
by at most a 20th of this fall, and by the last share of the peak, which printed digits stay within."""
_RATES = 8
"""The fewest logged rates since the peak that show the shape of a decay."""
_KNOTS = 200
"""The knots of a decay that is read from a log."""


def continued(seen: Curve) -> Schedule | None:
    """Return the logged rate with the rest of its decay: half a cosine, or a line, down to the run's end.

    A run that logs its rate shows its plan as soon as the decay has begun: the rate since its peak lies on
    one curve that ends low at the last planned step. None if the rate has not fallen by 5%, follows neither
    shape, or would end above a fifth of its peak.

    >>> step = np.arange(10.0, 4001.0, 10.0)
    >>> rate = 1e-4 + 9e-4 * (1 + np.cos(np.pi * step / 10_000)) / 2
    >>> plan = continued(Curve("a", step, 2 + step**-0.5, rate, 10_000))
    >>> [float(round(one, 5)) for one in plan.at(np.array([4000, 7000, 10_000]))]
    [0.00069, 0.00028, 0.0001]
    >>> continued(Curve("a", step, 2 + step**-0.5, 0.03 * step**-0.5, 10_000)) is None
    True
    """
    finite = np.isfinite(seen.rate)
    step, rate = seen.step[finite], seen.rate[finite]
    if seen.endless or len(step) < _RATES or not rate.max() > 0 or seen.last >= seen.horizon:
        return None
    top = np.flatnonzero(rate == rate.max())  # printed digits make a peak of a cosine flat
    fall = rate[top[-1]] - rate[-1]
    if len(rate) - top[-1] < _RATES or fall < _BEGUN * rate.max():
        return None
    between = (step[max(top[0] - 1, 0)], step[top[-1] + 1])
    late, ahead = slice(top[-1], None), np.linspace(seen.last, seen.horizon, _KNOTS)[1:]
    decays = [
        _decay(shape, step[late], rate[late], ahead, between)
        for shape in (lambda x: (1 - np.cos(np.pi * x)) / 2, lambda x: x)
    ]
    allowed = min(_TOLERANCE * rate.max(), fall / _ALONG)
    off, rest = min(decays, key=lambda fit: fit[0])
    if off > allowed or not -_TOLERANCE <= rest[-1] / rate.max() <= ANNEALED:
        return None
    return Schedule(np.append(step, ahead), np.append(rate, np.maximum(rest, 0.0)))


def _decay(
    shape: Callable[[np.ndarray], np.ndarray], step: np.ndarray, rate: np.ndarray, ahead: np.ndarray,
    between: tuple[float, float],
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Return how far logged rates are off a decay of a shape, and the decay over the steps ahead.

    The shape goes from 0, at a step `between` two, to 1 at the last step; height and end are fitted.
    """

    def fitted(begin: float) -> tuple[float, np.ndarray]:
        parts = [shape(np.clip((at - begin) / (ahead[-1] - begin), 0, 1)) for at in (step, ahead)]
        seen, later = (np.stack([np.ones(len(x)), x], axis=1) for x in parts)
        height = np.linalg.lstsq(seen, rate, rcond=None)[0]
        return float(np.abs(seen @ height - rate).max()), later @ height

    best = minimize_scalar(lambda begin: fitted(begin)[0], bounds=between, method="bounded")
    return fitted(float(best.x))
