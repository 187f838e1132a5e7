"""The answer after one visit of a watch: alarms, passed alarms, problems, and what was not judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposcope.logs.remarks import LOOK
from toposcope.rules.judgement import ALL_RIGHT, Judgement, worst
from toposcope.watch.checked import Checked
from toposcope.watch.first_line import FirstLine, Lead, events_of, run_problems, verdicts_of
from toposcope.watch.journal import Event
from toposcope.watch.loss_health import RunHealth
from toposcope.watch.resumes import lines_of_answers

if TYPE_CHECKING:
    from toposcope.runs.odd import Odd

_SHOWN = (
    "alarm", "notice", "segment", "vanished", "skipped", "unseen", "waiting", "measured", "health", "passed",
    "audit", "odd run", "unsent", "log", "resume", "restart",
)  # fmt: skip
NOT_JUDGED = "not judged"
"""The verdict of a watch that found nothing to check."""


@dataclass(frozen=True)
class WatchAnswer:
    """The answer after one visit: `line` is what to act on; `ok` means that there is nothing to act on.

    `judgements` are the verdicts on each run from its losses and its audit, as in `check`. `alarms` are those
    that have not passed, `passed` those whose series came back, `events` what happened in this visit. `odd`
    are the runs that are not like their siblings. `resume` is the latest answer of the journal to whether a
    run can be resumed, by the run's name in the folder.
    """

    store: Path
    alarms: tuple[Event, ...]
    passed: tuple[Event, ...]
    events: tuple[Event, ...]
    health: tuple[RunHealth, ...]
    audit: tuple[str, ...]
    checked: Checked
    not_judged: tuple[str, ...]
    stated: str
    odd: tuple[Odd, ...] = ()
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    resume: Mapping[str, Event] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there are no open alarms and no problems, and every run is all right."""
        return not self.alarms and not self.problems and self.verdict == ALL_RIGHT

    @property
    def verdict(self) -> str:
        """The verdict on the worst run: "all right", "look" or "stop", as in `check`.

        An open alarm, or an odd run, makes it at least "look". If nothing was checked, it is "not judged".
        """
        weights = [LOOK] if self.alarms or self.odd else []
        if not (weights or self.judgements or self.checked.any):
            return NOT_JUDGED
        return worst([*weights, *(judgement.level for judgement in self.judgements.values())])

    @property
    def problems(self) -> list[str]:
        """Problems that are not alarms of the watch."""
        of_runs = run_problems(self.health, self.odd)
        return [*of_runs, *_of_events(self.events), *self.checked.problems, *self.audit]

    @property
    def first(self) -> FirstLine:
        """What the first line is about."""
        verdicts = verdicts_of(self.judgements)
        return FirstLine.of(self.alarms, self.problems, verdicts, checked=self.checked.any)

    @property
    def line(self) -> str:
        """The answer in one line."""
        first, many = self.first, len(self.passed)
        more = (
            f"; {many:,} alarm{'s have' if many > 1 else ' has'} passed" if many and not self.alarms else ""
        )
        verdict = f", but {first.said}" if first.lead is Lead.VERDICT else ""
        return self.checked.answer(first) + more + verdict

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """The answer, the alarms, what happened and what else is known, each line with its indent."""
        yield self.line, ""
        for run, judgement in self.judgements.items():
            if judgement.level != ALL_RIGHT:
                yield (
                    f"verdict: {run}: {judgement.level} "
                    f"({', '.join(ground.kind for ground in judgement.grounds)})",
                    "",
                )
        quiet = ("alarm", "unseen", "resume")
        for alarms in events_of(self.alarms):
            yield from _lines_of_alarms(alarms)
        for event in (*self.passed, *(event for event in self.events if event.kind not in quiet)):
            yield from lines_of(event)
        parts = (
            ("resume", lines_of_answers(self.resume)),
            ("odd run", (f"{odd_run.run} is {odd_run.sentence}" for odd_run in self.odd)),
            ("health", map(str, self.health)), ("not checked", self.checked.problems),
            ("audit", self.audit), ("not judged", self.not_judged),
        )  # fmt: skip
        for name, sentences in parts:
            for sentence in sentences:
                yield f"{name}: {sentence}", ""
        yield f"store: {self.store}", ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "answer": self.line, "verdict": self.verdict, "store": str(self.store),
            "alarms": list(map(plain_event, self.alarms)), "passed": list(map(plain_event, self.passed)),
            "problems": self.problems, "odd": [dataclasses.asdict(odd_run) for odd_run in self.odd],
            "health": list(map(str, self.health)), "audit": list(self.audit),
            "resume": list(map(plain_event, self.resume.values())), **self.checked.to_dict(),
            "not_judged": list(self.not_judged),
            "events": list(map(plain_event, self.events)), "false_alarms": self.stated,
        }  # fmt: skip


def _lines_of_alarms(alarms: Sequence[Event]) -> Iterator[tuple[str, str]]:
    """Yield the lines of one event: its plainest alarm with what to do, then what else it raised."""
    first, *others = alarms
    yield from lines_of(first)
    for alarm in others:
        at = "" if alarm.step in (None, first.step) else f" at step {alarm.step:,}"
        yield f"also{at}: {alarm.data.get('sentence') or alarm.data.get('why') or ''}", "    "


def lines_of_visit(events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    """Yield the lines that report one visit: the alarms by what raised them, then the other events."""
    for alarms in events_of([event for event in events if event.kind == "alarm"]):
        yield from _lines_of_alarms(alarms)
    for event in events:
        if event.kind != "alarm":
            yield from lines_of(event)


def lines_of(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the lines that report an event, each with its indent; none for internal events."""
    if event.kind not in _SHOWN or (event.kind == "unseen" and not event.data["why"]):
        return
    where, data = event.place, event.data
    what = data.get("sentence") or data.get("why") or ""
    if event.kind == "measured":
        what = f"measured ({float(data['seconds']):.1f} s)"
        what += f"; tensors measured: {len(data['sampled']):,}" if data["sampled"] else ""
        what += "".join(f"; {why}" for why in data["problems"])
    if event.kind == "segment":
        what = f"continues from an earlier checkpoint of {data['of']}"
    kind = "not checked" if event.kind == "unseen" else "passed" if "passed" in data else event.kind
    where = where or data.get("sink", "")
    where = where or (data["place"] if event.kind == "unseen" and data["place"] not in what else "")
    if event.kind == "measured":
        yield f"{where} {what}".strip(), ""
    else:
        yield (f"{kind}: {where}: {what}" if where else f"{kind}: {what}"), ""
    if event.kind == "alarm" and data.get("next"):
        yield f"next: {data['next']}", "    "
    if event.kind in ("health", "odd run") or "passed" in data:
        return
    if data.get("quiet"):
        yield str(data["quiet"]), "    "
    for line in data.get("culprits", [])[:5]:
        if not any(f"{line['name']}{sep}{line['sentence']}" in what for sep in (" ", ": ")):
            yield f"{line['name']}: {line['sentence']}", "    "


def plain_event(event: Event) -> dict[str, object]:
    """Return an event as plain data, without what only a restart needs."""
    data = {key: value for key, value in event.data.items() if key not in ("files", "held")}
    return {"kind": event.kind, "run": event.run, "step": event.step, "at": event.at} | data


def _of_events(events: Sequence[Event]) -> list[str]:
    problems = [
        f"{event.place}: {why}"
        for event in events
        if event.kind == "measured"
        for why in event.data["problems"]
    ]
    problems += [f"{event.data['sink']}: {event.data['why']}" for event in events if event.kind == "unsent"]
    return problems + [
        f"{event.place}: {event.kind}, {event.data['why']}" for event in events if event.kind == "vanished"
    ]
