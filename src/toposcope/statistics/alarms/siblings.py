"""A seed that leaves the band of its siblings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

FEWEST = 3
"""The fewest siblings for a band."""


def above_band(value: float, siblings: Sequence[float]) -> float:
    """Return the probability that another seed lies as far above its siblings.

    t = (value - mean) / (sd sqrt(1 + 1/k)) with k - 1 degrees of freedom, as for the prediction interval of
    one more normal value. A probability of 1e-4 needs 70 standard deviations with 3 siblings, 7 with 8.

    >>> above_band(2.0, [1.0, 1.1, 0.9, 1.0]) < 0.01
    True
    >>> above_band(5.0, [1.0, 1.0])
    1.0
    """
    finite = np.array([sibling for sibling in siblings if math.isfinite(sibling)])
    if len(finite) < FEWEST or not math.isfinite(value):
        return 1.0
    spread = float(finite.std(ddof=1))
    if spread <= 0:
        return 1.0
    size = (value - float(finite.mean())) / (spread * math.sqrt(1.0 + 1.0 / len(finite)))
    from scipy.special import stdtr

    return float(stdtr(len(finite) - 1, -size))
