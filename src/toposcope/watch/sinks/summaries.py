"""Makes summaries for the sinks from what is new in a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.types import Kind, Scope
from toposcope.watch.journal import Event
from toposcope.watch.session import LiveStore
from toposcope.watch.sinks.base import Sink, Summary, refusal

if TYPE_CHECKING:
    import pandas as pd

MOST, LATER = 24, 4
"""The largest number of features in a summary, primary ones first; and how many of these places are reserved
for features that a run's first checkpoint cannot have, such as the norm of an update."""


_MOST_WAITING = 10_000
"""The largest number of summaries that wait for a failing sink (some megabytes); the store has them all."""


class Forwarder:
    """Sends every new checkpoint of a store to the sinks, once; earlier checkpoints are not sent.

    If a sink refuses a summary (a server that is down, say), the next call sends it again.
    """

    def __init__(self, store: str | Path, sinks: Sequence[Sink], *, begin: int | None = None) -> None:
        self._live, self._sinks = LiveStore(store), tuple(sinks)
        self._waiting = [deque[Summary](maxlen=_MOST_WAITING) for _ in self._sinks]
        self._refusing: dict[int, str] = {}
        self._number = begin or 0
        if begin is None and self._sinks:
            self._number = self._live.snapshot(0, metrics=False).number
        self._names: dict[str, list[str]] = {}
        self._begun: set[str] = set()

    def forward(self) -> int:
        """Send new and waiting summaries; return the number of new ones."""
        if not self._sinks:
            return 0
        new = self._live.snapshot(self._number, metrics=False)
        self._number = new.number
        summaries = self._summaries(new.features, new.alarms)
        for place, (sink, waiting) in enumerate(zip(self._sinks, self._waiting, strict=True)):
            waiting.extend(summaries)
            self._send(place, sink, waiting)
        return len(summaries)

    def _send(self, place: int, sink: Sink, waiting: deque[Summary]) -> None:
        """Send the waiting summaries to a sink, in order, up to the first that it refuses."""
        self._refusing.pop(place, None)
        while waiting:
            try:
                sink.send(waiting[0])
            except Exception as error:  # every tracker raises its own exceptions, and none may end a watch
                self._refusing[place] = refusal(error)
                return
            waiting.popleft()

    @property
    def unsent(self) -> Mapping[str, str]:
        """What could not be sent to a sink in the last call, by the kind of the sink."""
        return {
            self._sinks[place].kind: f"{_counted(len(self._waiting[place]))} could not be sent: {why}"
            for place, why in self._refusing.items()
        }

    def _room(self, run: str, names: Sequence[str]) -> int:
        """Return how many more features a run may have: none at its first checkpoint beyond its share."""
        first = run not in self._begun
        self._begun.add(run)
        return 0 if first else MOST - len(names)

    def _summaries(self, features: pd.DataFrame, alarms: Sequence[Event]) -> list[Summary]:
        from toposcope.store.draws import counted, over_draws

        part = counted(features[features["scope"] == Scope.MODEL])
        catalogue = self._live.store.catalogue()
        dull = catalogue[catalogue["kind"].isin([Kind.NULL, Kind.NOISE])]
        part = part[~_pairs(part).isin(_pairs(dull))]
        primary = _pairs(part).isin(_pairs(catalogue[catalogue["primary"]]))
        sentences_at = {(event.run, event.step): [] for event in alarms}  # type: dict[tuple[str, int | None], list[str]]
        for event in alarms:
            sentences_at[event.run, event.step].append(str(event.data["sentence"]))
        names = part["probe"] + "/" + part["filtration"].fillna("") + "/" + part["feature"]
        part = part.assign(tag="toposcope/" + names.str.replace("//", "/"), first=primary)
        summaries: dict[tuple[str, int], Summary] = {}
        for _, rows in part.groupby(["run", "step"], sort=True):
            run, step = str(rows["run"].iloc[0]), int(rows["step"].iloc[0])
            mean = over_draws(rows, ["tag"]).set_index("tag")[["value"]].sort_index()
            mean = mean.join(rows.groupby("tag")["first"].max())
            mean = mean.sort_values(["first"], ascending=False, kind="stable")
            shown = self._names.setdefault(run, mean.index[: MOST - LATER].tolist())
            shown += [name for name in mean.index if name not in shown][: max(0, self._room(run, shown))]
            shown_means = mean["value"].reindex(shown).dropna()
            values = dict(zip(map(str, shown_means.index), shown_means.tolist(), strict=True))
            summaries[run, step] = Summary(run, step, values, tuple(sentences_at.pop((run, step), ())))
        for (run, at), sentences in sentences_at.items():  # of steps between checkpoints
            summaries[run, at or 0] = Summary(run, at or 0, {}, tuple(sentences))
        return [summaries[key] for key in sorted(summaries)]


def _counted(many: int) -> str:
    return "1 summary" if many == 1 else f"{many:,} summaries"


def _pairs(table: pd.DataFrame) -> pd.Series:
    return table["probe"] + "/" + table["feature"]
