"""What a rule says of a log: a remark with its level, its step and its sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

NOTICED, LOOK, STOP = "noticed", "look", "stop"
LEVELS = (NOTICED, LOOK, STOP)
"""From what needs no action to what is useless to continue unchanged."""

NOT_JUDGED = "not judged"
"""The level of what a judgement says where there is nothing to judge."""

NOT_FINITE, DIVERGING, DEAD = "not finite", "diverging", "dead run"
BROKEN = (NOT_FINITE, DIVERGING, DEAD)
"""Kinds of a run whose last losses mean nothing."""
RATE_ENDED, PLATEAU = "rate ended", "plateau"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that is said of a run: its level, its kind, the step at which it began, and what to do.

    `passed` is the step by which it was over, None while it still holds or where that has no meaning.

    >>> print(Remark(LOOK, "plateau", 200, "since step 200 the loss hardly moves", "lower the rate"))
    since step 200 the loss hardly moves; lower the rate
    """

    level: str
    kind: str
    step: float | None
    sentence: str
    remedy: str = ""
    passed: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no answer could print: a package's rule may make anything."""
        texts = (self.kind, self.sentence, self.remedy)
        if self.level not in (*LEVELS, NOT_JUDGED) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{self.level!r} is no level of {LEVELS}, or one of {texts} is no text")
        if not all(at is None or math.isfinite(at) for at in (self.step, self.passed)):
            raise ValueError(f"the step of a remark is a finite number, not {self.step!r}")

    def __str__(self) -> str:
        """Return what is wrong, and what to do."""
        return f"{self.sentence}; {self.remedy}" if self.remedy else self.sentence

    @property
    def named(self) -> str:
        """Its kind, what is wrong, and what to do; some sentences begin with their kind."""
        return str(self) if self.sentence.startswith(self.kind) else f"{self.kind}: {self}"

    @property
    def useless_on(self) -> bool:
        """Whether it is useless to continue unchanged: a plateau leaves a choice, but a forecast none."""
        return self.level == STOP or self.kind == PLATEAU
