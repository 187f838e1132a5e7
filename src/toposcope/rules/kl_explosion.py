"""The KL of a policy, to its reference or of an update, leaves the range of its own history.

The constants, and that medians are compared, were set on simulated runs (`benchmarks.policy_rates`, draws
below 250); draws from 900 on judge. The public PPO run (docs/check.md), whose KL grows healthily from 0, was
in view.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.logs.objective import Companion, Direction
from toposcope.rules.companion import RECENT, CompanionRule, Limits, level_before, unlimited
from toposcope.rules.rule import JudgedRun

RISEN = ((0.5, 20, 5.0), (0.9, 200, 3.0))
"""A quantile of how many earlier records, and how many times it is too much: the newest level, and the top of
the range. A KL that grows as the square of the step stays below both."""
SMALL = 0.001
"""A tenth of the target (.01) at which Spinning Up's PPO stops an update is small, whatever it was."""
_SLOW = {"gap": 20, "fewest": 40}
_FAST = {"gap": 6, "fewest": 30}
"""A jump is told early in a run; a rise over 20 records only once the KL has a history of 40. A history of 20
before a jump took the first growth of a healthy KL for one: 5 of 250 simulated GRPO runs, 1 with 30."""


class KLExplosion(CompanionRule):
    """The last five medians of five KLs exceed .001, five times the level, and 3 times the range.

    A single KL scatters by half of itself: medians are compared with the range of medians, so that a tenfold
    rise stands out of it.
    """

    name = "KL explosion"
    directions = (Direction.KL, Direction.STEP_KL)
    reads = ("loss", "kl")
    says = "KL (COLUMN) rose from A to B since about step N"
    next = "look at the reward there; a lower rate or a larger KL coefficient holds the policy back"

    def limits(self, values: np.ndarray) -> Limits:
        """Return the lower of the limits for a jump and for a rise; some estimators of KL are negative."""
        size = np.abs(values)
        slow, fast = (_top(size, **_SLOW), _top(size, **_FAST))
        above = np.fmin(slow, fast)
        above[~(above > 0)] = np.nan
        above = np.maximum(above, SMALL)  # NaN stays: there is no history yet
        return Limits(unlimited(values), above)

    def series(self, run: JudgedRun, column: Companion) -> tuple[np.ndarray, np.ndarray]:
        """Return at each record the median size of the last five KLs."""
        step, values = super().series(run, column)
        return step, pd.Series(np.abs(values)).rolling(RECENT, min_periods=1).median().to_numpy(float)


def _top(size: np.ndarray, *, gap: int, fewest: int) -> np.ndarray:
    """Return what the last five KLs would have to exceed, (n,)."""
    limits = [
        times * level_before(size, quantile, window=window, gap=gap, fewest=min(fewest, window))
        for quantile, window, times in RISEN
    ]
    limits.append(np.where(np.arange(len(size)) >= gap + fewest, -np.inf, np.nan))
    return np.max(limits, axis=0)
