"""The alarm of a rule of the log: `watch` follows with it what `check` replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from toposcope.rules.rule import LogRow, Rule, Signal
from toposcope.watch.alarms.base import Alarm, Alert, Watched

if TYPE_CHECKING:
    import pandas as pd


class RuleAlarm(Alarm):
    """Passes the rows of a log to a rule that looks back, and its signals on."""

    rule: ClassVar[type[Rule]]

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._follower = self.rule(watched.spending)

    def on_metrics(self, row: LogRow) -> Sequence[Alert]:
        """Return what the rule says at a row."""
        return [
            Alert("notice" if one.noticed else "alarm", self.test, self.run, one.step, one.sentence, one.data)
            for one in self._follower.on_row(row)
        ]

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step of the log at which the rule's signal passed; None while it holds."""
        return self._follower.passed(Signal(alert.step, alert.sentence, alert.data), rows)


def alarm_of(rule: type[Rule]) -> type[Alarm]:
    """Return the alarm of a rule, with its name, its share, its rest and its advice.

    >>> from toposcope.rules.loss_spike import LossSpike
    >>> alarm = alarm_of(LossSpike)
    >>> alarm.test, alarm.share, alarm.rest
    ('loss spike', 1.0, 20)
    """
    if rule not in _ALARMS:
        _ALARMS[rule] = _made(rule)
    return _ALARMS[rule]


_ALARMS: dict[type[Rule], type[Alarm]] = {}
"""The alarm of each rule: one class, however often it is asked for."""


def _made(rule: type[Rule]) -> type[Alarm]:
    attributes = {
        "rule": rule, "test": rule.alarm_name(), "share": rule.share, "rest": rule.rest, "next": rule.next,
        "__doc__": rule.__doc__, "__module__": __name__,
    }  # fmt: skip
    return type(f"{rule.__name__}Alarm", (RuleAlarm,), attributes)
