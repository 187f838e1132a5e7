"""Whether a run will reach a loss that is wanted: its forecast against the target, at a stated level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.statistics.alarms.spending import level
from toposcope.watch.journal import Journal
from toposcope.watch.run_watch import Alert

if TYPE_CHECKING:
    from toposcope.forecasting import Curve

GROWTH = 1.25
"""A run is forecast again when its log has grown by this factor: looks are few, and so is what they cost."""

TEST = "forecast target"


@dataclass
class Target:
    """Looks at the forecasts of a store's unfinished runs, and tells when the interval leaves the target.

    Looks are counted in the store's journal: a process that begins later goes on with them.

    At its n-th look a run's interval has the level 1 - 2 a_n, where the a_n over all looks sum to `rate`: by
    the coverage of the forecasts, the share of runs that a true final loss at the target makes alarm.
    """

    store: Path
    loss: float
    rate: float
    journal: Journal
    looks: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a target that no loss can have."""
        if not self.loss > 0:
            raise InputError(f"target loss is {self.loss:g}; give one above 0")
        for event in self.journal.read():
            if event.kind == "look" and event.data.get("target") == self.loss:
                self.looks[event.run] = int(event.data["look"])
                self.seen[event.run] = int(event.data["losses"])
                self.told[event.run] = str(event.data["side"])

    def look(self) -> list[Alert]:
        """Forecast every run whose log has grown, and report those whose side of the target became clear."""
        from toposcope.study.forecasts.gather import split_runs
        from toposcope.study.forecasts.reading import Reading, read_curves

        try:
            curves, _, _ = read_curves([str(self.store)], Reading())
        except InputError:
            return []  # no loss yet
        finished, begun = split_runs(curves)
        found = []
        for curve in begun:
            if len(curve.step) < GROWTH * self.seen.get(curve.run, 0):
                continue
            self.seen[curve.run] = len(curve.step)
            found += self._judge(curve, finished)
            self.journal.append(
                "look", curve.run, int(curve.last), test=TEST, target=self.loss, look=self.looks[curve.run],
                losses=len(curve.step), side=self.told.get(curve.run, ""),
            )  # fmt: skip
        return found

    def _judge(self, curve: Curve, finished: Sequence[Curve]) -> list[Alert]:
        from toposcope.forecasting import forecast
        from toposcope.forecasting.auto import Auto

        look = self.looks[curve.run] = self.looks.get(curve.run, 0) + 1
        spent = level(self.rate, look)
        one = forecast(Auto(), curve, finished, level=1.0 - 2.0 * spent)
        if one.status != "ok":
            return []
        side = "above" if one.low > self.loss else "below" if one.high < self.loss else ""
        if side in ("", self.told.get(curve.run)):
            return []
        self.told[curve.run] = side
        sentence = (
            f"the final loss is forecast at {one.final:.4g} [{one.low:.4g}, {one.high:.4g}], {side} the "
            f"target of {self.loss:.4g}"
        )
        kind = "alarm" if side == "above" else "notice"
        return [Alert(kind, TEST, curve.run, int(curve.last), sentence, {"level": one.level})]


def watching(
    store: Path, journal: Journal, loss: float | None, rate: Callable[[str], float]
) -> Target | None:
    """Return the watch of a target, None without one."""
    return None if loss is None else Target(store, loss, rate(TEST), journal)
