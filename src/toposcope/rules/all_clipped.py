"""Nearly every update of a policy is clipped, or nearly every response is cut off.

The limits follow from what the shares mean: at 1, no update passes and no response ends.
"""

from __future__ import annotations

import numpy as np

from toposcope.logs.objective import Direction
from toposcope.rules.companion import GAP, HISTORY, CompanionRule, Limits, unlimited

CLIPPED = 0.9
"""Healthy policies clip less than a third of their tokens or samples."""


class AllClipped(CompanionRule):
    """The last five clipped shares are all above 90%."""

    name = "all clipped"
    directions = (Direction.CLIPPED,)
    reads = ("loss", "clip_fraction")
    says = "clipped share (COLUMN) rose from A to B since about step N"
    next = "the policy moves too far in one update; lower the rate or the number of epochs"

    def limits(self, values: np.ndarray) -> Limits:
        """Return 90%."""
        return Limits(unlimited(values), np.full(len(values), CLIPPED))


class AllTruncated(CompanionRule):
    """The last five shares of responses that are cut off are all above 90%, and fewer than half were before.

    A run whose limit of length is small from the start may be meant so.
    """

    name = "all truncated"
    directions = (Direction.TRUNCATED,)
    reads = ("loss", "clipped_ratio")
    says = "truncated share (COLUMN) rose from A to B since about step N"
    next = "responses do not end; look at some of them, and at the limit of their length"

    def limits(self, values: np.ndarray) -> Limits:
        """Return 90% where the median of all records that are 20 back is below a half."""
        import pandas as pd

        before = pd.Series(values).expanding(HISTORY).median().shift(GAP)
        return Limits(unlimited(values), np.where(before < 0.5, CLIPPED, np.nan))
