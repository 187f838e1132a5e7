"""A bend of the feature that `watch` follows: a notice, not a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.watch.alarms.base import Alarm, Alert, SeenCheckpoint, Watched
from toposcope.watch.alarms.leading import followed

if TYPE_CHECKING:
    from toposcope.statistics.phases.online import OnlineDetector


class PhaseBoundary(Alarm):
    """The online detector finds a bend of a feature, over the planned checkpoints.

    A bend is noticed and is no alarm, so the detector has a rate of its own: 5% of runs without a bend. Of a
    share of the alarms' rate its simulated series could never reach the threshold.
    """

    test = "phase boundary"
    share = 1.0  # unspent: the other alarms keep the levels at which their rates were measured

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._phase: OnlineDetector | None = None

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Take the newest value of the followed feature."""
        assert checkpoint.rows is not None
        followed_value = followed(checkpoint.rows, checkpoint.led)
        if followed_value is None or checkpoint.planned is None:
            return []
        label, value = followed_value
        if self._phase is None:
            from toposcope.statistics.phases.online import OnlineDetector

            self._phase = OnlineDetector(checkpoint.planned)
        bend = self._phase.update(checkpoint.step, value)
        return (
            []
            if bend is None
            else self.notice(checkpoint.step, f"{label} bent at step {bend:,.0f}", bend=bend)
        )
