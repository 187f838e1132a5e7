"""Losses that rise above the running median of a log, and come back.

The rates are in docs/forecasting-evidence.md, "How often the health of a loss curve is right". No constant
was set on the runs and draws of that table (`benchmarks.health_cases`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.rules.rises import Scale, noise

_SPIKE = 0.1
"""The smallest height of a spike above the median around it, in log loss."""
_AROUND = 51
"""The largest number of losses in that median."""


@dataclass(frozen=True, slots=True)
class Excursions:
    """Where losses are above the running median: `first` and `stop` (k,) of each stretch.

    `above` (n,) is how far each loss is above it, on the `scale`.
    """

    scale: Scale
    above: np.ndarray
    first: np.ndarray
    stop: np.ndarray

    @property
    def length(self) -> np.ndarray:
        """The number of losses in each, int of shape (k,)."""
        return self.stop - self.first

    @property
    def single(self) -> np.ndarray:
        """Which are one loss, bool of shape (k,)."""
        return self.length == 1

    @property
    def rises(self) -> np.ndarray:
        """Which exceed the loss before them by the height of a spike, bool of shape (k,)."""
        value = self.scale.value
        tops = np.array([self.top(k) for k in range(len(self.first))], int)
        return value[tops] - value[np.maximum(self.first - 1, 0)] > _SPIKE

    def top(self, k: int | np.integer) -> int:
        """Return the place of the highest loss of an excursion above the running median."""
        return int(self.first[k]) + int(np.argmax(self.above[self.first[k] : self.stop[k]]))

    def around(self, place: int) -> float:
        """Return the running median at a place, as a loss."""
        return self.scale.loss(float(self.scale.value[place] - self.above[place]))

    def factor(self, k: int | np.integer) -> float:
        """Return the ratio of the highest loss of an excursion to the running median."""
        place = self.top(k)
        return self.scale.loss(float(self.scale.value[place])) / max(self.around(place), 1e-12)


def excursions(scale: Scale) -> Excursions:
    """Return the stretches above the running median by 10% and ten robust spreads, and by 1% of the fall."""
    value = scale.value
    around = min(_AROUND, len(value) // 2 * 2 - 1) if len(value) >= 3 else 1
    middle = pd.Series(value).rolling(around, center=True, min_periods=(around + 1) // 2).median().to_numpy()
    above = value - middle
    enough = np.exp(value) - np.exp(middle) > scale.trifle * scale.won
    out = (above > max(_SPIKE, 10 * noise(value) if len(value) > 3 else math.inf)) & enough
    edges = np.flatnonzero(np.diff(np.r_[False, out, False].astype(int)))
    return Excursions(scale, above, edges[::2], edges[1::2])
