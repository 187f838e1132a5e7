"""Gradual degradation: a series that should fall, but rises slowly."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from toposcope.statistics.alarms.spending import Spending

FEWEST = 8
"""The fewest blocks before the first alarm; their differences give the scale."""

MOST_BLOCKS = 64
"""The largest number of blocks: at 64, pairs are merged, so that memory and scale stay bounded."""
ALLOWANCE = 0.5
"""The cumulative sum loses this much per block, in standard deviations: slower rises are ignored."""

_CLIP = 3.0
"""One block adds at most this many standard deviations, so that a single spike is not a drift."""
_OVERSHOOT = 1.166
"""Siegmund's correction: the mean excess of a sum of normal steps over its threshold, twice .583."""


def threshold(rate: float, blocks: int) -> float:
    """Return the height that the sum exceeds in about a share `rate` of `blocks` blocks of normal noise.

    Siegmund's approximation of the mean time between false alarms, (exp(b) - b - 1) / (2 k^2) with
    b = 2 k (h + 1.166) and k the allowance of 1/2, set to blocks / rate.

    >>> round(threshold(0.01, 64), 1)
    6.9
    """
    wanted, b = 2.0 * ALLOWANCE**2 * blocks / rate, 1.0
    for _ in range(60):
        b = math.log(wanted + b + 1.0)
    return b / (2.0 * ALLOWANCE) - _OVERSHOOT


class Drift:
    """A one-sided cumulative sum of the differences between the medians of consecutive blocks.

    Whenever there are 64 blocks, their length doubles, so that memory stays bounded for a run of any length.
    The sum then restarts, and the next stretch of 64 blocks has its own part of the rate. Differences are
    scaled by their own median absolute deviation and clipped at three of them, so that one spike is not a
    drift.
    """

    def __init__(self, spending: Spending, *, block: int = 1) -> None:
        self._spending, self._length, self._stretch = spending, block, 0
        self._inside: list[float] = []
        self._blocks: deque[float] = deque()
        self._sum = 0.0

    def update(self, value: float) -> float | None:
        """Take one value; at an alarm, return the sum over its threshold and reset the sum."""
        self._inside.append(value)
        if len(self._inside) < self._length:
            return None
        self._blocks.append(float(np.median(self._inside)))
        self._inside = []
        drift = self._judge()
        if len(self._blocks) >= MOST_BLOCKS:
            blocks = list(self._blocks)
            self._blocks = deque((a + b) / 2.0 for a, b in zip(blocks[::2], blocks[1::2], strict=True))
            self._length, self._stretch, self._sum = 2 * self._length, self._stretch + 1, 0.0
        return drift

    @property
    def missing(self) -> int:
        """How many more values complete the block."""
        return self._length - len(self._inside)

    def fill(self, values: Sequence[float]) -> None:
        """Take values that do not complete the block: fewer than are `missing`."""
        self._inside += values

    def _judge(self) -> float | None:
        steps = np.diff(np.array(self._blocks))
        if len(steps) <= FEWEST:
            return None
        past, newest = steps[:-1], float(steps[-1])
        scale = 1.4826 * float(np.median(np.abs(past - np.median(past)))) * _small_sample(len(past))
        if scale <= 0:
            return None
        allowed = threshold(self._spending.level(self._stretch), MOST_BLOCKS)
        self._sum = max(0.0, self._sum + min(newest / scale, _CLIP) - ALLOWANCE)
        if self._sum <= allowed:
            return None
        excess, self._sum = self._sum / allowed, 0.0
        return excess


def _small_sample(n: int) -> float:
    """Widen a scale estimated from few differences, as Student's t does for a normal tail of 3."""
    return 1.0 + 4.0 / n
