"""Whether the runs of a watch can be resumed: one event of the journal for each newest checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toposcope.sources.optimizer.resumption import RESUMABLE, Resumption
from toposcope.watch.alarms.training_state import TrainingStateFault
from toposcope.watch.journal import Event, Journal
from toposcope.watch.segments import Segments


class ResumeLog:
    """Writes into the journal whether a run can be resumed from its newest checkpoint, once for each answer.

    Checkpoints without a training's state have no such event.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        latest = latest_answers(journal.read())
        self._told = {run: (event.step, event.data["sentence"]) for run, event in latest.items()}

    def take(self, answers: Iterable[Resumption], segments: Segments) -> list[Event]:
        """Write the answers that are new, each under the name of the run's present segment."""
        events = []
        for answer in answers:
            if self._told.get(answer.run) == (answer.step, answer.line):
                continue
            self._told[answer.run] = answer.step, answer.line
            past = segments.of(answer.run)
            facets = answer.to_dict()["facets"]
            events.append(
                self._journal.append(
                    "resume", past.newest if len(past) else answer.run, answer.step, of=answer.run,
                    verdict=answer.verdict, sentence=answer.line, earlier=answer.earlier, facets=facets,
                )
            )  # fmt: skip
        return events


def latest_answers(journal: Iterable[Event]) -> dict[str, Event]:
    """Return the latest answer about each run, by the run's name in its folder."""
    return {str(event.data["of"]): event for event in journal if event.kind == "resume"}


def resumable_since(
    alarms: Sequence[Event], journal: Iterable[Event]
) -> Mapping[tuple[str, str, int | None], int]:
    """Return at which step the run of an alarm on its training's state could be resumed again.

    The answer is by run, test and step of the alarm.
    """
    answers = [event for event in journal if event.kind == "resume"]
    since_by_alarm: dict[tuple[str, str, int | None], int] = {}
    for alarm in alarms:
        if alarm.data.get("test") != TrainingStateFault.test:
            continue
        run = alarm.data.get("of", alarm.run)
        of_run = [event for event in answers if event.data["of"] == run]
        # the answer that raised the alarm: one about a later checkpoint may be of the same visit
        raised = [
            event.number for event in of_run if event.step == alarm.step and event.number < alarm.number
        ]
        later = (event for event in of_run if event.number > max(raised, default=alarm.number))
        good = (event.step for event in later if event.data["verdict"] == RESUMABLE)
        since = next((step for step in good if step is not None), None)
        if since is not None:
            since_by_alarm[alarm.run, TrainingStateFault.test, alarm.step] = since
    return since_by_alarm


def lines_of_answers(answers: Mapping[str, Event]) -> list[str]:
    """Return the latest answers in a line each, with the run's name where there are several runs."""
    many = len(answers) > 1
    return [
        f"{run} {event.data['sentence']}" if many else event.data["sentence"]
        for run, event in answers.items()
    ]
