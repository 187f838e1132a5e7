"""From what is new in a store to summaries for the sinks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.types import Kind, Scope
from toposcope.watch.journal import Event
from toposcope.watch.session import LiveStore
from toposcope.watch.sinks.base import Sink, Summary

if TYPE_CHECKING:
    import pandas as pd

MOST, LATER = 24, 4
"""Numbers of a summary, at most, those that the probes call primary first; and the places among them that are
kept for what a run's first checkpoint cannot have, such as the norm of an update."""


class Forwarder:
    """Sends every checkpoint of a store to some sinks, once; a new one begins with what comes next."""

    def __init__(self, store: str | Path, sinks: Sequence[Sink], *, begin: int | None = None) -> None:
        self._live, self._sinks = LiveStore(store), tuple(sinks)
        self._number = self._live.snapshot(0).number if begin is None and self._sinks else begin or 0
        self._names: dict[str, list[str]] = {}
        self._begun: set[str] = set()

    def forward(self) -> int:
        """Send what is new; return how many summaries that were."""
        if not self._sinks:
            return 0
        new = self._live.snapshot(self._number)
        self._number = new.number
        made = self._summaries(new.features, new.alarms)
        for summary in made:
            for sink in self._sinks:
                sink.send(summary)
        return len(made)

    def _room(self, run: str, kept: Sequence[str]) -> int:
        """Return how many further numbers a run may have: none at its first checkpoint beyond its share."""
        first = run not in self._begun
        self._begun.add(run)
        return 0 if first else MOST - len(kept)

    def _summaries(self, features: pd.DataFrame, alarms: Sequence[Event]) -> list[Summary]:
        part = features[(features["scope"] == Scope.MODEL) & features["value"].notna()]
        catalogue = self._live.store.catalogue()
        dull = catalogue[catalogue["kind"].isin([Kind.NULL, Kind.NOISE])]
        part = part[~_pairs(part).isin(_pairs(dull))]
        primary = _pairs(part).isin(_pairs(catalogue[catalogue["primary"]]))
        sentences_at = {(event.run, event.step): [] for event in alarms}  # type: dict[tuple[str, int | None], list[str]]
        for event in alarms:
            sentences_at[event.run, event.step].append(str(event.data["sentence"]))
        names = part["probe"] + "/" + part["filtration"].fillna("") + "/" + part["feature"]
        part = part.assign(tag="toposcope/" + names.str.replace("//", "/"), first=primary)
        made: dict[tuple[str, int], Summary] = {}
        for _, rows in part.groupby(["run", "step"], sort=True):
            run, step = str(rows["run"].iloc[0]), int(rows["step"].iloc[0])
            mean = rows.groupby("tag").agg(value=("value", "mean"), first=("first", "max"))
            mean = mean.sort_values(["first"], ascending=False, kind="stable")
            kept = self._names.setdefault(run, mean.index[: MOST - LATER].tolist())
            kept += [name for name in mean.index if name not in kept][: max(0, self._room(run, kept))]
            found = mean["value"].reindex(kept).dropna()
            values = dict(zip(map(str, found.index), found.tolist(), strict=True))
            made[run, step] = Summary(run, step, values, tuple(sentences_at.pop((run, step), ())))
        for (run, at), sentences in sentences_at.items():  # of steps between checkpoints
            made[run, at or 0] = Summary(run, at or 0, {}, tuple(sentences))
        return [made[key] for key in sorted(made)]


def _pairs(table: pd.DataFrame) -> pd.Series:
    return table["probe"] + "/" + table["feature"]
