"""An update that is too large for its learning rate."""

from __future__ import annotations

import math

from toposcope.core.types import Scope
from toposcope.statistics.alarms.panel import Panel
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, SeenCheckpoint, Watched

POWERS = (0.5, 1.0)
"""Many updates together are as long as this power of their number: 1/2 if they are noise, 1 if they agree."""


class UpdateNorm(Alarm):
    """The norm of the whole update, divided by its learning rate, is far above its own history.

    The distance between checkpoints may change, so the norm is divided by the number of updates and by its
    root; only what is too large by both is one.
    """

    test = "update norm"
    share = 1.0
    next = "check the learning rate, the clipping and the batch since the last checkpoint"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._panels: tuple[Panel[str], ...] = tuple(Panel() for _ in POWERS)

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Judge the newest update."""
        rows = checkpoint.rows
        assert rows is not None
        part = rows[(rows["feature"] == of.UPDATE_NORM.name) & (rows["scope"] == Scope.MODEL)]
        norm = float(part["value"].iloc[0]) if len(part) else 0.0
        if not norm > 0:
            return []
        log, updates = math.log(norm / (checkpoint.rate or 1.0)), math.log(checkpoint.updates)
        panels = [
            panel.update({"model": ("model", log - power * updates)})
            for power, panel in zip(POWERS, self._panels, strict=True)
        ]
        judged = [panel for panel in panels if panel is not None]
        if not judged:
            return []
        level = self.spending.level()
        least = min(judged, key=lambda panel: panel.moves[0].size)
        if least.moves[0].size < 0 or least.p > level:
            return []
        fold = math.exp(least.moves[0].now - least.moves[0].before)
        sentence = f"update norm over learning rate and number of updates is {fold:.3g} times its usual value"
        return self.alarm_once(checkpoint.step, sentence, p=least.p)
