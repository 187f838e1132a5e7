"""The loss alarms that `watch` would have raised on an existing log, and which of them have passed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.logs.metrics import tidy
from toposcope.rules.judgement import Alarmed
from toposcope.store import Store
from toposcope.watch.alarms.advice import next_step
from toposcope.watch.alarms.base import AlarmSettings
from toposcope.watch.journal import Journal
from toposcope.watch.run_watch import RunWatch

if TYPE_CHECKING:
    import pandas as pd


_READ = ("step", "loss", "grad_norm", "learning_rate", "heldout_loss")
"""The columns that the alarms of a log read."""


def replay(table: pd.DataFrame, run: str = "run", settings: AlarmSettings | None = None) -> list[Alarmed]:
    """Return the alarms that `toposcope watch` would have raised on a loss history, with where each passed.

    The rows go through the alarms of a watch (`RunWatch`), at the same levels. A loss or gradient spike has
    passed once the median of 8 later values (of all, if there are 3 to 7) is at most two standard deviations
    of one value above the expected level; a drift, once the median of 8 later losses is no higher than the
    lowest such median before it; a value that is not finite, once three finite ones in a row follow. A
    gradient spike whose next three values are back is a notice in a watch; here it is listed as passed.

    Parameters
    ----------
    table
        Columns step, loss and, where known, grad_norm, learning_rate and heldout_loss; one run.
    run
        Its name.
    settings
        The settings of the watch: the alarms that they ask for share its false-alarm rate.

    Examples
    --------
    >>> import pandas as pd
    >>> step = np.arange(1, 201)
    >>> loss = 2 + 5 / np.sqrt(step) + 0.01 * np.random.default_rng(0).standard_normal(200)
    >>> loss[120] *= 3
    >>> [(one.test, one.step, one.passed) for one in replay(pd.DataFrame({"step": step, "loss": loss}))]
    [('loss spike', 121, 129)]
    """
    rows = table[np.isfinite(table["step"].astype(float))].sort_values("step", kind="stable")
    steps = np.unique(rows["step"].to_numpy(float))
    whole = bool((steps == np.floor(steps)).all())
    if not whole:  # fractional epochs: a watch counts whole steps
        rows = rows.assign(step=np.searchsorted(steps, rows["step"].to_numpy(float)))
    rows = tidy(rows.drop(columns="run", errors="ignore"), run)
    watch = RunWatch(run, settings=settings)
    alerts = [(one, watch.passed(one, rows)) for one in watch.metrics(rows)]
    made = [
        Alarmed(one.test, one.step, one.data.get("spike", one.sentence), passed, next_step(one.test, None))
        for one, passed in alerts
        if one.kind == "alarm" or passed is not None
    ]
    return made if whole else [_at(one, steps) for one in made]


@dataclass(frozen=True)
class Replays:
    """Replays each log once, as `replay` does: 100,000 rows take a second.

    An answer may judge a run by its log twice: alone, and among the findings of its store. `settings` are
    those of the watch whose alarms it repeats; `of_runs` are those of runs in other stores, by name.
    """

    settings: AlarmSettings = field(default_factory=AlarmSettings)
    of_runs: Mapping[str, AlarmSettings] = field(default_factory=dict)
    _made: dict[Hashable, list[Alarmed]] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, table: pd.DataFrame, run: str = "run") -> list[Alarmed]:
        """Return the alarms on a loss history; the run's name only tells which settings apply."""
        from toposcope.runs.log_results import content_of

        settings = self.of_runs.get(run, self.settings)
        key = (settings, content_of(table[[name for name in _READ if name in table]]))
        if key not in self._made:
            self._made[key] = replay(table, run, settings)
        return self._made[key]


def replays_of(store: Path) -> Replays:
    """Return the replays of the logs of one store, with the settings of its watch."""
    return Replays(_settings_of(store))


def replays_by_run(stores: Iterable[Path]) -> Replays:
    """Return the replays of runs from several sources, each with the settings of the watch of its store.

    Runs of no store have no settings. If several stores hold a run, the first with any settings counts.
    """
    of_runs: dict[str, AlarmSettings] = {}
    for path in stores:
        settings = _settings_of(path)
        if settings != AlarmSettings():
            store = Store.open(path)
            for run in (*store.runs()["run"], *store.metrics()["run"].unique()):
                of_runs.setdefault(str(run), settings)
    return Replays(of_runs=of_runs)


def _settings_of(store: Path) -> AlarmSettings:
    return AlarmSettings.of(Journal.of(store).read())


def _at(alarm: Alarmed, steps: np.ndarray) -> Alarmed:
    passed = None if alarm.passed is None else float(steps[int(alarm.passed)])
    return replace(alarm, step=float(steps[int(alarm.step)]), passed=passed)
