"""A column that is no loss: it rises from its start, as an accuracy does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.core.wording import option
from toposcope.rules.rises import FEWEST
from toposcope.rules.rule import LOOK, JudgedRun, Remark, Rule

ACCURACY = "accuracy"
_BETTER = 0.1
"""An accuracy has risen by at least this share of its range, 0 to 1 or 0 to 100."""


class Accuracy(Rule):
    """The column rises from its start within 0 to 1 or, slowing down, within 0 to 100: it is not a loss."""

    name = ACCURACY
    rate = "0 of 37 healthy runs at five readings (docs/check.md)"
    next = "give the column of the loss"
    says = "this looks like an accuracy: it rises from A to B, within 0 to 1"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare the means of up to ten parts of the log."""
        loss, count = run.losses["loss"].to_numpy(float), len(run.losses)
        if count < 2 * FEWEST:
            return []
        parts = np.array([np.mean(part) for part in np.array_split(loss, min(10, count // 3))])
        top = 1.0 if loss.max() <= 1 else 100.0
        risen = parts[-1] - parts[0]
        falls = np.clip(-np.diff(parts), 0, None).sum()
        if loss.max() > top or risen < _BETTER * top or falls > risen / 4 or parts.argmin() > 1:
            return []
        if top > 1 and parts[len(parts) // 2] - parts[0] < 0.6 * risen:
            return []
        step = int(run.losses["step"].iloc[0])
        sentence = (
            f"this looks like an accuracy: it rises from {parts[0]:.3g} to {parts[-1]:.3g}, "
            f"within 0 to {top:.0f}"
        )
        remedy = f"give the column of the loss ({option('column')})"
        return [Remark(LOOK, ACCURACY, step, sentence, remedy)]
