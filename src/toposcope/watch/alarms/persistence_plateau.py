"""Rieck's stopping rule: a notice, since it states no error rate."""

from __future__ import annotations

from toposcope.statistics.stopping import StoppingRule
from toposcope.watch.alarms.base import Alarm, Alert, SeenCheckpoint, Watched
from toposcope.watch.alarms.leading import followed

PATIENCE = 10
"""Rieck's rule stops after this many checks without a rise of neural persistence."""


class PersistencePlateau(Alarm):
    """The feature that the watch follows has not risen for ten checkpoints."""

    test = "persistence plateau"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._rule = StoppingRule(patience=PATIENCE)

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Report when the rule would stop."""
        assert checkpoint.rows is not None
        followed_value = followed(checkpoint.rows, checkpoint.led)
        if followed_value is None or not self._rule.update(followed_value[1]):
            return []
        sentence = f"{followed_value[0]} has not risen for {PATIENCE} checkpoints (Rieck's stopping rule)"
        return self.notice(checkpoint.step, sentence)
