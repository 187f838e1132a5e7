"""Losses that rise and return: single outliers, which are only counted, and spikes of several losses.

The rates are in docs/forecasting-evidence.md, "How often the health of a loss curve is right". No constant
was set on the runs and draws of that table (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from toposcope.logs.symptoms import OUTLIERS, Symptom
from toposcope.rules.rises import Scale, noise

SPIKES = 3
"""The fewest spikes in the last half of the log for a finding."""
_SPIKE = 0.1
"""The smallest height of a spike above the median around it, in log loss."""
_AROUND = 51
"""The largest number of losses in that median."""


def spikes(step: np.ndarray, scale: Scale) -> Symptom | None:
    """Return three or more excursions of at least two losses in the last half; None if there are fewer."""
    above, first, stop = _excursions(scale)
    late = (step[first] > step[-1] / 2) & (stop - first > 1)
    first, stop = first[late], stop[late]
    separate = np.r_[True, np.diff(first) > 10] if len(first) else np.zeros(0, bool)
    if np.count_nonzero(separate) < SPIKES:
        return None
    at, highest = (
        int(step[first[0]]),
        max(_factor(scale, above, a, b) for a, b in zip(first, stop, strict=True)),
    )
    ground = (
        f"{np.count_nonzero(separate)} spikes since step {at:,}, the highest by a factor of {highest:.2g}"
    )
    return Symptom("spikes", at, ground, "look at the data and the gradient norm there, or lower the rate")


def outliers(step: np.ndarray, scale: Scale) -> Symptom | None:
    """Return how many single losses stood out by 10% and ten robust spreads and were back at the next."""
    above, first, stop = _excursions(scale)
    single = (stop - first == 1) & (stop < len(step)) & (first > 1)
    where = first[single]
    if not len(where):
        return None
    worst = where[int(np.argmax([_factor(scale, above, a, a + 1) for a in where]))]
    factor, at = _factor(scale, above, int(worst), int(worst) + 1), int(step[worst])
    what = f"1 loss stood out, at step {at:,}, by a factor of {factor:.2f}"
    if len(where) > 1:
        what = (
            f"{len(where):,} single losses stood out, the highest at step {at:,}, by a factor of {factor:.2f}"
        )
    return Symptom(
        OUTLIERS, int(step[where[0]]), f"{what}, and the next loss was normal", "nothing needs to be done"
    )


def _excursions(scale: Scale) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how far each loss is above the running median, and where excursions begin and end."""
    value = scale.value
    around = min(_AROUND, len(value) // 2 * 2 - 1) if len(value) >= 3 else 1
    middle = pd.Series(value).rolling(around, center=True, min_periods=(around + 1) // 2).median().to_numpy()
    above = value - middle
    enough = np.exp(value) - np.exp(middle) > scale.trifle * scale.won
    out = (above > max(_SPIKE, 10 * noise(value) if len(value) > 3 else math.inf)) & enough
    edges = np.flatnonzero(np.diff(np.r_[False, out, False].astype(int)))
    return above, edges[::2], edges[1::2]


def _factor(scale: Scale, above: np.ndarray, first: int, stop: int) -> float:
    """Return the ratio of the highest loss of an excursion to the running median."""
    at = first + int(np.argmax(above[first:stop]))
    middle = scale.loss(float(scale.value[at] - above[at]))
    return scale.loss(float(scale.value[at])) / max(middle, 1e-12)
