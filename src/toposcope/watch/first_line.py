"""The first line of a watch: one rule for the terminal, the JSON and the live page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from toposcope.rules.judgement import ALL_RIGHT, LEVELS

if TYPE_CHECKING:
    from toposcope.rules.judgement import Judgement
    from toposcope.runs.odd import Odd
    from toposcope.watch.journal import Event
    from toposcope.watch.loss_health import RunHealth


class Lead(Enum):
    """What the first line is about, in the order in which it is looked for."""

    ALARM = "an open alarm"
    UNCHECKED = "nothing was checked"
    PROBLEM = "a problem"
    VERDICT = "the verdict on a run"
    NOTHING = "nothing to act on"


class RunVerdict(NamedTuple):
    """The verdict on a run, and its first ground."""

    run: str
    level: str
    ground: str


@dataclass(frozen=True, slots=True)
class FirstLine:
    """What to act on first: `said` of a `run` at a `step`; `next` says what to do after an alarm.

    `count` is the number of open alarms, or of problems.
    """

    lead: Lead
    said: str = ""
    run: str = ""
    step: int | None = None
    next: str = ""
    count: int = 0

    @classmethod
    def of(
        cls,
        alarms: Sequence[Event],
        problems: Sequence[str],
        verdicts: Sequence[RunVerdict],
        *,
        checked: bool,
    ) -> FirstLine:
        """Return the latest open alarm, else the first problem, else the worst verdict on a run.

        Parameters
        ----------
        alarms
            The open alarms, the latest last.
        problems
            What is wrong without being an alarm of the watch, the worst first.
        verdicts
            The verdicts on the runs.
        checked
            Whether any checkpoint or loss was checked: otherwise the line says so, and why.

        Examples
        --------
        >>> FirstLine.of([], [], [RunVerdict("a", "look", "plateau")], checked=True).said
        'look: a: plateau'
        """
        if alarms:
            last = alarms[-1]
            said, to_do = (str(last.data.get(name) or "") for name in ("sentence", "next"))
            return cls(Lead.ALARM, said, last.run, last.step, to_do, len(alarms))
        if problems or not checked:
            lead = Lead.PROBLEM if checked else Lead.UNCHECKED
            return cls(lead, problems[0] if problems else "", count=len(problems))
        worst = max(verdicts, key=lambda one: LEVELS.index(one.level), default=None)
        if worst is None or worst.level == ALL_RIGHT:
            return cls(Lead.NOTHING)
        return cls(Lead.VERDICT, f"{worst.level}: {worst.run}: {worst.ground}", worst.run)

    @property
    def acts(self) -> bool:
        """Whether there is something to act on in what was checked."""
        return self.lead in (Lead.ALARM, Lead.PROBLEM, Lead.VERDICT)


def verdicts_of(judgements: Mapping[str, Judgement]) -> list[RunVerdict]:
    """Return the verdicts of judgements that have a ground."""
    return [RunVerdict(run, one.level, str(one.grounds[0])) for run, one in judgements.items() if one.grounds]


def run_problems(health: Sequence[RunHealth], odd: Sequence[Odd]) -> list[str]:
    """Return the problems with runs: those that are broken, then those that are not like their siblings."""
    return [str(one) for one in health if one.broken] + [f"{one.run} is {one.sentence}" for one in odd]
