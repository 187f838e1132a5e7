"""The responses of a policy become many times shorter or longer within a few records.

The constants were set on simulated runs (`benchmarks.policy_rates`, draws below 900). The public PPO run
(docs/check.md) was in view.
"""

from __future__ import annotations

import numpy as np

from toposcope.logs.objective import Direction
from toposcope.rules.companion import CompanionRule, Limits, level_before

TIMES = 5.0
"""Responses that learn to reason grow fivefold over a thousand steps, not over 40."""
_WINDOW = 20


class ResponseLength(CompanionRule):
    """The last five lengths are all under a fifth, or all over five times the median of 20 to 40 before."""

    name = "response length"
    directions = (Direction.LENGTH,)
    reads = ("loss", "response_length")
    says = "response length (COLUMN) fell from A to B since about step N"
    next = "look at some responses, and at what rewards them"

    def limits(self, values: np.ndarray) -> Limits:
        """Return a fifth and five times the level before."""
        level = level_before(values, 0.5, window=_WINDOW)
        return Limits(level / TIMES, level * TIMES)
