"""The gradient norm of a policy leaves the range of its own history and stays there.

The constants were set on simulated runs (`benchmarks.policy_rates`, draws below 900). The public PPO run
(docs/check.md) was in view, whose gradient norms reach 20 times their median.
"""

from __future__ import annotations

import numpy as np

from toposcope.logs.objective import Direction
from toposcope.rules.companion import CompanionRule, Limits, level_before, unlimited

TIMES = 4.0
_HIGH, _WINDOW = 0.9, 200
_GAP, _SLOW = 6, 40
"""A jump is told early in a run; a rise over 20 records only once there is a history of 40."""


class PolicyGradient(CompanionRule):
    """The last five gradient norms all exceed four times the 90% quantile of the earlier ones."""

    name = "gradient norm of the policy"
    directions = (Direction.GRADIENT,)
    reads = ("loss", "grad_norm")
    says = "gradient norm (COLUMN) rose from A to B since about step N"
    next = "look at the reward and the KL there; go on from a checkpoint before it, with a lower rate"

    def limits(self, values: np.ndarray) -> Limits:
        """Return four times the top of the range so far."""
        fast = level_before(values, _HIGH, window=_WINDOW, gap=_GAP)
        slow = level_before(values, _HIGH, window=_WINDOW, fewest=_SLOW)
        above = TIMES * np.fmin(fast, slow)
        above[~(above > 0)] = np.nan
        return Limits(unlimited(values), above)
