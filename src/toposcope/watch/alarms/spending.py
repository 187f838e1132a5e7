"""How a run's false-alarm rate is spent: a level for each look, and a rest after each alarm."""

from __future__ import annotations

from dataclasses import dataclass

from toposcope.statistics.alarms.spending import level

RATE = 0.05
"""Share of healthy runs that may raise an alarm, over all tests and series of a run together."""


@dataclass(slots=True)
class Spending:
    """What one alarm of one run may spend of its false-alarm rate, and how often it has looked.

    `rate` is its share of the run's rate over all looks (0: a fixed rule, which spends nothing), `rest` the
    number of looks for which it stays silent after an alarm, `looks` the number of looks so far.

    >>> spending = Spending(0.05, rest=20)
    >>> spending.level(), spending.looks
    (0.025, 1)
    """

    rate: float = 0.0
    rest: int = 0
    looks: int = 0
    _silent_until: int = 0

    def level(self) -> float:
        """Count a look, and return the level of its test."""
        self.looks += 1
        return level(self.rate, self.looks)

    def may_tell(self) -> bool:
        """Return whether an alarm may be raised; if so, start its rest: one fault is one alarm."""
        if self.looks < self._silent_until:
            return False
        self._silent_until = self.looks + self.rest
        return True
