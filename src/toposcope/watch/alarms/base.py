"""The protocol of an alarm, and the data that it receives."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from toposcope.rules.rule import LogRow
from toposcope.statistics.alarms.spending import Spending

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve
    from toposcope.watch.journal import Event


FORECAST_TARGET = "forecast target"
"""The test of the target loss. The records of other tests may have a target of their own."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A message: an alarm of a named test, a notice without an error rate, or the record of a test.

    `kind` is the kind of the journal's event: "alarm", "notice" or "look".
    """

    kind: str
    test: str
    run: str
    step: int
    sentence: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, event: Event) -> Alert:
        """Return the alert that an event of the journal records."""
        data = event.data
        sentence = str(data.get("sentence", ""))
        return cls(event.kind, str(data["test"]), event.run, event.step or 0, sentence, data)


class CulpritKind(IntEnum):
    """Why a tensor or head is named, in the order of the table."""

    BROKEN = 0
    CONTENT = 1
    CHANGE = 2
    MOVE = 3


@dataclass(frozen=True, slots=True)
class Culprit:
    """A tensor or head that an alarm names at a checkpoint; `line` is its line in the table of culprits.

    Within a kind, the largest `size` comes first. A `doubtful` culprit is listed only below another one.
    """

    kind: CulpritKind
    name: str
    line: Mapping[str, object]
    head: int = -1
    size: float = 0.0
    doubtful: bool = False


@dataclass(slots=True)
class SeenCheckpoint:
    """A checkpoint as the alarms see it, and the culprits that they name.

    `rows` are its features as in the store, `since` is the step of the previous checkpoint (-1 without one),
    `rate` the mean learning rate of the updates between the two (0 if unknown), `planned` the steps at which
    the run will be measured (None if unknown), `led` the store's leading features, `woken` the matrices of
    which rows are used for the first time.
    """

    step: int
    rows: pd.DataFrame | None = None
    since: int = -1
    rate: float = 0.0
    planned: np.ndarray | None = None
    led: Sequence[Mapping[Hashable, Any]] = ()
    culprits: list[Culprit] = field(default_factory=list)
    woken: frozenset[str] = frozenset()
    compared: bool = False
    """Whether every matrix was compared with its own history."""

    @property
    def updates(self) -> int:
        """The number of updates since the previous checkpoint, at least 1."""
        return max(self.step - self.since, 1)

    @property
    def says(self) -> bool:
        """Whether there is enough for a table of culprits."""
        return self.compared or any(culprit.kind < CulpritKind.CHANGE for culprit in self.culprits)

    def summary(self) -> SeenCheckpoint:
        """Return what is kept of a judged checkpoint: its step and its culprits."""
        return replace(self, rows=None, planned=None, led=())


class ByStep:
    """Numbers by step, 16 bytes each.

    >>> known = ByStep()
    >>> known.put(10, 2.0), known.put(5, 3.0), known.put(10, 2.5), known.at([10, 7]).tolist()
    (None, None, None, [2.5, nan])
    """

    __slots__ = ("_steps", "_values")

    def __init__(self) -> None:
        self._steps, self._values = array("q"), array("d")

    def put(self, step: int, value: float) -> None:
        """Store the number of a step; it replaces an earlier one."""
        place = bisect.bisect_left(self._steps, step)
        if place < len(self._steps) and self._steps[place] == step:
            self._values[place] = value
        else:
            self._steps.insert(place, step)
            self._values.insert(place, value)

    def at(self, steps: Sequence[int]) -> np.ndarray:
        """Return the numbers of steps, NaN where there is none."""
        wanted, known_steps = np.asarray(steps, np.int64), np.array(self._steps, np.int64)
        values_found = np.full(len(wanted), np.nan)
        there = np.isin(wanted, known_steps)
        values_found[there] = np.array(self._values)[np.searchsorted(known_steps, wanted[there])]
        return values_found


@dataclass(frozen=True, slots=True)
class OtherRuns:
    """What an alarm sees of the other runs: losses by step, the other seeds of a run, forecast curves.

    `curves` returns the finished and the unfinished runs; it reads the store once for all alarms.
    """

    losses: Mapping[str, ByStep]
    seeds: Callable[[str], Sequence[str]]
    curves: Callable[[], tuple[Sequence[Curve], Sequence[Curve]]]


@dataclass(frozen=True, slots=True)
class AlarmSettings:
    """The settings of the alarms: `target` is the final loss to reach."""

    target: float | None = None

    @classmethod
    def of(cls, journal: Iterable[Event]) -> AlarmSettings:
        """Return the settings of the latest watch, by its journal."""
        stated = [event.data["target"] for event in journal if event.kind == "settings"]
        return cls(stated[-1] if stated else None)


@dataclass(frozen=True, slots=True)
class Watched:
    """What an alarm starts with: its run, its false-alarm rate, the settings, its tests in the journal."""

    run: str
    spending: Spending
    settings: AlarmSettings = AlarmSettings()
    tests: Sequence[Event] = ()


class Alarm:
    """One alarm of one run: it receives the rows of the store in the order of the steps, and raises alerts.

    Its state must follow from these rows alone, so that a fresh process, which receives all of them again,
    raises the same alerts. State that does not (when it tested, with what) goes into the journal as an
    `Alert` of kind "look", and comes back as `Watched.tests`.
    """

    test: ClassVar[str]
    """Its name in messages."""
    share: ClassVar[float] = 0.0
    """Its share of the run's false-alarm rate, relative to the other alarms' shares; 0 for a fixed rule."""
    rest: ClassVar[int] = 20
    """For how many tests it stays silent after an alarm."""
    next: ClassVar[str] = "look at the checkpoints before and after it"
    """What to do after an alarm, in one clause; `{back}` becomes the last good step."""

    def __init__(self, watched: Watched) -> None:
        self.run, self.spending = watched.run, watched.spending

    @classmethod
    def wanted(cls, settings: AlarmSettings) -> bool:
        """Return whether these settings ask for this alarm; raise InputError if they are impossible."""
        return True

    def on_metrics(self, row: LogRow) -> Sequence[Alert]:
        """Take a row of the log."""
        return ()

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> Sequence[Alert]:
        """Take a measured checkpoint, and add the culprits that it shows to `checkpoint.culprits`."""
        return ()

    def on_event(self, event: Event) -> Sequence[Alert]:
        """Take an event of the journal: what the sidecar did or could not do."""
        return ()

    def on_store(self, store: OtherRuns) -> Sequence[Alert]:
        """Compare the run with the others, after all new rows were taken."""
        return ()

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step of the log at which the alarm passed; None if it has not."""
        return None

    def alarm(self, step: int, sentence: str, **data: Any) -> list[Alert]:
        """Return an alarm."""
        return [Alert("alarm", self.test, self.run, step, sentence, data)]

    def alarm_once(self, step: int, sentence: str, **data: Any) -> list[Alert]:
        """Return an alarm, or nothing while the alarm rests."""
        return self.alarm(step, sentence, **data) if self.spending.may_tell() else []

    def notice(self, step: int, sentence: str, **data: Any) -> list[Alert]:
        """Return a notice: worth knowing, but not an alarm."""
        return [Alert("notice", self.test, self.run, step, sentence, data)]


def culprits(checkpoint: SeenCheckpoint, most: int = 8) -> list[dict[str, object]]:
    """Return what moved most, against its own history, at one checkpoint; each matrix or head once.

    The list is empty if no check failed and even the largest move lies within the noise.
    """
    culprit_lines: list[dict[str, object]] = []
    named: set[tuple[str, int]] = set()
    for suspect in sorted(checkpoint.culprits, key=lambda one: (one.kind, -one.size)):
        at = (suspect.name, suspect.head)
        is_listed = suspect.kind >= CulpritKind.CHANGE and at in named
        if is_listed or (
            suspect.doubtful and not culprit_lines
        ):  # a doubtful culprit is listed only after a certain one
            continue
        if suspect.kind > CulpritKind.BROKEN:
            named.add(at)
        culprit_lines.append(dict(suspect.line))
    return culprit_lines[:most]
