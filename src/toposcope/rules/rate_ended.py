"""A learning rate that has ended while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.logs.remarks import RATE_ENDED
from toposcope.rules.rises import SHARES
from toposcope.rules.rule import STOP, JudgedRun, Remark, Rule

ENDED = 1e-3
"""A learning rate below this share of its peak has ended."""


class RateEnded(Rule):
    """The learning rate is below 1e-3 of its peak in the last 5% of the steps, or in the last three rows.

    The last three logged steps count where the run is known to go on.
    """

    name = RATE_ENDED
    reads = ("learning_rate",)
    level = STOP
    of_trend = False
    rate = "docs/forecasting-evidence.md, How often the health of a loss curve is right"
    says = "the learning rate has been 0 since step N; its peak was P"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare the last rates with their peak."""
        if "learning_rate" not in run.rows:
            return []
        logged = run.rows.dropna(subset=["learning_rate"])
        rate, step = logged["learning_rate"].to_numpy(float), logged["step"].to_numpy(float)
        if len(rate) < 4 or not rate.max() > 0 or rate[-1] > ENDED * rate.max():
            return []
        first = int(np.flatnonzero(rate > ENDED * rate.max())[-1]) + 1
        at, last = float(step[first]), float(step[-1])  # epochs are fractions
        ahead = run.horizon is not None and run.horizon > 1.02 * last
        if len(rate) - first < 3 if ahead else last - at < SHARES[0] * last:
            return []
        if run.horizon is not None and not ahead:
            return []
        sentence = (
            f"the learning rate has been {rate[-1]:.3g} since step {int(at):,}; its peak was {rate.max():.3g}"
        )
        remedy = "the run learns nothing more; give it a new schedule or stop"
        return [Remark(STOP, RATE_ENDED, int(at), sentence, remedy)]
