"""The replayed alarms of the logs of stores, with the settings of their watches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from toposcope.rules.replaying import Replays
from toposcope.store import Store
from toposcope.watch.alarms.base import AlarmSettings
from toposcope.watch.journal import Journal


def replays_of(store: Path) -> Replays:
    """Return the replays of the logs of one store, with the settings of its watch."""
    return Replays(_has_target(store))


def replays_by_run(stores: Iterable[Path]) -> Replays:
    """Return the replays of runs from several sources, each with the settings of the watch of its store.

    Runs of no store have no settings. If several stores hold a run, the first with a target counts.
    """
    targets: dict[str, bool] = {}
    for path in stores:
        if _has_target(path):
            store = Store.open(path)
            for run in (*store.runs()["run"], *store.metrics()["run"].unique()):
                targets[str(run)] = True
    return Replays(targets=targets)


def _has_target(store: Path) -> bool:
    return AlarmSettings.of(Journal.of(store).read()).target is not None
