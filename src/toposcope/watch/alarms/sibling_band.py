"""A seed whose loss leaves the band of the other seeds at the same step."""

from __future__ import annotations

from array import array

import numpy as np

from toposcope.statistics.alarms.siblings import FEWEST, above_band
from toposcope.watch.alarms.base import Alarm, Alert, OtherRuns, SeenCheckpoint, Watched


class SiblingBand(Alarm):
    """The loss at a checkpoint is above the band of at least three other seeds of the same model.

    Each checkpoint is judged once, when three other seeds have reached its step. The journal records which
    were judged, because what the other seeds have by then depends on the time.
    """

    test = "sibling band"
    share = 1.0
    next = "compare its settings and its data with those of the other seeds"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._tested = {event.step for event in watched.tests}
        self._open = array("q")
        self.spending.resume(max((int(event.data["look"]) for event in watched.tests), default=0))

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Note the step: it is judged once the other seeds have reached it."""
        if checkpoint.step not in self._tested:
            self._open.append(checkpoint.step)
        return []

    def on_store(self, store: OtherRuns) -> list[Alert]:
        """Judge every step that three other seeds have reached."""
        seeds = store.seeds(self.run) if self._open and self.run in store.losses else ()
        if len(seeds) < FEWEST:
            return []
        own_losses = store.losses[self.run].at(self._open)
        others = np.stack([store.losses[name].at(self._open) for name in seeds])
        ready = np.isfinite(own_losses) & (np.isfinite(others).sum(axis=0) >= FEWEST)
        alerts: list[Alert] = []
        for place in np.flatnonzero(ready):
            alerts += self._test(self._open[place], float(own_losses[place]), others[:, place])
        self._open = array("q", [step for step, at in zip(self._open, ready, strict=True) if not at])
        return alerts

    def _test(self, step: int, loss: float, others: np.ndarray) -> list[Alert]:
        p, alerts = above_band(loss, others.tolist()), []
        if p <= self.spending.level():
            many = int(np.isfinite(others).sum())
            alerts = self.alarm(
                step, f"loss {loss:.4g} is above the band of {many:,} other seeds at this step", p=p
            )
        record = Alert("look", self.test, self.run, step, "", {"look": self.spending.tests})
        return [*alerts, record]  # in this order: if the process is killed in between, the next tests again
