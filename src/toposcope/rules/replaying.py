"""The alarms that `watch` would have raised on an existing log, and which of them have passed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import step_text
from toposcope.core.plugins import is_ours, spared, spared_all
from toposcope.logs.metrics import columns_of, ordered
from toposcope.logs.run import all_different, by_step, digest, nan_column, wanted_rows
from toposcope.rules.judged_run import trained
from toposcope.rules.registry import family, looking_back
from toposcope.rules.rule import LOOK, NOTICED, LogRow, LogRows, Remark, Rule, Signal
from toposcope.statistics.alarms.spending import Spending

if TYPE_CHECKING:
    from toposcope.statistics.alarms.spending import AlarmFamily

READ = ("step", "loss", "grad_norm", "learning_rate", "heldout_loss")
"""The columns that the alarms of a log read."""


def replay(table: pd.DataFrame, *, target: bool = False, trend: bool = True) -> list[Remark]:
    """Return the alarms that `toposcope watch` would have raised on a loss history, with where each passed.

    The rows go through the rules that look back, as in a watch and at the same levels. A loss or gradient
    spike has passed once the median of 8 later values (of all, if there are 3 to 7) is at most two standard
    deviations of one value above the expected level; a drift, once the median of 8 later losses is no higher
    than the lowest such median before it; a value that is not finite, once three finite ones in a row follow.
    A gradient spike whose next three values are back is a notice in a watch; here it has passed, too.

    Parameters
    ----------
    table
        Columns step, loss and, where known, grad_norm, learning_rate and heldout_loss; one run.
    target
        Whether the watch has a target loss, whose alarm shares its false-alarm rate.
    trend
        Whether the loss should fall; for another one only the rules apply that need no trend.

    Examples
    --------
    >>> step = np.arange(1, 201)
    >>> loss = 2 + 5 / np.sqrt(step) + 0.01 * np.random.default_rng(0).standard_normal(200)
    >>> loss[120] *= 3
    >>> [(one.kind, one.step, one.passed) for one in replay(pd.DataFrame({"step": step, "loss": loss}))]
    [('loss spike', 121.0, 129)]
    """
    rows = by_step(wanted_rows(table, np.isfinite(table["step"].to_numpy(float))))
    steps = np.empty(0)
    whole = rows["step"].dtype == np.int64 or bool((rows["step"].astype(float) % 1 == 0).all())
    if not whole:  # fractional epochs: a watch counts whole steps
        steps = np.unique(rows["step"].to_numpy(float))
        rows = rows.assign(step=np.searchsorted(steps, rows["step"].to_numpy(float)))
    logged, rows = rows, ordered(rows.drop(columns="run", errors="ignore"), _read_of(rows))
    training = _trained_at(logged, rows["step"]) if nan_column("loss") in logged else None
    following = followers(family(target=target), trend=trend)
    in_arrays = arrays_of(rows, training)
    signals = [(place, rule, signal) for rule in following for place, signal in signals_of(rule, in_arrays)]
    remarks = []
    for _, rule, signal in sorted(
        signals, key=lambda signal: signal[0]
    ):  # at one row, in the order of the rules
        passed = passed_by(rule, signal, rows)
        if passed is not None or not signal.noticed:
            at, back = (float(signal.step), passed) if whole else _places(signal.step, passed, steps)
            remarks.append(_in_words(rule, signal, at, back))
    return remarks


def _read_of(table: pd.DataFrame) -> list[str]:
    """Return the columns that the rules read, the held-out loss where it is logged."""
    held = "heldout_loss" in columns_of(table)
    return [name for name in READ if held or name != "heldout_loss"]


def followers(spent: AlarmFamily, *, trend: bool = True) -> list[Rule]:
    """Return an object of each rule that looks back, with its share of the rate."""
    instances = [
        spared(rule, None, Spending(spent.rate_of(rule.alarm_name()) if rule.share > 0 else 0.0, rule.rest))
        for rule in looking_back()
        if trend or not rule.of_trend
    ]
    return [rule for rule in instances if rule is not None]


def passed_by(rule: Rule, signal: Signal, rows: pd.DataFrame) -> int | None:
    """Return the step at which a signal has passed, by its rule; None if a package's cannot say that."""
    if is_ours(rule.passed):
        return rule.passed(signal, rows)
    step = spared(rule.passed, None, signal, rows.copy())  # it may write into them
    return step if isinstance(step, Real) and math.isfinite(step) else None


def signals_of(rule: Rule, rows: LogRows) -> Iterator[tuple[int, Signal]]:
    """Yield what a rule says of rows that follow those it has seen, each signal with its place among them."""
    place = 0
    while place < len(rows):
        taken = spared(rule.pass_over, 0, rows, place)
        place += taken if isinstance(taken, int | np.integer) and taken > 0 else 0
        if place < len(rows):
            yield from ((place, signal) for signal in spared_all(rule.on_row, Signal, rows.row(place)))
            place += 1


def rows_of(table: pd.DataFrame) -> Iterator[LogRow]:
    """Yield the rows of a store's metrics as the rules take them."""
    rows = arrays_of(table)
    return map(rows.row, range(len(rows)))


def arrays_of(table: pd.DataFrame, training: np.ndarray | None = None) -> LogRows:
    """Return the rows of a store's metrics as the rules take them; `training` says which log training."""
    held = np.broadcast_to(np.nan, len(table))
    held = table["heldout_loss"].to_numpy(float) if "heldout_loss" in table else held
    rows = LogRows(
        table["step"].to_numpy().view(),
        table["loss"].to_numpy(float).view(),
        table["grad_norm"].to_numpy(float).view(),
        table["learning_rate"].to_numpy(float).view(),
        held.view(),
        (trained(table) if training is None else training).view(),
    )
    for name in LogRow._fields:
        column: np.ndarray = getattr(rows, name)
        column.flags.writeable = False  # each rule reads them in turn
    return rows


def back_by(step: float) -> str:
    """Return the words for an alarm that passed by a step.

    >>> back_by(2048)
    'back to normal by step 2,048'
    """
    return f"back to normal by step {step_text(step)}"


def advised(advice: str, good: int | None) -> str:
    """Return what to do after an alarm, with the last good step of the run, if known.

    >>> advised("stop, and resume{back} with a lower rate", 300)
    'stop, and resume from step 300 with a lower rate'
    >>> advised("go back{back}", None)
    'go back to the last good checkpoint'
    """
    back = f" from step {good:,}" if good is not None else " from the last good checkpoint"
    return advice.replace("back{back}", "back" + back.replace(" from ", " to ", 1)).replace("{back}", back)


@dataclass(frozen=True)
class Replays:
    """Replays each log once, as `replay` does.

    An answer may judge a run by its log twice: alone, and among the findings of its store. `target` says
    whether the watch that is repeated has a target loss; `targets` says so for runs in other stores, by name.
    """

    target: bool = False
    targets: Mapping[str, bool] = field(default_factory=dict)
    _made: dict[Hashable, list[Remark]] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, table: pd.DataFrame, run: str = "run", *, trend: bool = True) -> list[Remark]:
        """Return the alarms on a loss history; the run's name only tells which settings apply."""
        target = self.targets.get(run, self.target)
        logged = table[[name for name in (*READ, nan_column("loss")) if name in table]]
        key = (target, trend, tuple(logged.columns), len(logged), digest(logged))
        if key not in self._made:
            self._made[key] = replay(table, target=target, trend=trend)
        return self._made[key]


def _in_words(rule: Rule, signal: Signal, at: float, passed: float | None) -> Remark:
    name = rule.alarm_name()
    sentence = f"{name} at step {step_text(at)} ({signal.data.get('spike', signal.sentence)})"
    if passed is not None:
        return Remark(NOTICED, name, at, f"{sentence}, {back_by(passed)}", passed=passed)
    return Remark(LOOK, name, at, f"{sentence}, not back yet", advised(rule.next, None))


def _trained_at(logged: pd.DataFrame, steps: pd.Series) -> np.ndarray:
    """Return at which steps any row of a log logs training, bool of shape (n,)."""
    if len(logged) == len(steps) and all_different(logged["step"]):
        return trained(logged)
    by_step = pd.Series(trained(logged), index=logged["step"].to_numpy(float)).groupby(level=0).any()
    return by_step.reindex(steps.to_numpy(float), fill_value=True).to_numpy(bool)


def _places(step: int, passed: int | None, steps: np.ndarray) -> tuple[float, float | None]:
    """Return the logged steps of counted ones."""
    return float(steps[step]), None if passed is None else float(steps[passed])
