"""The losses in a watch, besides its alarms: the health of `toposcope check`, and alarms that have passed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from toposcope.logs.remarks import BROKEN, NOTICED, Remark
from toposcope.rules.replaying import back_by
from toposcope.watch.alarms.base import Alert
from toposcope.watch.journal import Event, Journal
from toposcope.watch.restarts import worked_later
from toposcope.watch.resumes import resumable_since
from toposcope.watch.run_watch import RunWatch

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve
    from toposcope.runs.log_results import LogResults
    from toposcope.store import Store

AlarmKey = tuple[str, str, int | None]
"""Run, test and step of an alarm."""

REST = 20.0
"""After checking the health of all runs, a watch rests this many times its duration: it reads whole logs."""


@dataclass(frozen=True, slots=True)
class RunHealth:
    """What is wrong with a run according to its losses; prints as one line."""

    run: str
    remark: Remark

    @property
    def broken(self) -> bool:
        """Whether the run diverges or is dead, or its last losses are not finite."""
        return self.remark.kind in BROKEN

    def __str__(self) -> str:
        """Return the run, the kind of problem, its evidence and the remedy."""
        return f"{self.run}: {self.remark.named}"


@dataclass(frozen=True)
class StoredLog:
    """The log of a run in a store: rows, loss column, loss curve (None: too short) and faults.

    `remarks` are what the rules say of the losses, `wrong` what is wrong with the log.
    """

    run: str
    rows: pd.DataFrame
    column: str
    curve: Curve | None
    wrong: tuple[str, ...]
    remarks: tuple[Remark, ...]


def logs_of(store: Store, results: LogResults | None = None) -> Iterator[StoredLog]:
    """Yield the log of each run of a store; `results` caches what was computed from logs."""
    from toposcope.logs.described import loss_column
    from toposcope.runs.log_results import LogResults, remarks_of
    from toposcope.runs.reading import Reading, judged_curve, log_of_store

    results = results or LogResults()
    for run in sorted(log_of_store(store.path).runs, key=lambda run: run.name):
        if not len(run.table):
            continue
        column = loss_column(run.table)
        curve, wrong = judged_curve(run, Reading(results=results), column)
        remarks = remarks_of(curve, run.table, column, results.assess)
        yield StoredLog(run.name, run.table, column, curve, wrong, remarks)


def health_of(logs: Iterable[StoredLog]) -> list[RunHealth]:
    """Return what is wrong with each run according to its losses, in the words of `toposcope check`."""
    return [RunHealth(log.run, remark) for log in logs for remark in log.remarks if remark.level != NOTICED]


def with_passed(
    alarms: Sequence[Event], logs: Iterable[StoredLog], journal: Sequence[Event] = ()
) -> tuple[list[Event], list[Event]]:
    """Return the alarms that have not passed, and those that have, with the step.

    An alarm on the log passes by its own rule (`Alarm.passed`), one on a training's state or a restart when
    the journal says that the run can be resumed again, or that its loss is back; an alarm on the weights
    never does. `logs` are those of the store.
    """
    rows = {log.run: log.rows for log in logs}
    watches = {run: RunWatch(run) for run in {event.run for event in alarms} & set(rows)}
    passed = {
        alarm_key(event): at
        for event in alarms
        if event.run in watches
        and (at := watches[event.run].passed(Alert.of(event), rows[event.run])) is not None
    }
    return parted(alarms, {**passed, **resumable_since(alarms, journal), **worked_later(alarms, journal)})


def alarm_key(alarm: Event) -> AlarmKey:
    """Return what distinguishes an alarm from the others of a journal."""
    return alarm.run, str(alarm.data.get("test", "alarm")), alarm.step


def parted(alarms: Iterable[Event], passed: Mapping[AlarmKey, int]) -> tuple[list[Event], list[Event]]:
    """Part alarms into those that have not passed and those that have; the latter recommend nothing."""
    standing, back = [], []
    for event in alarms:
        at = passed.get(alarm_key(event))
        if at is None:
            standing.append(event)
        else:
            sentence = f"{event.data.get('sentence', '')}, {back_by(at)}"
            data = {**event.data, "sentence": sentence, "passed": at, "next": ""}
            back.append(dataclasses.replace(event, data=data))
    return standing, back


@dataclass
class HealthWatch:
    """Reports once each change in the health of a store's runs, each odd run and each passed alarm.

    It rests 20 times as long as a visit took, because it reads the whole logs; so its events may come later
    than the alarms.
    """

    store: Store
    clock: Callable[[], float] = time.monotonic
    _ready_at: float = -np.inf
    _announced: dict[tuple[str, str], str] = field(default_factory=dict)
    _odd: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _passed: set[AlarmKey] = field(default_factory=set)

    def visit(
        self, alarms: Sequence[Event], logs: Callable[[], Iterable[StoredLog]] | None = None
    ) -> list[Event]:
        """Return events that are not in the journal: changes of "health" and "odd run", and "passed".

        `logs` returns the logs of the store if they were already read.
        """
        began = self.clock()
        if began < self._ready_at:
            return []
        read = list(logs() if logs else logs_of(self.store))
        now = {(state.run, state.remark.kind): state for state in health_of(read)}
        events = [
            _event(
                "health",
                state.run,
                _whole(state.remark.step),
                kind=state.remark.kind,
                sentence=state.remark.named,
            )
            for key, state in now.items()
            if key not in self._announced
        ]
        events += [
            _event("health", run, None, kind=kind, sentence=f"{kind}: over")
            for run, kind in self._announced
            if (run, kind) not in now
        ]
        self._announced = {key: str(state) for key, state in now.items()}
        events += self._new_odd()
        open_ = [alert for alert in alarms if alarm_key(alert) not in self._passed]
        _, back = with_passed(open_, read, Journal.of(self.store.path).read())
        for event in back:
            self._passed.add(alarm_key(event))
            events.append(_event("passed", event.run, event.step, **event.data))
        self._ready_at = self.clock() + REST * (self.clock() - began)
        return events

    def _new_odd(self) -> list[Event]:
        """Return the runs that have become odd, and those that no longer are."""
        from toposcope.study.odd_measured import odd_of_store

        now = {odd_run.run: odd_run for odd_run in odd_of_store(self.store).found}
        kinds = {run: (bool(odd_run.beside), odd_run.frozen) for run, odd_run in now.items()}
        events = [
            _event("odd run", run, None, sentence=odd_run.sentence)
            for run, odd_run in now.items()
            if self._odd.get(run) != kinds[run]
        ]
        gone = [run for run in self._odd if run not in now]
        self._odd = dict(kinds)
        return [*events, *(_event("odd run", run, None, sentence="like its siblings again") for run in gone)]


def _whole(step: float | None) -> int | None:
    return None if step is None else int(step)


def _event(what: str, run: str, step: int | None, **data: object) -> Event:
    return Event(time.time_ns(), what, run, step, data)
