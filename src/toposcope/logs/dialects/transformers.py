"""transformers' Trainer as it prints: `{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.1}`.

The records have no step. It comes from the progress bar before a record (`| 500/10000 [`). Without a bar, it
follows from the epoch and the numbers printed before training (`Num Epochs = 3`, `Total optimization steps =
1,000`). Without these, records are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record, number

COUNTED = "record"
"""The name of the step if records are counted."""
_RECORD = re.compile(r"\{'(?:loss|eval_loss)'\s*:.*?\}|\{[^{}]*'(?:loss|eval_loss)'\s*:[^{}]*\}")
_PAIR = re.compile(rf"'(?P<name>[^']{{1,80}})'\s*:\s*'?(?P<number>{NUMBER})'?\s*(?=[,}}])")
_BAR = re.compile(rf"\|\s*({STEP})/({STEP})\s*\[")
_EPOCHS = re.compile(rf"\bNum Epochs\s*=\s*({NUMBER})")
_TOTAL = re.compile(rf"\bTotal optimization steps\s*=\s*({NUMBER})")


class _Steps:
    """The step of a record: from the bar, else from the epoch, else by counting."""

    def __init__(self) -> None:
        self.epochs = self.total = self.at = 0.0
        self.counted = 0
        self.way = ""

    def look(self, line: str) -> None:
        """Read the step in a line, if it has one."""
        if "Num Epochs" in line and (found := _EPOCHS.search(line)):
            self.epochs = number(found[1])
        if "Total optimization" in line and (found := _TOTAL.search(line)):
            self.total = number(found[1])
        if "/" in line and "[" in line:
            for found in _BAR.finditer(line):
                if not self.total:
                    self.total = float(found[2])
                if float(found[2]) == self.total:
                    self.at = float(found[1])

    def of(self, said: dict[str, float], training: bool) -> dict[str, float]:
        """Return the step of a record, and the plan if known."""
        self.counted += training
        plan = {PLANNED: self.total} if self.total else {}
        if stated := next((name for name in ("step", "global_step") if name in said), None):
            return {"step": said[stated], **plan}
        if not self.way:
            self.way = (
                "bar" if self.at else "epoch" if self.total and self.epochs and said.get("epoch") else COUNTED
            )
        if self.way == "bar":
            return {"step": self.at, **plan}
        if self.way == "epoch":
            return {"step": float(round(said.get("epoch", 0.0) / self.epochs * self.total)), **plan}
        return {COUNTED: float(self.counted), **plan}


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each printed record, without the summary at the end of training."""
    steps = _Steps()
    for line in lines:
        at = 0
        for found in _RECORD.finditer(line) if "loss'" in line else ():
            steps.look(line[at : found.start()])
            at = found.end()
            said = pairs(found[0], _PAIR)
            if "train_runtime" not in said:
                yield {**said, **steps.of(said, "loss" in said)}
        steps.look(line[at:])


DIALECT = TextDialect(
    "transformers",
    ("'loss'", "'eval_loss'"),
    re.compile(r"\{[^{}]*'(?:loss|eval_loss)'\s*:\s*'?[-+\dni]"),
    records,
)
