"""Watches one run: passes its log and checkpoints to the alarms, in the order of the steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.plugins import is_ours, spared, spared_all
from toposcope.rules.replaying import rows_of
from toposcope.rules.rule import Signal
from toposcope.statistics.alarms.spending import RATE
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, AlarmSettings, Alert, OtherRuns, SeenCheckpoint
from toposcope.watch.alarms.of_rule import rule_of_companions
from toposcope.watch.alarms.registry import alarms_of_run, family

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.watch.journal import Event

WOKEN = 1 / 32
"""The smallest share of rows that counts: more than the share that `content_checks.RENEWED_ROWS` ignores."""


class RunWatch:
    """Watches one run; give it metrics and checkpoints in the order of their steps.

    Parameters
    ----------
    run
        Its name.
    rate
        Share of healthy runs that may raise an alarm.
    settings
        The settings of the alarms.
    tests
        The recorded tests of this run, by the alarm's name.
    """

    def __init__(
        self,
        run: str,
        *,
        rate: float = RATE,
        settings: AlarmSettings | None = None,
        tests: Mapping[str, Sequence[Event]] | None = None,
    ) -> None:
        self.run = run
        self.alarms: list[Alarm] = alarms_of_run(run, family(rate, settings), settings, tests)
        self._rates, self._rows_in_use = UpdateRates(), RowsInUse()
        self._metric_step = self._checkpoint_step = -1
        self.recent: deque[SeenCheckpoint] = deque(maxlen=64)
        """The latest checkpoints, for culprits."""

    def metrics(self, table: pd.DataFrame) -> list[Alert]:
        """Take new rows of the loss history."""
        alerts: list[Alert] = []
        for row in rows_of(table):
            if row.step <= self._metric_step:
                continue
            self._metric_step = row.step
            self._rates.add(row.step, row.learning_rate)
            for alarm in self.alarms:
                alerts += spared_all(alarm.on_metrics, Alert, row)
        return alerts

    def checkpoint(
        self,
        step: int,
        rows: pd.DataFrame,
        *,
        planned: np.ndarray | None = None,
        led: Sequence[Mapping[Hashable, Any]] = (),
    ) -> list[Alert]:
        """Take the features of one checkpoint; `planned` and `led` as `SeenCheckpoint` has them."""
        if step <= self._checkpoint_step:
            return []
        since, self._checkpoint_step = self._checkpoint_step, step
        rate, woken = self._rates.between(since, step), self._rows_in_use.woken(rows)
        checkpoint = SeenCheckpoint(step, rows, since, rate, planned, led, woken=woken)
        alerts = [
            alert for alarm in self.alarms for alert in spared_all(alarm.on_checkpoint, Alert, checkpoint)
        ]
        self.recent.append(checkpoint.summary())
        return alerts

    def event(self, event: Event) -> list[Alert]:
        """Take an event of the journal about this run."""
        return [alert for alarm in self.alarms for alert in spared_all(alarm.on_event, Alert, event)]

    def beside(self, store: OtherRuns) -> list[Alert]:
        """Compare the run with the others of its store."""
        return [alert for alarm in self.alarms for alert in spared_all(alarm.on_store, Alert, store)]

    def passed(self, alert: Alert, rows: pd.DataFrame) -> int | None:
        """Return the step of the log at which an alarm passed; None if it has not."""
        if (rule := rule_of_companions(alert.test)) is not None:
            return rule().passed(Signal(alert.step, alert.sentence), rows)
        raising = next((alarm for alarm in self.alarms if alarm.test == alert.test), None)
        if raising is None or is_ours(raising.passed):
            return None if raising is None else raising.passed(alert, rows)
        return spared(raising.passed, None, alert, rows.copy())


class RowsInUse:
    """The share of each matrix's rows that no update has moved yet, as those of positions never reached."""

    def __init__(self) -> None:
        self._unused: dict[str, float] = {}

    def woken(self, rows: pd.DataFrame) -> frozenset[str]:
        """Take the features of a checkpoint; return the matrices of which unused rows began to move.

        Rows of rare tokens rest again and again, so only a share below all earlier ones counts.
        """
        part = rows[rows["feature"] == of.RESTING_ROWS.name]
        names = set()
        for name, share in zip(part["name"], part["value"], strict=True):
            before = self._unused.get(name, share)
            if share <= before - WOKEN:
                names.add(name)
            self._unused[name] = min(before, share)
        return frozenset(names)


class UpdateRates:
    """The learning rates that were logged since the last checkpoint."""

    def __init__(self) -> None:
        self._rates: deque[tuple[int, float]] = deque()
        self._rate = 0.0

    def add(self, step: int, rate: float) -> None:
        """Take in a logged rate."""
        if math.isfinite(rate):
            self._rates.append((step, float(rate)))

    def between(self, since: int, step: int) -> float:
        """Return the mean rate of the updates between two checkpoints, else the latest known, else 0.

        The rates before `step` are dropped, because the next update begins there.
        """
        rates = [rate for at, rate in self._rates if since <= at < step]
        mean = float(np.mean(rates)) if rates else 0.0
        if mean > 0:
            self._rate = mean
        while self._rates and self._rates[0][0] < step:
            self._rates.popleft()
        return self._rate
