"""What a rule of a log is: it judges a log from both sides, looks back row by row as it grows, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from toposcope.logs.remarks import LOOK, NOTICED, STOP, Remark
from toposcope.rules.judged_run import JudgedRun
from toposcope.statistics.alarms.spending import Spending

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BACK", "BOTH", "HEALTH_RATE", "LOOK", "NOTICED", "STOP", "JudgedRun", "LogRow", "LogRows", "Remark",
    "Rule", "Signal",
]  # fmt: skip

BACK, BOTH = "back", "both"
"""A rule looks back only, or judges a log from both sides."""
HEALTH_RATE = (
    "of 5,815 readings of healthy language models, 1 is grave (a plateau of a finished run) and 1 calls for "
    "a look (docs/forecasting-evidence.md)"
)
"""How often the rules of the shape of a loss curve are wrong, all together."""


class LogRow(NamedTuple):
    """One row of a run's log, NaN for missing values. `training` is False for an evaluation-only row."""

    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    heldout_loss: float
    training: bool


@dataclass(frozen=True, slots=True)
class LogRows:
    """Consecutive rows of a run's log: the fields of `LogRow`, each an array of shape (n,)."""

    step: np.ndarray
    loss: np.ndarray
    grad_norm: np.ndarray
    learning_rate: np.ndarray
    heldout_loss: np.ndarray
    training: np.ndarray

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.step)

    def row(self, place: int) -> LogRow:
        """Return one of the rows."""
        return LogRow(
            int(self.step[place]),
            float(self.loss[place]),
            float(self.grad_norm[place]),
            float(self.learning_rate[place]),
            float(self.heldout_loss[place]),
            bool(self.training[place]),
        )


@dataclass(frozen=True, slots=True)
class Signal:
    """What a rule that looks back says at a row: an alarm, or (`noticed`) something worth knowing."""

    step: int
    sentence: str
    data: Mapping[str, Any] = field(default_factory=dict)
    noticed: bool = False


class Rule:
    """One rule of a log: a class in a file, and a line in `registry`.

    A rule that looks at `BOTH` sides judges the whole log (`judge`). A rule that overrides `on_row` looks
    back: `watch` makes an alarm of it, and a finished log is replayed through it, row by row. One rule may do
    both; `once` then says what both have found only once. An object judges one run.

    `Remark`s with the level `STOP` or `LOOK` are grounds of an answer; with `NOTICED` they need no action.
    """

    name: ClassVar[str]
    """Its name, which is the kind of its remarks unless it has several."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of its remarks, if there are others than its name."""
    looks: ClassVar[str] = BOTH
    """`BACK` or `BOTH`."""
    reads: ClassVar[tuple[str, ...]] = ("loss",)
    """The columns that it reads; "loss" is the judged one."""
    level: ClassVar[str] = LOOK
    """The gravest level that it asks for."""
    rate: ClassVar[str] = "not measured"
    """How often it is wrong on healthy runs, and where that was measured."""
    says: ClassVar[str] = ""
    """How it speaks: one sentence."""
    unless: ClassVar[tuple[str, ...]] = ()
    """Kinds of remarks of earlier rules that silence it: they say what it would, or that it means nothing."""
    of_trend: ClassVar[bool] = True
    """Whether it judges the loss as one that should fall; it is then silent about a policy's loss."""

    alarm: ClassVar[str] = ""
    """The name of its alarm; by default its own name."""
    share: ClassVar[float] = 0.0
    """The share of the run's false-alarm rate that its alarm spends; 0 for a fixed rule."""
    rest: ClassVar[int] = 20
    """For how many tests its alarm is silent after an alarm."""
    next: ClassVar[str] = "look at the data there"
    """What to do about it, in one clause; `{back}` becomes the last good step."""

    def __init_subclass__(cls) -> None:
        """Refuse a rule that would never be asked."""
        super().__init_subclass__()
        if cls.looks not in (BACK, BOTH):
            raise TypeError(f"a rule looks {BACK!r} or {BOTH!r}, not {cls.looks!r}")

    def __init__(self, spending: Spending | None = None) -> None:
        self.spending = spending or Spending(0.0, self.rest)

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Return what the whole log shows."""
        return ()

    def on_row(self, row: LogRow) -> Sequence[Signal]:
        """Take the next row of a log that grows; the state must follow from the rows alone."""
        return ()

    def pass_over(self, rows: LogRows, start: int) -> int:
        """Take at once the rows from place `start` that surely give no signal; return how many.

        It need not find all of them, and looks at a bounded number of rows: `on_row` takes the next one. The
        state is then the same as after `on_row` with each. It makes a log of a million rows fast.
        """
        return 0

    def passed(self, signal: Signal, rows: pd.DataFrame) -> int | None:
        """Return the step of the log at which a signal has passed; None while it holds."""
        return None

    def once(self, judged: Sequence[Remark], replayed: Sequence[Remark]) -> Sequence[Remark]:
        """Return the remarks from both sides and those of the replayed alarms, each thing once."""
        return (*judged, *replayed)

    @classmethod
    def looks_back(cls) -> bool:
        """Return whether it follows a log row by row."""
        return cls.on_row is not Rule.on_row

    @classmethod
    def speaks_of(cls) -> tuple[str, ...]:
        """Return every kind of its remarks, its alarm among them."""
        return (*(cls.kinds or (cls.name,)), cls.alarm_name())

    @classmethod
    def alarm_name(cls) -> str:
        """Return the name of its alarm."""
        return cls.alarm or cls.name

    def signal(self, step: int, sentence: str, **data: Any) -> list[Signal]:
        """Return an alarm."""
        return [Signal(step, sentence, data)]

    def signal_once(self, step: int, sentence: str, **data: Any) -> list[Signal]:
        """Return an alarm, or nothing while the alarm rests."""
        return self.signal(step, sentence, **data) if self.spending.may_tell() else []
