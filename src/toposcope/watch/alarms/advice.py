"""What to do after an alarm, in one clause."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.core.wording import command
from toposcope.rules.replaying import advised
from toposcope.watch.alarms.base import Alarm
from toposcope.watch.alarms.of_rule import rule_of_companions
from toposcope.watch.alarms.registry import alarms


def next_step(test: str, good: int | None, compared: Sequence[str] = ()) -> str:
    """Return what to do after an alarm of a test; `good` is the last good step, if known.

    `compared` are the paths of the checkpoint before the alarm and of the one at it, if they are known.

    >>> next_step("not finite", 300)
    'stop, and resume from step 300: this checkpoint is unusable'
    """
    if (rule := rule_of_companions(test)) is not None:
        return rule.next
    advice = next((alarm.next for alarm in alarms() if alarm.test == test), Alarm.next)
    how = ""
    if compared:
        before, at = compared
        how = f": {command('compare', before, at)}"
    return advised(filled(advice, how), good)


def filled(advice: str, compared: str = "") -> str:
    """Return the advice of an alarm with its commands in the reader's spelling."""
    forecast = command("forecast", "LOG", schedule="FILE")
    return advice.replace("{compared}", compared).replace("{forecast}", forecast)
