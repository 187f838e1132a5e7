"""What the losses of a store say beside its alarms: health as `toposcope check` has it, and what passed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposcope.analysis.judgement import back_by
from toposcope.errors import InputError
from toposcope.monitor.replay import replay

if TYPE_CHECKING:
    from toposcope.analysis.symptoms import Symptom
    from toposcope.monitor.journal import Event
    from toposcope.store import Store


def symptoms_of(store: Store) -> list[tuple[str, Symptom]]:
    """Return what is wrong with each run by its losses, as `toposcope forecast` and `check` say it."""
    from toposcope.analysis.forecast.reading import Reading, read_curves

    try:
        curves, _, _ = read_curves([str(store.path)], Reading())
    except InputError:
        return []  # no loss is known
    return [(curve.run, symptom) for curve in curves for symptom in curve.symptoms]


def with_passed(store: Store, alarms: Sequence[Event]) -> list[Event]:
    """Return the alarms; those whose series came back say by which step, and ask for nothing more."""
    passed = {
        (run, one.test, int(one.step)): int(one.passed)
        for run in {event.run for event in alarms}
        for one in replay(store.metrics(run), run)
        if one.passed is not None
    }
    return [_back(event, passed.get((event.run, event.data["test"], event.step or 0))) for event in alarms]


def _back(event: Event, passed: int | None) -> Event:
    if passed is None:
        return event
    said = f"{event.data['sentence']}, {back_by(passed)}"
    return dataclasses.replace(event, data={**event.data, "sentence": said, "passed": passed, "next": ""})
