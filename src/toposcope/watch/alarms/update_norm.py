"""An update that is too large for its learning rate."""

from __future__ import annotations

import math

from toposcope.core.types import Scope
from toposcope.statistics.alarms.panel import Panel
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, SeenCheckpoint, Watched


class UpdateNorm(Alarm):
    """The norm of the whole update, divided by its learning rate, against its own history."""

    test = "update norm"
    share = 1.0
    next = "check the learning rate, the clipping and the batch since the last checkpoint"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._panel: Panel[str] = Panel()

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Judge the newest update."""
        rows = checkpoint.rows
        assert rows is not None
        part = rows[(rows["feature"] == of.UPDATE_NORM.name) & (rows["scope"] == Scope.MODEL)]
        norm = float(part["value"].iloc[0]) if len(part) else 0.0
        if not norm > 0:
            return []
        now = norm / (checkpoint.rate or 1.0)
        judged = self._panel.update({"model": ("model", math.log(now))})
        if judged is None or judged.moves[0].size < 0 or judged.p > self.spending.level():
            return []
        before = math.exp(judged.moves[0].before)
        sentence = f"update norm over learning rate is {now:.4g}; its usual value is {before:.4g}"
        return self.alarm_once(checkpoint.step, sentence, p=judged.p)
