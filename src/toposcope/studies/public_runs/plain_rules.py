"""Plain rules: each loss is compared with the losses before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

WINDOW = 25
"""The number of earlier losses that a plain rule uses, and that a run needs."""

Rule = Callable[[pd.DataFrame, float], bool]
"""Whether a rule fires on a log (step, loss) from a given step on."""


def above(threshold: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """Return the rule that a loss is above a threshold made from each window of losses before it.

    >>> log = pd.DataFrame({"step": range(30), "loss": [1.0] * 29 + [3.0]})
    >>> above(lambda before: 2 * np.median(before, axis=1))(log, 0)
    True
    """

    def rule(log: pd.DataFrame, since: float) -> bool:
        loss = log["loss"].to_numpy(float)
        if len(loss) <= WINDOW:
            return False
        before = np.lib.stride_tricks.sliding_window_view(loss[:-1], WINDOW)
        late = log["step"].to_numpy(float)[WINDOW:] >= since
        return bool((late & (loss[WINDOW:] > threshold(before))).any())

    return rule


def deviations(count: float) -> Rule:
    """Return the rule that a loss is `count` standard deviations above the mean."""
    return above(lambda before: before.mean(axis=1) + count * before.std(axis=1, ddof=1))


PLAIN_RULES: Mapping[str, Rule] = {
    "3 standard deviations": deviations(3),
    "5 standard deviations": deviations(5),
    "twice the median": above(lambda before: 2 * np.median(before, axis=1)),
    "a tenth above the median": above(lambda before: 1.1 * np.median(before, axis=1)),
}
