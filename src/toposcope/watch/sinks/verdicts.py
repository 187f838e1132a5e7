"""Send the verdicts of a check to an experiment tracker: one line for each run."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from toposcope.logs.remarks import LOOK, STOP
from toposcope.rules.judgement import ALL_RIGHT
from toposcope.watch.sinks.base import Sink, Summary, refusal

if TYPE_CHECKING:
    from toposcope.runs import Check, RunCheck

LEVEL = "toposcope/level"
_NUMBERS = {ALL_RIGHT: 0.0, LOOK: 1.0, STOP: 2.0}
"""The level as a number, for a chart; a run that is not judged has none."""


def verdicts(answer: Check) -> list[Summary]:
    """Return one summary for each run of a check: its line, its last step and its level as a number.

    The summary of a run that needs an action has its line as an alarm, too, so that a tracker with alerts
    raises one.
    """
    names = Counter(run.run for run in answer.runs)
    return [_verdict(run, run.run if names[run.run] == 1 else run.name) for run in answer.runs]


def _verdict(check: RunCheck, name: str) -> Summary:
    level = {LEVEL: _NUMBERS[check.level]} if check.level in _NUMBERS else {}
    alarms = (check.line,) if check.level in (LOOK, STOP) else ()
    return Summary(name, int(check.step or 0), level, alarms, check.line)


def send_verdicts(answer: Check, sink: Sink) -> str:
    """Send the verdict on each run of a check; return what a tracker has refused, "" if nothing.

    What the tracker prints goes to stderr, so that it does not mix with the answer.
    """
    with redirect_stdout(sys.stderr):
        for summary in verdicts(answer):
            try:
                sink.send(summary)
            except Exception as error:  # every tracker raises its own exceptions, and none may end a check
                return f"the verdict on {summary.run} could not be sent to {sink.kind}: {refusal(error)}"
    return ""
