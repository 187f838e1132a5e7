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


_PLAIN = ("not finite", "content")
"""The tests whose sentence names the tensor and what happened to it."""
_STATISTICAL = ("matrix or head", "update level", "update norm", "growth")
"""The tests whose sentence counts standard deviations: they are told last."""


def events_of(alarms: Sequence[Event]) -> list[list[Event]]:
    """Return the alarms by the event that raised them, each with its plainest alarm first, in their order.

    Alarms of one run are of one event if they are at one step, or one is after the last good step of another.
    """
    event_blocks: list[list[Event]] = []
    for alarm in alarms:
        mine = next(
            (event for event in event_blocks if any(_same_event(alarm, member) for member in event)), None
        )
        if mine is None:
            event_blocks.append([alarm])
        else:
            mine.append(alarm)
    return [sorted(event, key=_plainness) for event in event_blocks]


def beside_passed(events: Sequence[list[Event]], passed: Sequence[Event]) -> list[list[Event]]:
    """Return events with the alarms of each that have passed after its open ones; others are events, too."""
    among = [list(event) for event in events]
    alone: list[Event] = []
    for alarm in passed:
        mine = next((event for event in among if any(_same_event(alarm, member) for member in event)), None)
        (alone if mine is None else mine).append(alarm)
    return [*events_of(alone), *among]


def _same_event(event: Event, other: Event) -> bool:
    if event.run != other.run:
        return False
    if event.step == other.step:
        return True
    early, late = sorted((event, other), key=lambda alarm: -1 if alarm.step is None else alarm.step)
    good = late.data.get("last_good")
    return good is not None and early.step is not None and good < early.step


def _plainness(alarm: Event) -> int:
    test = str(alarm.data.get("test", ""))
    return 0 if test in _PLAIN else 2 if test in _STATISTICAL else 1


def began(event: Sequence[Event]) -> int | None:
    """Return the first step of the alarms of an event."""
    return min((alarm.step for alarm in event if alarm.step is not None), default=None)


class RunVerdict(NamedTuple):
    """The verdict on a run, and its first ground."""

    run: str
    level: str
    ground: str


@dataclass(frozen=True, slots=True)
class FirstLine:
    """What to act on first: `said` of a `run` at a `step`; `next` says what to do after an alarm.

    `count` is the number of events with open alarms, or of problems.
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
        """Return the plainest alarm of the latest event, else the first problem, else the worst verdict.

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
            events = events_of(alarms)
            last = next(event for event in events if alarms[-1] in event)
            sentence, to_do = (str(last[0].data.get(name) or "") for name in ("sentence", "next"))
            return cls(Lead.ALARM, sentence, last[0].run, began(last), to_do, len(events))
        if problems or not checked:
            lead = Lead.PROBLEM if checked else Lead.UNCHECKED
            return cls(lead, problems[0] if problems else "", count=len(problems))
        worst = max(verdicts, key=lambda verdict: LEVELS.index(verdict.level), default=None)
        if worst is None or worst.level == ALL_RIGHT:
            return cls(Lead.NOTHING)
        return cls(Lead.VERDICT, f"{worst.level}: {worst.run}: {worst.ground}", worst.run)

    @property
    def acts(self) -> bool:
        """Whether there is something to act on in what was checked."""
        return self.lead in (Lead.ALARM, Lead.PROBLEM, Lead.VERDICT)


def verdicts_of(judgements: Mapping[str, Judgement]) -> list[RunVerdict]:
    """Return the verdicts of judgements that have a ground."""
    return [
        RunVerdict(run, judgement.level, str(judgement.grounds[0]))
        for run, judgement in judgements.items()
        if judgement.grounds
    ]


def run_problems(health: Sequence[RunHealth], odd: Sequence[Odd]) -> list[str]:
    """Return the problems with runs: those that are broken, then those that are not like their siblings."""
    return [str(state) for state in health if state.broken] + [
        f"{odd_run.run} is {odd_run.sentence}" for odd_run in odd
    ]
