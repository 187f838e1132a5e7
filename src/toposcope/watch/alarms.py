"""Judge what a growing store has new, and write alarms with their culprits into its journal."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.types import Use
from toposcope.sources.belonging import groups_of
from toposcope.sources.content import NOT_FINITE
from toposcope.statistics.alarms.siblings import FEWEST, above_band
from toposcope.statistics.alarms.spending import AlarmFamily, level
from toposcope.study.catalogue import leading_features
from toposcope.subjects.catalogue import completed
from toposcope.topology.early_stopping import StoppingRule
from toposcope.watch.advice import next_step
from toposcope.watch.journal import Event
from toposcope.watch.run_watch import RATE, TESTS, Alert, PanelLook, RunWatch, culprits, followed
from toposcope.watch.session import LiveStore
from toposcope.watch.target import TEST, watching

if TYPE_CHECKING:
    import pandas as pd

PATIENCE = 10
"""Checks without a rise of neural persistence after which Rieck's rule would stop."""


class Watchman:
    """Reads a store again and again, and appends what is wrong to its journal.

    It holds no state that the store does not: a new one reads everything from the start, comes to the same
    alarms, and leaves out those that the journal has.

    Parameters
    ----------
    path
        The store.
    rate
        Share of healthy runs that may raise an alarm.
    target
        A final loss that is wanted: alarm when a run's forecast says that it will be missed.
    """

    def __init__(self, path: str | Path, *, rate: float = RATE, target: float | None = None) -> None:
        self._live = LiveStore(path)
        self.journal = self._live.journal
        self.family = AlarmFamily(rate, TESTS if target is None else {**TESTS, TEST: 1.0})
        self._target = watching(self._live.store.path, self.journal, target, self.family.rate_of)
        self._number = 0
        self._listed: pd.DataFrame | None = None
        self._runs: dict[str, RunWatch] = {}
        self._led: Sequence[Mapping[Hashable, Any]] = ()
        self._persistence: dict[str, StoppingRule] = {}
        self._losses: dict[str, ByStep] = {}
        self._band_looks: dict[str, int] = {}
        self._told = {_key(event) for event in self.journal.read() if event.kind in ("alarm", "notice")}
        self._open: list[Alert] = [
            Alert("alarm", event.data["test"], event.run, event.step or 0, event.data["sentence"])
            for event in self.journal.read()
            if event.kind == "alarm" and "compared" not in event.data and not event.data.get("culprits")
        ]

    def stated(self) -> str:
        """Return the false-alarm rate in words."""
        return (
            f"false alarms in at most {self.family.rate:.0%} of healthy runs by design, over "
            f"{len(self.family.shares)} tests together; see docs/watch.md for what was measured"
        )

    def judge(self) -> list[Event]:
        """Take in what the store has new; return the alarms and notices that follow from it."""
        self._led = leading_features(completed(self._live.store.catalogue()), Use.WATCH)
        new = self._live.snapshot(self._number)
        self._number, self._listed = new.number, None
        found: list[Alert] = []
        for run, table in new.metrics.groupby("run", sort=True):
            table = table.sort_values("step")
            found += self._watch(str(run)).metrics(table)
            self._remember(str(run), table)
        for run, of_run in _plain(new.features).groupby("run", sort=True):
            for at, rows in of_run.groupby("step", sort=True):
                step = int(str(at))
                found += self._watch(str(run)).checkpoint(step, rows)
                found += self._plateau(str(run), step, rows) + self._siblings(str(run), step)
        found += [alert for event in new.events if (alert := _nothing_finite(event)) is not None]
        if self._target is not None and len(new.metrics):
            found += self._target.look()
        events = [self._write(finding) for finding in found if _key(finding) not in self._told]
        return [*events, *self._complete()]

    def _watch(self, run: str) -> RunWatch:
        if run not in self._runs:
            self._runs[run] = RunWatch(run, self.family, planned=self._planned(run), led=self._led)
        return self._runs[run]

    def _planned(self, run: str) -> np.ndarray | None:
        """Return the steps at which a run will be measured, None where its configuration does not say."""
        import json

        runs = self._runs_now()
        known = runs[runs["run"] == run]
        config = json.loads(known["config"].iloc[0] or "{}") if len(known) else {}
        last = config.get("planned_steps") or config.get("steps")
        every = config.get("checkpoint_every") or config.get("save_steps")
        if not isinstance(last, int) or not isinstance(every, int) or every < 1:
            return None
        return np.arange(every, last + 1, every, dtype=float)

    def _remember(self, run: str, table: pd.DataFrame) -> None:
        column = table["heldout_loss"].fillna(table["loss"])
        kept = self._losses.setdefault(run, ByStep())
        for step, loss in zip(table["step"].astype(int), column, strict=True):
            kept.put(step, loss)

    def _siblings(self, run: str, step: int) -> list[Alert]:
        """Test a run's loss at a checkpoint against other seeds of the same model at the same step."""
        loss = self._losses[run].at(step) if run in self._losses else float("nan")
        others = [self._losses[name].at(step) for name in self._kin(run)]
        if not np.isfinite(loss) or np.isfinite(others).sum() < FEWEST:
            return []
        look = self._band_looks[run] = self._band_looks.get(run, 0) + 1
        p = above_band(loss, others)
        if p > level(self.family.rate_of("sibling band"), look):
            return []
        sentence = f"loss {loss:.4g} is above the band of {len(others)} other seeds at this step"
        return [Alert("alarm", "sibling band", run, step, sentence, {"p": p})]

    def _runs_now(self) -> pd.DataFrame:
        """Return what is known of the runs, read once for each look."""
        if self._listed is None:
            self._listed = self._live.store.runs()
        return self._listed

    def _kin(self, run: str) -> list[str]:
        runs = self._runs_now()
        own = runs[runs["run"] == run]
        if not len(own) or not own["family"].iloc[0]:
            return []
        together = next(group.runs for group in groups_of(runs) if run in group.runs)
        same = runs[runs["run"].isin(together) & (runs["parameters"] == own["parameters"].iloc[0])]
        return [name for name in same["run"] if name != run and name in self._losses]

    def _plateau(self, run: str, step: int, rows: pd.DataFrame) -> list[Alert]:
        """Say when Rieck's rule would stop: a notice, since the rule states no error rate."""
        found = followed(rows, self._led)
        if found is None:
            return []
        label, value = found
        rule = self._persistence.setdefault(run, StoppingRule(patience=PATIENCE))
        if not rule.update(value):
            return []
        sentence = f"{label} has not risen for {PATIENCE} checkpoints (Rieck's stopping rule)"
        return [Alert("notice", "persistence plateau", run, step, sentence)]

    def _write(self, finding: Alert) -> Event:
        self._told.add(_key(finding))
        data = dict(finding.data) | {"test": finding.test, "sentence": finding.sentence}
        if finding.kind == "alarm":
            look, good = self._around(finding)
            data |= {"last_good": good, "culprits": [] if look is None else culprits(look)}
            data |= {"next": next_step(finding.test, good)}
            if look is not None and not data["culprits"]:
                data |= {"quiet": f"no matrix or head moved beyond its own noise at step {look.step}"}
            if look is None:
                self._open.append(finding)
            else:
                data |= {"compared": look.step}
        return self.journal.append(finding.kind, finding.run, finding.step, **data)

    def _around(self, finding: Alert) -> tuple[PanelLook | None, int | None]:
        """Return the first judged checkpoint at or after a finding, and the step of the one before."""
        looks = list(self._watch(finding.run).looks)
        after = next((look for look in looks if look.step >= finding.step and _says(look)), None)
        until = finding.step if after is None else after.step
        good = max((look.step for look in looks if look.step < until), default=None)
        return after, good

    def _complete(self) -> list[Event]:
        """Tell the culprits of alarms that came before the checkpoint after them was there."""
        events = []
        for finding in list(self._open):
            look, good = self._around(finding)
            if look is None:
                continue
            self._open.remove(finding)
            told = Alert("notice", f"culprits of {finding.test}", finding.run, finding.step, "")
            if _key(told) in self._told:
                continue
            self._told.add(_key(told))
            named = culprits(look)
            first = (
                f"{named[0]['name']}: {named[0]['sentence']}" if named else "nothing moved beyond its noise"
            )
            events.append(
                self.journal.append(
                    "notice", finding.run, finding.step, test=told.test, culprits=named, last_good=good,
                    compared=look.step, sentence=f"after the {finding.test} alarm: {first}",
                )
            )  # fmt: skip
        return events


class ByStep:
    """Numbers by step, 16 bytes each.

    >>> known = ByStep()
    >>> known.put(10, 2.0), known.put(5, 3.0), known.put(10, 2.5), known.at(10), known.at(7)
    (None, None, None, 2.5, nan)
    """

    __slots__ = ("_steps", "_values")

    def __init__(self) -> None:
        self._steps, self._values = array("q"), array("d")

    def put(self, step: int, value: float) -> None:
        """Take in the number of a step, in the place of an earlier one."""
        place = bisect.bisect_left(self._steps, step)
        if place < len(self._steps) and self._steps[place] == step:
            self._values[place] = value
        else:
            self._steps.insert(place, step)
            self._values.insert(place, value)

    def at(self, step: int) -> float:
        """Return the number of a step, NaN without one."""
        place = bisect.bisect_left(self._steps, step)
        there = place < len(self._steps) and self._steps[place] == step
        return self._values[place] if there else float("nan")


def _nothing_finite(event: Event) -> Alert | None:
    """Return the alarm of a checkpoint of which no probe found a finite tensor: it has no rows to judge."""
    if event.kind != "measured" or event.step is None or event.data.get("units"):
        return None
    notes = [str(note) for note in event.data.get("problems", ()) if NOT_FINITE in str(note)]
    if not notes:
        return None
    first = notes[0].partition(f" {NOT_FINITE}")[0].partition("tensor ")[2].strip("'")
    sentence = f"{first} {NOT_FINITE}, and no other tensor could be measured"
    return Alert("alarm", "not finite", event.run, event.step, sentence)


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with their texts as plain objects: comparing few of them takes half the time."""
    texts = [name for name, kind in rows.dtypes.items() if kind == "string" or kind == "str"]
    return rows.astype(dict.fromkeys(texts, object))


def _says(look: PanelLook) -> bool:
    return look.judged is not None or bool(look.broken) or bool(look.faults)


def _key(at: Alert | Event) -> tuple[str, str, str, int | None]:
    test = at.test if isinstance(at, Alert) else str(at.data["test"])
    return at.kind, test, at.run, at.step
