"""A log that ends with an error: its training will not go on by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toposcope.core.forms import step_text
from toposcope.rules.rule import LOOK, JudgedRun, Remark, Rule

_STOPPED = re.compile(r"KeyboardInterrupt|CANCELLED|PREEMPT|TIME LIMIT|got signal|SystemExit")
_MEMORY = re.compile(r"out of memory|OutOfMemory|MemoryError|oom|\bOOM\b|Killed")


class BrokenOff(Rule):
    """A text log ends with a traceback, a fatal signal or a scheduler's cancellation.

    At most two lines of training follow the error, because a progress bar is drawn again as it closes. An
    error after which the training goes on counts for nothing.
    """

    name = "broken off"
    reads = ("step",)
    of_trend = False
    rate = "a fixed rule: the log says so itself"
    next = "mend its cause, and resume from the last checkpoint"
    says = "the log ends with an error after step N: the error"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Say which error the log ends with."""
        if not run.error or not len(run.rows):
            return []
        last = float(run.rows["step"].iloc[-1])
        sentence = f"the log ends with an error after step {step_text(last)}: {run.error}"
        return [Remark(LOOK, self.name, last, sentence, _remedy(run.error))]


def _remedy(error: str) -> str:
    if _STOPPED.search(error):
        return "resume it from its last checkpoint"
    if _MEMORY.search(error):
        return "take smaller batches or shorter sequences, and resume from the last checkpoint"
    return BrokenOff.next
