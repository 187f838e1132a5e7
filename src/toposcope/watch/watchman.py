"""Judges what is new in a growing store, and writes alarms with their culprits to its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.types import Use
from toposcope.logs.belonging import groups_of
from toposcope.logs.inputs import with_companions
from toposcope.statistics.alarms.spending import RATE
from toposcope.study.catalogue import leading_features
from toposcope.subjects.catalogue import completed
from toposcope.watch.alarms.advice import next_step
from toposcope.watch.alarms.base import AlarmSettings, Alert, ByStep, OtherRuns, SeenCheckpoint, culprits
from toposcope.watch.alarms.of_rule import companion_alerts, of_objective
from toposcope.watch.alarms.registry import family
from toposcope.watch.journal import Event
from toposcope.watch.loss_health import logs_of
from toposcope.watch.run_watch import RunWatch
from toposcope.watch.session import LiveStore

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.forecasting import Curve
    from toposcope.watch.loss_health import StoredLog

FALSE_ALARMS = (0, 145)
"""Healthy runs with an alarm of any check or a verdict on their losses, and all runs that were judged by
`python -m benchmarks.watch_rates` (2026-11-27): 15 kinds six, nine or 33 times, ten architectures, ten
optimisers, and five public models."""


class Watchman:
    """Reads a store repeatedly, and appends what is wrong to its journal.

    All its state follows from the store: a new one reads everything from the start, raises the same alarms,
    and leaves out those that the journal already has.

    Parameters
    ----------
    path
        The store.
    rate
        Share of healthy runs that may raise an alarm.
    target
        The final loss to reach; an alarm is raised when a run's forecast says that it will miss it.
    """

    def __init__(self, path: str | Path, *, rate: float = RATE, target: float | None = None) -> None:
        self._live = LiveStore(path)
        self.journal = self._live.journal
        self.settings = AlarmSettings(target)
        self.family = family(rate, self.settings)
        self._number = 0
        self._listed: pd.DataFrame | None = None
        self._runs: dict[str, RunWatch] = {}
        self._losses: dict[str, ByStep] = {}
        self._tests: dict[str, dict[str, list[Event]]] = {}
        self._announced: set[tuple[str, str, str, int | None]] = set()
        self._open: list[Alert] = []
        self._places: dict[str, dict[int, str]] = {}
        """The measured checkpoints of each run by step, under the names of the watched folder."""
        journal = self.journal.read()
        self._recorded = AlarmSettings.of(journal)
        for event in journal:
            self._recall(event)

    def _recall(self, event: Event) -> None:
        """Restore the state that an earlier process wrote."""
        self._place(event)
        if event.kind == "look":
            self._tests.setdefault(event.run, {}).setdefault(str(event.data["test"]), []).append(event)
        if event.kind in ("alarm", "notice"):
            self._announced.add(_key(event))
        if event.kind == "alarm" and "compared" not in event.data and not event.data.get("culprits"):
            self._open.append(Alert.of(event))

    def _place(self, event: Event) -> None:
        """Remember where a measured checkpoint is."""
        if event.kind == "measured" and event.step is not None and event.data.get("uri"):
            self._places.setdefault(event.run, {})[event.step] = str(event.data["uri"])

    def _compared(self, run: str, step: int | None) -> tuple[str, ...]:
        """Return the paths of the checkpoint before a step and of the one at it; nothing if one is gone."""
        places, records = self._places.get(run, {}), self._runs_now()
        of_run = Path(str(next(iter(records.loc[records["run"] == run, "uri"]), "")))
        before = max((at for at in places if step is not None and at < step), default=None)
        if before is None or step not in places:
            return ()
        values = [
            next((str(at) for at in (of_run.parent / name, of_run / name) if at.exists()), "")
            for name in (places[before], places[step])
        ]
        return tuple(values) if all(values) else ()

    def stated(self) -> str:
        """Return the false-alarm rate of the tests by design, and that of all checks as measured."""
        false, runs = FALSE_ALARMS
        tests = f"{len(self.family.shares):,} tests"
        return (
            f"false alarms of the {tests} in at most {self.family.rate:.0%} of healthy runs by design; of "
            f"all checks, fixed ones included, in {false:,} of {runs:,} healthy runs ({false / runs:.0%}) as "
            "measured in docs/watch.md"
        )

    def judge(self, logs: Callable[[], Iterable[StoredLog]] | None = None) -> list[Event]:
        """Judge what is new in the store; return the alarms and notices.

        `logs` returns the logs of the store; it is called only if a forecast needs them.
        """
        self._record_settings()
        led = leading_features(completed(self._live.store.catalogue()), Use.WATCH)
        new = self._live.snapshot(self._number)
        self._number, self._listed = new.number, None
        alerts: list[Alert] = []
        for run, table in new.metrics.groupby("run", sort=True):
            table = table.sort_values("step")
            alerts += self._on_log(str(run), table)
            self._remember(str(run), table)
        for run, of_run in _plain(new.features).groupby("run", sort=True):
            watch, planned = self._watch(str(run)), self._planned(str(run))
            for at, rows in of_run.groupby("step", sort=True):
                alerts += watch.checkpoint(int(str(at)), rows, planned=planned, led=led)
        for event in new.events:
            if event.kind == "measured":
                self._place(event)
            if event.kind in ("measured", "resume", "restart"):
                alerts += self._watch(event.run).event(event)
        if len(new.metrics) or len(new.features):
            read = logs or partial(logs_of, self._live.store)
            beside = self._beside(read if len(new.metrics) else tuple)
            for run in sorted(self._runs):
                alerts += self._runs[run].beside(beside)
        events = [self._write(finding) for finding in alerts if _key(finding) not in self._announced]
        notice = [event for event in events if event.kind != "look"]
        return [*notice, *self._complete()]

    def _on_log(self, run: str, table: pd.DataFrame) -> list[Alert]:
        """Return what new rows of a log show, a policy's by the columns beside its loss."""
        metrics = self._watch(run).metrics(table)
        store = self._live.store
        if store.companions(run) is None:
            return metrics
        rows = with_companions(store, run, store.metrics(run))
        return [*of_objective(metrics, rows), *companion_alerts(run, rows)]

    def _record_settings(self) -> None:
        """Write settings that differ from the recorded ones: what replays the alarms needs the same."""
        if self._recorded != self.settings:
            self.journal.append("settings", target=self.settings.target)
            self._recorded = self.settings

    def _watch(self, run: str) -> RunWatch:
        if run not in self._runs:
            self._runs[run] = RunWatch(
                run, rate=self.family.rate, settings=self.settings, tests=self._tests.pop(run, {})
            )
        return self._runs[run]

    def _beside(self, logs: Callable[[], Iterable[StoredLog]]) -> OtherRuns:
        """Return the other runs for the alarms; without new losses, there are no new curves."""
        curve_pairs: list[tuple[Sequence[Curve], Sequence[Curve]]] = []

        def curves() -> tuple[Sequence[Curve], Sequence[Curve]]:
            if not curve_pairs:
                curve_pairs.append(_curves(logs()))
            return curve_pairs[0]

        return OtherRuns(self._losses, self._kin, curves)

    def _planned(self, run: str) -> np.ndarray | None:
        """Return the steps at which a run will be measured; None if its configuration does not state them."""
        import json

        runs = self._runs_now()
        run_rows = runs[runs["run"] == run]
        config = json.loads(run_rows["config"].iloc[0] or "{}") if len(run_rows) else {}
        last = config.get("planned_steps") or config.get("steps")
        every = config.get("checkpoint_every") or config.get("save_steps")
        if not isinstance(last, int) or not isinstance(every, int) or every < 1:
            return None
        return np.arange(every, last + 1, every, dtype=float)

    def _remember(self, run: str, table: pd.DataFrame) -> None:
        column = table["heldout_loss"].fillna(table["loss"])
        losses = self._losses.setdefault(run, ByStep())
        for step, loss in zip(table["step"].astype(int), column, strict=True):
            losses.put(step, loss)

    def _runs_now(self) -> pd.DataFrame:
        """Return the records of the runs, read once for each visit."""
        if self._listed is None:
            self._listed = self._live.store.runs()
        return self._listed

    def _kin(self, run: str) -> list[str]:
        runs = self._runs_now()
        own_rows = runs[runs["run"] == run]
        if not len(own_rows) or not own_rows["family"].iloc[0]:
            return []
        together = next(group.runs for group in groups_of(runs) if run in group.runs)
        same = runs[runs["run"].isin(together) & (runs["parameters"] == own_rows["parameters"].iloc[0])]
        return [name for name in same["run"] if name != run and name in self._losses]

    def _write(self, finding: Alert) -> Event:
        if finding.kind == "look":
            return self.journal.append("look", finding.run, finding.step, test=finding.test, **finding.data)
        self._announced.add(_key(finding))
        data = dict(finding.data) | {"test": finding.test, "sentence": finding.sentence}
        if finding.kind == "alarm" and "compared" in finding.data:  # it names what is wrong by itself
            data |= {"culprits": [], "next": next_step(finding.test, data.get("last_good"))}
        elif finding.kind == "alarm":
            checkpoint, good = self._around(finding)
            data |= {"last_good": good, "culprits": [] if checkpoint is None else culprits(checkpoint)}
            data |= {"next": next_step(finding.test, good, self._compared(finding.run, finding.step))}
            if checkpoint is not None and not data["culprits"]:
                data |= {"quiet": f"no matrix or head moved beyond its own noise at step {checkpoint.step:,}"}
            if checkpoint is None:
                self._open.append(finding)
            else:
                data |= {"compared": checkpoint.step}
        return self.journal.append(finding.kind, finding.run, finding.step, **data)

    def _around(self, finding: Alert) -> tuple[SeenCheckpoint | None, int | None]:
        """Return the first judged checkpoint at or after a finding, and the last step before it began.

        A slow change began at the step that its alarm names (`since`).
        """
        recent = list(self._watch(finding.run).recent)
        after = next((state for state in recent if state.step >= finding.step and state.says), None)
        until = finding.step if after is None else after.step
        began = min(until, finding.data.get("since", until - 1) + 1)
        good = max((state.step for state in recent if state.step < began), default=None)
        return after, good

    def _complete(self) -> list[Event]:
        """Report the culprits of alarms that were raised before the next checkpoint existed."""
        events = []
        for finding in list(self._open):
            checkpoint, good = self._around(finding)
            if checkpoint is None:
                continue
            self._open.remove(finding)
            notice = Alert("notice", f"culprits of {finding.test}", finding.run, finding.step, "")
            if _key(notice) in self._announced:
                continue
            self._announced.add(_key(notice))
            named = culprits(checkpoint)
            first = (
                f"{named[0]['name']}: {named[0]['sentence']}" if named else "nothing moved beyond its noise"
            )
            events.append(
                self.journal.append(
                    "notice", finding.run, finding.step, test=notice.test, alarm=finding.test,
                    culprits=named, last_good=good, compared=checkpoint.step,
                    sentence=f"after the {finding.test} alarm: {first}",
                )
            )  # fmt: skip
        return events


def _curves(logs: Iterable[StoredLog]) -> tuple[Sequence[Curve], Sequence[Curve]]:
    """Return the training-loss curves of the finished runs, and of those that are not."""
    from toposcope.forecasting.ends import split_runs

    return split_runs([log.curve for log in logs if log.curve is not None and log.column == "loss"])


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with text columns as plain objects: comparing a few of them is twice as fast."""
    texts = [name for name, kind in rows.dtypes.items() if kind == "string" or kind == "str"]
    return rows.astype(dict.fromkeys(texts, object))


def _key(at: Alert | Event) -> tuple[str, str, str, int | None]:
    test = at.test if isinstance(at, Alert) else str(at.data["test"])
    return at.kind, test, at.run, at.step
