"""The loss alarms of a watch over a log that is there already: which they are, and which of them passed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from toposcope.forecasting.health.judgement import Alarmed
from toposcope.sources.history import tidy
from toposcope.statistics.alarms.residuals import LEVEL_WINDOW
from toposcope.statistics.alarms.spending import AlarmFamily
from toposcope.watch.run_watch import LOGGED, RATE, TESTS, Alert, RunWatch, back_below

if TYPE_CHECKING:
    import pandas as pd


def replay(table: pd.DataFrame, run: str = "run") -> list[Alarmed]:
    """Return the alarms that `toposcope watch` would have raised on a loss history, with where each passed.

    The rows go through the watch's own tests (`RunWatch`), at the levels that it spends. A loss or gradient
    spike has passed where the median of 8 later values (of all, where there are 3 to 7) is no more than two
    standard deviations of one value above what was expected; a drift, where the median of 8 later losses is
    no higher than the lowest such median before it; a value that is not finite, where three finite ones in
    a row follow. A gradient spike whose next three values are back is none of the alarms, but stands among
    them as passed.

    Parameters
    ----------
    table
        Columns step, loss and, where known, grad_norm, learning_rate and heldout_loss; one run.
    run
        Its name.

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
    if not whole:  # epochs: a watch counts whole steps
        rows = rows.assign(step=np.searchsorted(steps, rows["step"].to_numpy(float)))
    rows = tidy(rows.drop(columns="run", errors="ignore"), run)
    alerts = RunWatch(run, AlarmFamily(RATE, TESTS)).metrics(rows)
    made = [
        Alarmed(one.test, one.step, one.data.get("told", one.sentence), _passed(one, rows)) for one in alerts
    ]
    return made if whole else [_at(one, steps) for one in made]


def _at(alarm: Alarmed, steps: np.ndarray) -> Alarmed:
    passed = None if alarm.passed is None else float(steps[int(alarm.passed)])
    return Alarmed(alarm.test, float(steps[int(alarm.step)]), alarm.sentence, passed)


def _passed(alert: Alert, rows: pd.DataFrame) -> int | None:
    """Return the step at which the series was back where it had been expected; None where it is not yet."""
    if "back" in alert.data:
        return int(alert.data["back"])
    column = "grad_norm" if alert.test == "gradient spike" else "loss"
    known = rows[["step", column]]
    after = known[known["step"] > alert.step]
    if "expected" not in alert.data and alert.test != "loss drift":
        return _finite_again(after["step"].to_numpy(), after[column].to_numpy(float))
    after = after[np.isfinite(after[column].astype(float))]
    values = after[column].to_numpy(float)
    if len(values) < LOGGED:
        return None
    if alert.test == "loss drift":
        before = known[known["step"] <= alert.step][column].to_numpy(float)
        bound = float(_medians(before[np.isfinite(before)]).min())
    else:
        bound = back_below(alert)
    level = _medians(values)
    back = np.flatnonzero(level <= bound)
    width = len(values) - len(level) + 1
    return int(after["step"].iloc[int(back[0]) + width - 1]) if len(back) else None


def _medians(values: np.ndarray) -> np.ndarray:
    """Return the median of every 8 consecutive values; of all where there are fewer."""
    width = min(LEVEL_WINDOW, len(values))
    medians: np.ndarray = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    return medians


def _finite_again(steps: np.ndarray, values: np.ndarray) -> int | None:
    """Return the step of the third finite value in a row, of the values that are logged."""
    run = 0
    for step, value in zip(steps, values, strict=True):
        run = run + 1 if math.isfinite(value) else 0
        if run == LOGGED:
            return int(step)
    return None
