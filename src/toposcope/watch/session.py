"""Reads a growing store repeatedly; each time, only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from toposcope.store import Store, newest, parts
from toposcope.store.schema import FEATURES, METRICS
from toposcope.watch.journal import Event, Journal

if TYPE_CHECKING:
    import pandas as pd

_ATTEMPTS = 8
"""How often a store is read again if another process writes to it meanwhile."""


@dataclass(frozen=True, slots=True)
class SessionNews:
    """What came since a number; pass `number` to the next call.

    `metrics` and `features` have the columns of the store's tables, `events` are the journal's, alarms
    among them.
    """

    number: int
    metrics: pd.DataFrame
    features: pd.DataFrame
    events: tuple[Event, ...]

    @property
    def alarms(self) -> tuple[Event, ...]:
        """The alarms among the events."""
        return tuple(event for event in self.events if event.kind == "alarm")


class LiveStore:
    """A store that a watch, a sweep or a training run is still writing to.

    It keeps nothing but a position in the journal file, so one instance serves any number of readers, each
    with its own number. A row that was measured again comes again, with a higher number.

    >>> import tempfile
    >>> from toposcope.store import Unit
    >>> from toposcope.core.types import Row
    >>> store = Store.create(tempfile.mkdtemp(), recipe={})
    >>> live, row = LiveStore(store.path), Row("a", 1, "baselines", "weight_norm", 2.0)
    >>> store.write(Unit("a", 1, "baselines", 1, "f0"), [row])
    >>> first = live.snapshot(0)
    >>> len(first.features), len(live.snapshot(first.number).features)
    (1, 0)
    """

    def __init__(self, path: str | Path) -> None:
        self.store = Store.open(path)
        self.journal = Journal.of(self.store.path)

    def snapshot(self, since: int = 0, *, metrics: bool = True) -> SessionNews:
        """Return the metrics, features and events whose number is above `since`; everything for 0.

        With `metrics=False`, the metrics are not read and their table is empty.
        """
        for attempt in range(_ATTEMPTS):
            events = self.journal.read(since)
            try:
                features, highest = self._features(since)
            except FileNotFoundError:  # compacted away while it was read
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            if self.journal.read(events[-1].number if events else since) and attempt < _ATTEMPTS - 1:
                continue  # written to meanwhile: a number returned now could skip earlier writes
            break
        number = max([since, highest, *(event.number for event in events)])
        logged = self._metrics(since, events) if metrics else _no_metrics()
        return SessionNews(number, logged, features, tuple(events))

    def _features(self, since: int) -> tuple[pd.DataFrame, int]:
        live = parts.scan(self.store.path / "features")
        fresh = [part for part in live if part.latest > since]  # others have no newest row
        counted = newest.newest(fresh)
        written: dict[newest.Slot, int] = {}
        for slot, _, held in newest.slots(fresh):
            if counted[slot] == held.key:
                written[slot] = max(held.written, written.get(slot, 0))
        new = {slot: counted[slot] for slot, number in written.items() if number > since}
        failed = [part for part in live if part.failed] if not since else []
        current, others = newest.split(fresh, new)
        table = parts.read([*current, *failed], FEATURES, superseded=others)
        return table.to_pandas(), max(written.values(), default=0)

    def _metrics(self, since: int, events: Sequence[Event]) -> pd.DataFrame:
        if not since:
            return self.store.metrics()
        import pandas as pd

        tables = []
        for event in events:
            if event.kind == "metrics":
                span = {name: event.data[name] for name in ("first", "last")}
                tables.append(self.store.metrics(event.run, **span))
        if not tables:
            return _no_metrics()
        return pd.concat(tables).drop_duplicates(["run", "step"], keep="last").reset_index(drop=True)


def _no_metrics() -> pd.DataFrame:
    return pa.table({name: [] for name in METRICS.names}, schema=METRICS).to_pandas()
