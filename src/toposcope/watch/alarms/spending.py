"""The one place where a run's false-alarm rate is spent: a level for each look, a rest after each alarm."""

from __future__ import annotations

from dataclasses import dataclass

from toposcope.statistics.alarms.spending import level

RATE = 0.05
"""Share of healthy runs that may raise an alarm, over all tests and series of a run together."""


@dataclass(slots=True)
class Spending:
    """What one alarm of one run may spend, and has spent.

    `rate` is its share of the run's rate over all looks (0: a fixed rule, which spends nothing), `rest` the
    looks for which it is silent after it has alarmed, `looks` how often it has looked.

    >>> spending = Spending(0.05, rest=20)
    >>> spending.level(), spending.looks
    (0.025, 1)
    """

    rate: float = 0.0
    rest: int = 0
    looks: int = 0
    _silent_until: int = 0

    def level(self) -> float:
        """Count a look, and return the level at which it is tested."""
        self.looks += 1
        return level(self.rate, self.looks)

    def may_tell(self) -> bool:
        """Return whether the alarm may be raised; if so its rest begins, so that one fault is one alarm."""
        if self.looks < self._silent_until:
            return False
        self._silent_until = self.looks + self.rest
        return True
