"""The alarm of a rule of the log: `watch` follows with it what `check` replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from toposcope.core.plugins import spared_all
from toposcope.logs.described import loss_column
from toposcope.rules import companions
from toposcope.rules.registry import looking_back
from toposcope.rules.replaying import passed_by
from toposcope.rules.rule import JudgedRun, LogRow, Rule, Signal
from toposcope.watch.alarms.base import Alarm, Alert, Watched

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.rules.companion import CompanionRule


class RuleAlarm(Alarm):
    """Passes the rows of a log to a rule that looks back, and its signals on."""

    rule: ClassVar[type[Rule]]

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._follower = self.rule(watched.spending)

    def on_metrics(self, row: LogRow) -> Sequence[Alert]:
        """Return what the rule says at a row."""
        return [
            Alert(
                "notice" if signal.noticed else "alarm",
                self.test,
                self.run,
                signal.step,
                signal.sentence,
                signal.data,
            )
            for signal in spared_all(self._follower.on_row, Signal, row)
        ]

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step of the log at which the rule's signal passed; None while it holds."""
        return passed_by(self._follower, Signal(alert.step, alert.sentence, alert.data), rows)


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


def companion_alerts(run: str, rows: pd.DataFrame) -> list[Alert]:
    """Return what the rules of the columns beside a policy's loss say of a log up to its last row.

    Each alert is the same however far the log has grown since, so the journal has it once.
    """
    judged = JudgedRun.of(rows, column=loss_column(rows))
    return [
        Alert(
            "notice" if signal.noticed else "alarm", rule.name, run, signal.step, signal.sentence, signal.data
        )
        for rule in companions.RULES
        for signal in rule().signals(judged)
    ]


def of_objective(alerts: Sequence[Alert], rows: pd.DataFrame) -> list[Alert]:
    """Return the alerts without those of rules that judge a trend, where the loss has none."""
    if not JudgedRun.of(rows, column=loss_column(rows)).policy:
        return list(alerts)
    silent = {rule.alarm_name() for rule in looking_back() if rule.of_trend}
    return [alert for alert in alerts if alert.test not in silent]


def rule_of_companions(test: str) -> type[CompanionRule] | None:
    """Return the rule of companion columns that has an alarm's name; None for another alarm."""
    return next((rule for rule in companions.RULES if rule.name == test), None)
