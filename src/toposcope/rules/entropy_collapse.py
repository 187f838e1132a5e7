"""The entropy of a policy falls to 0 within a few records.

The constants were set on simulated runs (`benchmarks.policy_rates`, draws below 900). The public PPO run
(docs/check.md) was in view, whose entropy falls healthily from .64 to .05.
"""

from __future__ import annotations

import numpy as np

from toposcope.logs.objective import Direction, companions
from toposcope.rules.companion import CompanionRule, Limits, level_before, records, unlimited
from toposcope.rules.rule import LOOK, STOP, JudgedRun

FALLEN = 0.05
"""Healthy entropies fall by a factor of six in a hundred records; a collapse to a twentieth takes 40."""
_WINDOW = 20
_SAME = 10
"""A reward is constant if its last ten records are equal."""


class EntropyCollapse(CompanionRule):
    """The last five entropies are below a twentieth of the median of the 20 that end 20 records before."""

    name = "entropy collapse"
    directions = (Direction.ENTROPY,)
    reads = ("loss", "entropy")
    level = STOP
    says = "entropy (COLUMN) fell from A to B since about step N"
    next = "the policy no longer explores; go back to a checkpoint before it, with more entropy bonus or KL"

    def limits(self, values: np.ndarray) -> Limits:
        """Return a twentieth of the level before; a density's entropy, of either sign, has no limit."""
        if not len(values) or values.min() < 0:
            return Limits(unlimited(values), unlimited(values))
        return Limits(FALLEN * level_before(values, 0.5, window=_WINDOW), unlimited(values))

    def level_of(self, run: JudgedRun, step: float) -> str:
        """Return that the policy is lost if its reward is constant, too, and below what it was."""
        for column in companions(run.rows, run.column):
            if column.direction is Direction.REWARD:
                steps, reward = records(run, column)
                last, before = reward[-_SAME:], reward[steps < step]
                if len(last) == _SAME and np.ptp(last) == 0 and len(before) and last[0] < np.median(before):
                    return STOP
        return LOOK
