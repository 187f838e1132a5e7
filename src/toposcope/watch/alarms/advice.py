"""What to do after an alarm, in one clause."""

from __future__ import annotations

from toposcope.core.wording import rendered
from toposcope.watch.alarms.base import Alarm
from toposcope.watch.alarms.registry import alarms


def next_step(test: str, good: int | None) -> str:
    """Return what to do after an alarm of a test; `good` is the last good step, if known.

    >>> next_step("not finite", 300)
    'stop, and resume from step 300: later checkpoints are unusable'
    """
    back = f" from step {good:,}" if good is not None else " from the last good checkpoint"
    said = next((one.next for one in alarms() if one.test == test), Alarm.next)
    said = said.replace("back{back}", "back" + back.replace(" from ", " to ", 1)).replace("{back}", back)
    return rendered(said)
