"""Whether a run will reach its target loss: the forecast compared with the target, at a stated level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.watch.alarms.base import FORECAST_TARGET, Alarm, AlarmSettings, Alert, OtherRuns, Watched

if TYPE_CHECKING:
    from toposcope.forecasting import Curve

GROWTH = 1.25
"""A run is forecast again when its log has grown by this factor: few tests cost little."""


class ForecastTarget(Alarm):
    """The forecast interval of an unfinished run excludes the target.

    At the n-th test, the interval of a run has the level 1 - 2 a_n, where the a_n of all tests sum to the
    rate. If the forecasts have their nominal coverage, this is the share of false alarms among runs whose
    true final loss equals the target. Tests are counted in the journal: a later process continues the count.
    """

    test = FORECAST_TARGET
    share = 1.0
    next = "change the plan or the target; to see where another plan ends: {forecast}"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        assert watched.settings.target is not None
        self._target = watched.settings.target
        self.losses, self.side = 0, ""
        """The number of losses at the last test, and the reported side of the target."""
        for event in watched.tests:
            if event.data.get("target") == self._target:
                self.spending.resume(int(event.data["look"]))
                self.losses, self.side = int(event.data["losses"]), str(event.data["side"])

    @classmethod
    def wanted(cls, settings: AlarmSettings) -> bool:
        """Return whether there is a target; refuse one that is not a possible loss."""
        if settings.target is not None and not settings.target > 0:
            raise InputError(
                "no loss can be this", argument="target_loss", value=settings.target,
                remedy="give one above 0",
            )  # fmt: skip
        return settings.target is not None

    def on_store(self, store: OtherRuns) -> list[Alert]:
        """Forecast the run when its log has grown; alarm when its side of the target is clear."""
        finished, unfinished = store.curves()
        curve = next((curve for curve in unfinished if curve.run == self.run), None)
        if curve is None or len(curve.step) < GROWTH * self.losses:
            return []
        self.losses = len(curve.step)
        alerts = self._judge(curve, finished)
        record = {
            "target": self._target, "look": self.spending.tests, "losses": self.losses, "side": self.side
        }  # fmt: skip
        return [*alerts, Alert("look", self.test, self.run, int(curve.last), "", record)]

    def _judge(self, curve: Curve, finished: Sequence[Curve]) -> list[Alert]:
        from toposcope.forecasting import forecast
        from toposcope.forecasting.auto import Auto

        ahead = forecast(Auto(), curve, finished, level=1.0 - 2.0 * self.spending.level())
        if ahead.status != "ok" or ahead.not_yet:
            return []
        side = "above" if ahead.low > self._target else "below" if ahead.high < self._target else ""
        if side in ("", self.side):
            return []
        self.side = side
        sentence = (
            f"the final loss is forecast at {ahead.final:.4g} [{ahead.low:.4g}, {ahead.high:.4g}], {side} "
            f"the "
            f"target of {self._target:.4g}"
        )
        tell = self.alarm if side == "above" else self.notice
        return tell(int(curve.last), sentence, level=ahead.level)
